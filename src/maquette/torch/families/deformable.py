"""Deformable convolution, torchvision's ``deform_conv2d``: a convolution that reads where told.

Each element of the kernel reads the image bilinearly at its place plus an offset; what it reads are
the columns of an ordinary product. Dai et al., "Deformable Convolutional Networks", 2017; with a
mask, Zhu et al., 2018.
"""

from __future__ import annotations

from typing import NamedTuple

from maquette.api import functions as mq
from maquette.tensor.tensor import Tensor


class _Steps(NamedTuple):
    """stride, padding and dilation, (vertical, horizontal); and the groups of offsets."""

    stride: tuple[int, int]
    pad: tuple[int, int]
    dilation: tuple[int, int]
    offset_groups: int


class _Corner(NamedTuple):
    """One of the four pixels around each place: all [n, og, k * oh * ow]."""

    pixel: Tensor  # its pixel, within the image
    inside: Tensor  # 1 where there is such a pixel, 0 outside
    row: Tensor  # its weight, of its row
    column: Tensor  # and of its column
    down: float  # the slope of `row` along the place
    across: float


def _places(offset: Tensor, kernel: tuple[int, int], steps: _Steps) -> tuple[Tensor, Tensor]:
    """Rows and columns that are read, each [n, og, k, oh, ow]."""
    height, width = offset.shape[-2:]
    moved = offset.unflatten(1, (steps.offset_groups, kernel[0] * kernel[1], 2))
    grids = []
    for axis, count in enumerate((height, width)):
        start = mq.arange(count, device=offset.device) * steps.stride[axis] - steps.pad[axis]
        tap = mq.arange(kernel[axis], device=offset.device) * steps.dilation[axis]
        shape = [1, 1, 1, 1]
        shape[axis], shape[2 + axis] = kernel[axis], count
        grid = (tap[:, None] + start).reshape(shape).expand(*kernel, height, width).flatten(0, 1)
        grids.append(moved[:, :, :, axis] + grid)
    return grids[0], grids[1]


def _corners(rows: Tensor, columns: Tensor, size: tuple[int, int]) -> list[_Corner]:
    rows, columns = rows.flatten(2), columns.flatten(2)
    top, left = rows.floor(), columns.floor()
    found = []
    for y, row, down in ((top, top + 1 - rows, -1.0), (top + 1, rows - top, 1.0)):
        for x, column, across in (
            (left, left + 1 - columns, -1.0),
            (left + 1, columns - left, 1.0),
        ):
            inside = (y >= 0) & (y < size[0]) & (x >= 0) & (x < size[1])
            pixel = y.clamp(0, size[0] - 1) * size[1] + x.clamp(0, size[1] - 1)
            corner = _Corner(pixel.long(), inside.to(row.dtype), row, column, down, across)
            found.append(corner)
    return found


def _read(input: Tensor, corner: _Corner) -> Tensor:
    """The pixels of a corner: [n, og, c, k * oh * ow]."""
    groups = corner.pixel.shape[1]
    images = input.flatten(2).unflatten(1, (groups, -1))
    index = corner.pixel.unsqueeze(2).expand(-1, -1, images.shape[2], -1)
    found: Tensor = images.gather(3, index) * corner.inside.unsqueeze(2)
    return found


def _sampled(input: Tensor, corners: list[_Corner]) -> Tensor:
    parts = [_read(input, c) * (c.row * c.column).unsqueeze(2) for c in corners]
    return parts[0] + parts[1] + parts[2] + parts[3]


def _steps(numbers: tuple[int, ...]) -> _Steps:
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, _, offset_groups = numbers
    return _Steps((stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w), offset_groups)


def _grouped(columns: Tensor, kernel: int, groups: int) -> Tensor:
    """[n, og, c, k * oh * ow] as [n, g, c * k, oh * ow], the operand of the product."""
    by_tap = columns.unflatten(3, (kernel, -1)).flatten(1, 2)
    return by_tap.unflatten(1, (groups, -1)).flatten(2, 3)


def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *steps: int
) -> Tensor:
    """[n, o, oh, ow]; weight [o, c / groups, kh, kw], offset [n, 2 og kh kw, oh, ow].

    steps: stride, padding and dilation, each vertical and horizontal, groups, offset groups, and
    whether the mask [n, og kh kw, oh, ow] is taken.
    """
    *numbers, use_mask = steps
    groups, kernel = numbers[6], (weight.shape[2], weight.shape[3])
    places = _places(offset, kernel, _steps(tuple(numbers)))
    columns = _sampled(input, _corners(*places, (input.shape[2], input.shape[3])))
    if use_mask:
        columns = columns * mask.unflatten(1, (numbers[7], -1)).flatten(2).unsqueeze(2)
    operand = _grouped(columns, kernel[0] * kernel[1], groups)
    product = weight.unflatten(0, (groups, -1)).flatten(2) @ operand
    shape = (input.shape[0], weight.shape[0], *offset.shape[-2:])
    found: Tensor = product.reshape(shape) + bias[:, None, None]
    return found


def deform_conv2d_backward(
    grad: Tensor, input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor,
    *steps: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of input, weight, offset, mask and bias."""
    *numbers, use_mask = steps
    groups, offset_groups = numbers[6], numbers[7]
    kernel = (weight.shape[2], weight.shape[3])
    places = _places(offset, kernel, _steps(tuple(numbers)))
    corners = _corners(*places, (input.shape[2], input.shape[3]))
    values = _sampled(input, corners)
    shown = mask.unflatten(1, (offset_groups, -1)).flatten(2).unsqueeze(2) if use_mask else None
    columns = values if shown is None else values * shown
    given = grad.flatten(2).unflatten(1, (groups, -1))
    operand = _grouped(columns, kernel[0] * kernel[1], groups)
    for_weight = (given @ operand.mT).sum(0).reshape(weight.shape)
    rows = weight.unflatten(0, (groups, -1)).flatten(2).mT @ given
    taken = rows.unflatten(2, (-1, kernel[0] * kernel[1])).flatten(1, 2).flatten(2)
    taken = taken.unflatten(1, (offset_groups, -1))
    for_mask = mq.zeros_like(mask)
    if use_mask:
        for_mask = (taken * values).sum(2).reshape(mask.shape)
    taken = taken if shown is None else taken * shown
    for_input, for_offset = _through_places(input, corners, taken)
    for_offset = for_offset.unflatten(2, (kernel[0] * kernel[1], -1)).movedim(-1, 3)
    return (
        for_input,
        for_weight,
        for_offset.reshape(offset.shape),
        for_mask,
        grad.sum((0, 2, 3)) if bias.numel() else bias,
    )


def _through_places(input: Tensor, corners: list[_Corner], taken: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the image, and of the places: [n, og, k * oh * ow, 2]."""
    count, groups, channels, _ = taken.shape
    image = input.new_zeros((count, groups, channels, input.shape[2] * input.shape[3]))
    down, across = mq.zeros_like(corners[0].row), mq.zeros_like(corners[0].row)
    for corner in corners:
        share = taken * (corner.row * corner.column * corner.inside).unsqueeze(2)
        image.scatter_add_(3, corner.pixel.unsqueeze(2).expand(-1, -1, channels, -1), share)
        felt = (taken * _read(input, corner)).sum(2)
        down = down + felt * corner.column * corner.down
        across = across + felt * corner.row * corner.across
    return image.reshape(input.shape), mq.stack((down, across), -1)
