"""The operators that torchvision has in C++, in Python, so that its models run here.

`ops.load_library` imports this module where torchvision asks for its own ``_C`` extension, which is
linked against PyTorch. Shape rules, derivatives and autocasting are torchvision's own: it registers
them in Python. The idea of the pooling operators: sampling is bilinear, so that each box is a
product of two small matrices, one a direction, with the part of the image that it touches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from maquette.api import functions as mq
from maquette.core.dtype import bool_, int32, int64
from maquette.core.errors import check
from maquette.library import Library
from maquette.tensor.tensor import Tensor
from maquette.torch.families import deformable

_BOX = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_IMAGE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_STEPS = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask"
)
_SCHEMAS = f"""
_cuda_version() -> int
nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor
qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor
roi_align(Tensor input, Tensor rois, {_BOX}, int sampling_ratio, bool aligned) -> Tensor
_roi_align_backward(Tensor grad, Tensor rois, {_BOX}, {_IMAGE}, int sampling_ratio, bool aligned)
 -> Tensor
roi_pool(Tensor input, Tensor rois, {_BOX}) -> (Tensor, Tensor)
_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_BOX}, {_IMAGE}) -> Tensor
ps_roi_align(Tensor input, Tensor rois, {_BOX}, int sampling_ratio) -> (Tensor, Tensor)
_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_BOX},
 int sampling_ratio, {_IMAGE}) -> Tensor
ps_roi_pool(Tensor input, Tensor rois, {_BOX}) -> (Tensor, Tensor)
_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_BOX}, {_IMAGE}) -> Tensor
deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {_STEPS})
 -> Tensor
