"""Element types that PyTorch's loops have no case for are refused, on fake tensors as well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import maquette as mq
import maquette.torch as torch

F = torch.nn.functional
BOOL, INT, HALF, COMPLEX = mq.bool, mq.int32, mq.float16, mq.complex64


def ones(*sizes: int) -> Callable[[mq.dtype], mq.Tensor]:
    return lambda kind: mq.ones(sizes, dtype=kind)


line, square, image, volume = ones(2), ones(2, 2), ones(1, 1, 2, 2), ones(1, 1, 2, 2, 2)
CALLS: dict[str, tuple[mq.dtype, Callable[[mq.dtype], object]]] = {
    "median": (BOOL, lambda kind: line(kind).median()),
    "median_dim": (BOOL, lambda kind: line(kind).median(0)),
    "kthvalue": (BOOL, lambda kind: line(kind).kthvalue(1)),
    "topk": (BOOL, lambda kind: line(kind).topk(1)),
    "clamp_tensors": (BOOL, lambda kind: mq.clamp(line(kind), line(kind), line(kind))),
    "trace": (BOOL, lambda kind: square(kind).trace()),
    "cumsum": (BOOL, lambda kind: mq.ones(2).cumsum(0, dtype=kind)),
    "searchsorted": (BOOL, lambda kind: mq.searchsorted(line(kind), line(kind))),
    "arange": (COMPLEX, lambda kind: mq.arange(2, dtype=kind)),
    "linspace": (BOOL, lambda kind: mq.linspace(0, 1, 2, dtype=kind)),
    "triu_indices": (HALF, lambda kind: mq.triu_indices(2, 2, dtype=kind)),
    "unique": (COMPLEX, lambda kind: mq.unique(line(kind))),
    "unique_dim": (COMPLEX, lambda kind: mq.unique(square(kind), dim=0)),
    "renorm": (INT, lambda kind: square(kind).renorm(2, 0, 1)),
    "unfold": (INT, lambda kind: F.unfold(image(kind), 2)),
    "fold": (INT, lambda kind: F.fold(ones(1, 4, 1)(kind), (2, 2), 2)),
    "conv_transpose": (INT, lambda kind: F.conv_transpose2d(image(kind), image(kind))),
    "conv2d": (INT, lambda kind: F.conv2d(ones(1, 1, 3, 3)(kind), image(kind), dilation=2)),
    "upsample_backward": (
        INT,
        lambda kind: mq.ops.aten.upsample_nearest1d_backward(ones(1, 1, 4)(kind), [4], [1, 1, 2]),
    ),
    "replication_pad_backward": (
        INT,
        lambda kind: mq.ops.aten.replication_pad1d_backward(
            ones(1, 4)(kind), line(kind)[None], [1, 1]
        ),
    ),
    "normal_of_means": (INT, lambda kind: mq.normal(line(kind), line(mq.float32))),
    "max_pool1d": (INT, lambda kind: F.max_pool1d(square(kind), 1)),
    "avg_pool3d": (HALF, lambda kind: F.avg_pool3d(volume(kind), 1)),
    "interpolate": (
        HALF,
        lambda kind: F.interpolate(image(kind), 4, mode="bicubic", antialias=True),
    ),
    "rms_norm": (mq.int8, lambda kind: F.rms_norm(line(kind), (2,))),
    "embedding_bag": (INT, lambda kind: F.embedding_bag(mq.tensor([[0]]), square(kind))),
    "cdist": (HALF, lambda kind: mq.cdist(square(kind), square(kind))),
    "pdist": (HALF, lambda kind: F.pdist(square(kind))),
    "polar": (HALF, lambda kind: mq.polar(line(kind), line(kind))),
    "multi_margin": (HALF, lambda kind: F.multi_margin_loss(square(kind), mq.tensor([0, 1]))),
    "vander": (HALF, lambda kind: torch.linalg.vander(line(kind))),
    "normal": (COMPLEX, lambda kind: mq.normal(line(kind), line(kind))),
}
REFUSALS = (RuntimeError, NotImplementedError)


@pytest.mark.parametrize("name", CALLS)
def test_types_without_a_loop_are_refused(name: str) -> None:
    kind, call = CALLS[name]
    with pytest.raises(REFUSALS):
        call(kind)
    with mq.FakeTensorMode(), pytest.raises(REFUSALS):
        call(kind)


@pytest.mark.parametrize("name", ["avg_pool3d", "cdist", "pdist", "polar", "multi_margin"])
def test_halves_are_refused_on_cpu_alone(name: str) -> None:
    with mq.FakeTensorMode(), mq.device("cuda"):
        assert CALLS[name][1](HALF).device.type == "cuda"  # type: ignore[attr-defined]  # a tensor


@pytest.mark.parametrize(
    "backward",
    [
        lambda grad, x, at: mq.ops.aten._adaptive_avg_pool2d_backward(grad, x),
        lambda grad, x, at: mq.ops.aten.adaptive_max_pool2d_backward(grad, x, at),
        lambda grad, x, at: mq.ops.aten.avg_pool2d_backward(
            grad, x, [1], [1], [0], False, True, None
        ),
        lambda grad, x, at: mq.ops.aten.max_pool2d_with_indices_backward(
            grad, x, [1], [1], [0], [1], False, at
        ),
        lambda grad, x, at: mq.ops.aten.replication_pad2d_backward(grad, x, [0, 0, 0, 0]),
    ],
)
def test_gradients_of_another_dtype_are_refused(backward: Callable[..., object]) -> None:
    x, at = image(mq.float32), mq.zeros(1, 1, 2, 2, dtype=mq.int64)
    backward(x, x, at)
    with pytest.raises(RuntimeError, match="expected a gradient of the input's dtype"):
        backward(x.double(), x, at)


def test_meta_tensors_have_ranges_of_any_type() -> None:
    assert mq.arange(2, dtype=BOOL, device="meta").dtype is BOOL
