"""Forward mode of complex numbers where the gradient is that of real ones alone."""

from collections.abc import Callable

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import Tensor

jvp, vmap = torch.func.jvp, torch.func.vmap
aten = mq.ops.aten
INDEX = mq.tensor([[0, 1, 0], [1, 1, 0]])
MASK = mq.tensor([[True, False, True], [False, True, True]])
KINDS = [mq.float64, mq.complex128]


def agrees(f: Callable[..., Tensor], *primals: Tensor) -> None:
    """Forward mode gives the difference quotient, in a batch too."""
    tangents = [mq.randn_like(x) for x in primals]
    step = 1e-6
    ahead = f(*[x + step * t for x, t in zip(primals, tangents)])
    behind = f(*[x - step * t for x, t in zip(primals, tangents)])
    expected = (ahead - behind) / (2 * step)
    torch.testing.assert_close(jvp(f, primals, tuple(tangents))[1], expected, atol=1e-6, rtol=1e-6)
    along = vmap(lambda *ts: jvp(f, primals, ts)[1], randomness="same")
    batched = along(*[mq.stack([t, 2 * t]) for t in tangents])
    torch.testing.assert_close(batched[1], 2 * expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize(
    ("kind", "reduce"),
    [
        *[(mq.float64, reduce) for reduce in ("sum", "mean", "prod", "amax", "amin")],
        *[(mq.complex128, reduce) for reduce in ("sum", "mean", "prod")],  # they have no order
    ],
)
def test_T71_scatter_reduce(reduce: str, include_self: bool, rows: int, kind: mq.dtype) -> None:
    agrees(
        lambda x, src: x.scatter_reduce(0, INDEX, src, reduce, include_self=include_self),
        mq.randn(2, 3, dtype=kind),
        mq.randn(rows, 3, dtype=kind),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_T71_soft_margin_loss_by_both(reduction: int, kind: mq.dtype) -> None:
    x, target = mq.randn(2, 3, dtype=kind), mq.randn(3, dtype=kind)
    agrees(lambda x, t: aten.soft_margin_loss(x, t, reduction), x, target)
    signs = mq.tensor([1, -1, 1])
    agrees(lambda x: aten.soft_margin_loss(x, signs, reduction), x)


@pytest.mark.parametrize("kind", KINDS)
def test_T71_dropout(kind: mq.dtype) -> None:
    x = mq.randn(2, 3, dtype=kind)
    agrees(lambda x: aten.native_dropout(x, 0.5, False)[0], x)
    agrees(lambda x: aten.native_dropout_backward(x, MASK, 2.0), x)


def test_T71_gradients_of_complex_numbers_are_refused_still() -> None:
    x = mq.randn(2, 3, dtype=mq.complex128, requires_grad=True)
    with pytest.raises(RuntimeError, match="complex"):
        aten.soft_margin_loss(x, x.detach(), 1)