_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask,
 Tensor bias, {_STEPS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
qroi_align(Tensor input, float input_scale, int input_zero_point, Tensor rois, float rois_scale,
 int rois_zero_point, {_BOX}, int sampling_ratio, bool aligned) -> (Tensor, float, int)
box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor
"""


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The boxes that are kept, best first: none overlaps a better one by more than the threshold.

    dets: [n, 4] of x1, y1, x2, y2; scores: [n]. Gives positions, int64.
    """
    _check_scored_boxes(dets, scores)
    order = scores.argsort(descending=True, stable=True)
    boxes = dets[order]
    corners = boxes.unbind(1)
    areas = (corners[2] - corners[0]) * (corners[3] - corners[1])
    alive = mq.ones(len(order), dtype=bool_, device=dets.device)
    kept = []
    for place in range(len(order)):
        if alive[place]:
            kept.append(place)
            shared = _shared_area(boxes[place], boxes[place + 1 :])
            overlap = shared / (areas[place] + areas[place + 1 :] - shared)
            # In doubles: a third as float32 is more than a third, and overlaps of it are met.
            alive[place + 1 :] &= ~(overlap.double() > iou_threshold)
    found: Tensor = order[mq.tensor(kept, dtype=int64, device=dets.device)]
    return found


def _check_scored_boxes(dets: Tensor, scores: Tensor) -> None:
    check(dets.ndim == 2, lambda: f"nms: boxes should be a 2d tensor, got {dets.ndim}D")
    check(dets.shape[1] == 4, lambda: f"nms: boxes should have 4 columns, got {dets.shape[1]}")
    check(scores.ndim == 1, lambda: f"nms: scores should be a 1d tensor, got {scores.ndim}D")
    check(
        len(dets) == len(scores),
        lambda: f"nms: boxes and scores should be as many, got {len(dets)} and {len(scores)}",
    )
    check(
        dets.dtype == scores.dtype,
        lambda: (
            f"nms: boxes should have the same dtype as scores, got {dets.dtype} and {scores.dtype}"
        ),
    )


def _shared_area(box: Tensor, others: Tensor) -> Tensor:
    low = mq.maximum(box[:2], others[:, :2])
    sides = (mq.minimum(box[2:], others[:, 2:]) - low).clamp(min=0)
    area: Tensor = sides[:, 0] * sides[:, 1]
    return area


# --- boxes of an image, sampled ----------------------------------------------------------------


class _Axis(NamedTuple):
    """How one direction of a box is pooled: ``weights`` [pooled, last - first] of the image."""

    weights: Tensor
    first: int
    last: int


class _Box(NamedTuple):
    """A box: its image, and how its rows and columns are pooled."""

    image: int
    rows: _Axis
    columns: _Axis

    def part(self, images: Tensor) -> Tensor:
        """The part of [n, c, h, w] that the box touches, [c, ...]."""
        rows, columns = self.rows, self.columns
        found: Tensor = images[self.image, :, rows.first : rows.last, columns.first : columns.last]
        return found


def _samples(start: float, size: float, pooled: int, ratio: int) -> tuple[list[list[float]], int]:
    """The positions of one direction, by bin; and how many a bin has."""
    bin_size = size / pooled
    count = ratio if ratio > 0 else math.ceil(size / pooled)
    steps = [(i + 0.5) * bin_size / count for i in range(count)] if count > 0 else []
    return [[start + p * bin_size + step for step in steps] for p in range(pooled)], count


def _bilinear(positions: list[list[float]], length: int, like: Tensor) -> _Axis:
    weights = [[0.0] * length for _ in positions]
    for row, places in zip(weights, positions, strict=True):
        for place in places:
            if -1.0 <= place <= length:
                low = min(int(max(place, 0.0)), length - 1)
                part = max(place, 0.0) - low if low < length - 1 else 0.0
                row[low] += 1 - part
                row[min(low + 1, length - 1)] += part
    touched = [i for i in range(length) if any(row[i] for row in weights)] or [0]
    first, last = touched[0], touched[-1] + 1
    cut = [row[first:last] for row in weights]
    return _Axis(mq.tensor(cut, dtype=like.dtype, device=like.device), first, last)


def _aligned_boxes(
    like: Tensor, size: Sequence[int], rois: Tensor, scale: float, pooled: tuple[int, int],
    ratio: int, offset: float, smallest: float,
) -> Iterator[_Box]:  # fmt: skip
    numbers = (rois[:, 1:] * scale - offset).tolist()
    for image, (x1, y1, x2, y2) in zip(rois[:, 0].long().tolist(), numbers, strict=True):
        rows, down = _samples(y1, max(y2 - y1, smallest), pooled[0], ratio)
        columns, across = _samples(x1, max(x2 - x1, smallest), pooled[1], ratio)
        box = _Box(image, _bilinear(rows, size[0], like), _bilinear(columns, size[1], like))
        share = box.rows.weights / max(down * across, 1)
        yield box._replace(rows=box.rows._replace(weights=share))


_ANY = -math.inf


def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    """Each box [k, 5] of (image, x1, y1, x2, y2), averaged into [k, c, pooled_h, pooled_w]."""
    pooled = (pooled_height, pooled_width)
    shift, smallest = (0.5, _ANY) if aligned else (0.0, 1.0)
    boxes = _aligned_boxes(
        input, input.shape[2:], rois, spatial_scale, pooled, sampling_ratio, shift, smallest
    )
    rows = [box.rows.weights @ box.part(input) @ box.columns.weights.mT for box in boxes]
    return _stacked(rows, (input.shape[1], *pooled), input)


def _stacked(rows: list[Tensor], shape: tuple[int, ...], like: Tensor) -> Tensor:
    found: Tensor = mq.stack(rows) if rows else like.new_empty((0, *shape))
    return found


def roi_align_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    batch_size: int, channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    """The gradient of the images."""
    images = grad.new_zeros((batch_size, channels, height, width))
    shift, smallest = (0.5, _ANY) if aligned else (0.0, 1.0)
    pooled = (pooled_height, pooled_width)
    boxes = _aligned_boxes(
        grad, (height, width), rois, spatial_scale, pooled, sampling_ratio, shift, smallest
    )
    for box, given in zip(boxes, grad, strict=True):
        box.part(images).add_(box.rows.weights.mT @ given @ box.columns.weights)
    return images


def _bins(images: Tensor, pooled: tuple[int, int]) -> Tensor:
    """[c * h * w, ...] of one image as [c, h, w, ...]: each bin has channels of its own."""
    return images.unflatten(0, (-1, *pooled))


def _channel_mapping(count: int, channels: int, pooled: tuple[int, int], like: Tensor) -> Tensor:
    one = mq.arange(channels, dtype=int32, device=like.device)
    found: Tensor = one.unflatten(0, (-1, *pooled)).expand(count, -1, -1, -1).contiguous()
    return found


def _by_bin(box: _Box, images: Tensor, pooled: tuple[int, int]) -> Tensor:
    found: Tensor = mq.einsum(
        "py,cpqyx,qx->cpq", box.rows.weights, _bins(box.part(images), pooled), box.columns.weights
    )
    return found


def _by_bin_backward(box: _Box, images: Tensor, grad: Tensor, pooled: tuple[int, int]) -> None:
    given = mq.einsum("py,cpq,qx->cpqyx", box.rows.weights, grad, box.columns.weights)
    _bins(box.part(images), pooled).add_(given)


def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`roi_align` whose every bin reads channels of its own; and which they are, int32."""
    pooled = (pooled_height, pooled_width)
    boxes = _aligned_boxes(
        input, input.shape[2:], rois, spatial_scale, pooled, sampling_ratio, 0.5, _ANY
    )
    return _pooled_by_bin(input, boxes, len(rois), pooled)


def _pooled_by_bin(
    input: Tensor, boxes: Iterator[_Box], count: int, pooled: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    channels = input.shape[1]
    shape = (channels // (pooled[0] * pooled[1]), *pooled)
    rows = [_by_bin(box, input, pooled) for box in boxes]
    return _stacked(rows, shape, input), _channel_mapping(count, channels, pooled, input)


def ps_roi_align_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, sampling_ratio: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    """The gradient of the images."""
    images = grad.new_zeros((batch_size, channels, height, width))
    pooled = (pooled_height, pooled_width)
    boxes = _aligned_boxes(
        grad, (height, width), rois, spatial_scale, pooled, sampling_ratio, 0.5, _ANY
    )
    for box, given in zip(boxes, grad, strict=True):
        _by_bin_backward(box, images, given, pooled)
    return images


# --- boxes of whole pixels ---------------------------------------------------------------------


def _rounded(value: float) -> int:
    return int(math.copysign(math.floor(abs(value) + 0.5), value))  # C's round: halves outwards


def _whole_bins(start: int, size: float, pooled: int, length: int) -> list[range]:
    """The pixels from 0 to ``length`` of each bin."""
    bin_size = size / pooled
    edges = [(math.floor(p * bin_size), math.ceil((p + 1) * bin_size)) for p in range(pooled)]
    return [range(_within(start + a, length), _within(start + b, length)) for a, b in edges]


def _within(place: int, length: int) -> int:
    return min(max(place, 0), length)


def _pixel_boxes(
    rois: Tensor, scale: float, pooled: tuple[int, int], size: Sequence[int], inclusive: int
) -> Iterator[tuple[int, list[range], list[range]]]:
    """Each box's image, and the rows and columns of its bins, of the first ``size`` of them."""
    for image, *corners in (rois * rois.new_tensor([1.0, *[scale] * 4])).tolist():
        x1, y1, x2, y2 = map(_rounded, corners)
        rows = _whole_bins(y1, max(y2 - y1 + inclusive, 1), pooled[0], size[0])
        yield int(image), rows, _whole_bins(x1, max(x2 - x1 + inclusive, 1), pooled[1], size[1])


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """The largest of each bin of each box, 0 where a bin is empty; and its pixel, int32, or -1."""
    pooled = (pooled_height, pooled_width)
    height, width = input.shape[2:]
    shape = (len(rois), input.shape[1], *pooled)
    largest = input.new_zeros(shape)
    places = mq.full(shape, -1, dtype=int32, device=input.device)
    boxes = _pixel_boxes(rois, spatial_scale, pooled, (height, width), 1)
    for k, (image, rows, columns) in enumerate(boxes):
        for p, q, row, column in _filled(rows, columns):
            part = input[image, :, row.start : row.stop, column.start : column.stop].flatten(1)
            largest[k, :, p, q], place = part.max(1)
            down, across = place // len(column), place % len(column)
            places[k, :, p, q] = (row.start + down) * width + column.start + across
    return largest, places


def _filled(rows: list[range], columns: list[range]) -> Iterator[tuple[int, int, range, range]]:
    for p, row in enumerate(rows):
        for q, column in enumerate(columns):
            if row and column:
                yield p, q, row, column


def roi_pool_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    """The gradient of the images: each largest pixel's."""
    images = grad.new_zeros((batch_size, channels, height * width))
    for image, given, place in zip(rois[:, 0].long().tolist(), grad, argmax.long(), strict=True):
        share = given.where(place >= 0, 0.0).flatten(1)
        images[image].scatter_add_(1, place.clamp(min=0).flatten(1), share)
    return images.unflatten(2, (height, width))


def _averages(ranges: list[range], length: int, like: Tensor) -> _Axis:
    rows = [[1.0 / len(r) if i in r else 0.0 for i in range(length)] for r in ranges]
    return _Axis(mq.tensor(rows, dtype=like.dtype, device=like.device), 0, length)


def _averaging_boxes(
    like: Tensor, size: Sequence[int], rois: Tensor, scale: float, pooled: tuple[int, int]
) -> Iterator[_Box]:
    # torchvision never reads the last row and column here, as weights were trained with.
    read = [length - 1 for length in size]
    for image, rows, columns in _pixel_boxes(rois, scale, pooled, read, 0):
        yield _Box(image, _averages(rows, size[0], like), _averages(columns, size[1], like))


def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """The average of each bin, which reads channels of its own; and which they are, int32."""
    pooled = (pooled_height, pooled_width)
    boxes = _averaging_boxes(input, input.shape[2:], rois, spatial_scale, pooled)
    return _pooled_by_bin(input, boxes, len(rois), pooled)


def ps_roi_pool_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    """The gradient of the images."""
    images = grad.new_zeros((batch_size, channels, height, width))
    pooled = (pooled_height, pooled_width)
    boxes = _averaging_boxes(grad, (height, width), rois, spatial_scale, pooled)
    for box, given in zip(boxes, grad, strict=True):
        _by_bin_backward(box, images, given, pooled)
    return images


# --- registration ------------------------------------------------------------------------------


def _no_cuda() -> int:
    return -1


_KERNELS: dict[str, Callable[..., object]] = {
    "nms": nms,
    "roi_align": roi_align,
    "_roi_align_backward": roi_align_backward,
    "roi_pool": roi_pool,
    "_roi_pool_backward": roi_pool_backward,
    "ps_roi_align": ps_roi_align,
    "_ps_roi_align_backward": ps_roi_align_backward,
    "ps_roi_pool": ps_roi_pool,
    "_ps_roi_pool_backward": ps_roi_pool_backward,
    "deform_conv2d": deformable.deform_conv2d,
    "_deform_conv2d_backward": deformable.deform_conv2d_backward,
}
_LIBRARY = Library("torchvision", "FRAGMENT")
for _schema in _SCHEMAS.replace("\n ", " ").strip().splitlines():
    _LIBRARY.define(_schema)
_LIBRARY.impl("_cuda_version", _no_cuda, "CompositeImplicitAutograd")
for _name, _kernel in _KERNELS.items():
    for _key in ("CPU", "CUDA"):
        _LIBRARY.impl(_name, _kernel, _key)
