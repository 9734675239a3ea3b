"""Tangents are the transposes of gradients: what a page says of one serves the other."""

from __future__ import annotations

import pytest

import maquette as mq
from maquette.autograd.tangents import has_tangent_rule, tangent_of
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.matching import bind

aten = mq.ops.aten
f64 = {"dtype": mq.float64}


def tensor(*shape: int, kind: mq.dtype = mq.float64) -> mq.Tensor:
    return mq.randn(shape, dtype=kind)


CASES: dict[str, tuple[OpOverload, tuple[object, ...]]] = {
    "add": (aten.add.Tensor, (tensor(3, 2), tensor(2))),
    "add number": (aten.add.Tensor, (tensor(3, 2), 2.5)),
    "add scalar": (aten.add.Scalar, (tensor(3), 4.0, 2)),
    "mul": (aten.mul.Tensor, (tensor(3, 2), tensor(2))),
    "mul complex": (
        aten.mul.Tensor,
        (tensor(3, kind=mq.complex128), tensor(3, kind=mq.complex128)),
    ),
    "div": (aten.div.Tensor, (tensor(3, 2), tensor(2))),
    "exp": (aten.exp.default, (tensor(3),)),
    "sqrt complex": (aten.sqrt.default, (tensor(3, kind=mq.complex128),)),
    "sigmoid": (aten.sigmoid.default, (tensor(3),)),
    "pow": (aten.pow.Tensor_Scalar, (tensor(3), 3)),
    "gelu": (aten.gelu.default, (tensor(3),)),
    "where": (aten.where.self, (mq.tensor([True, False]), tensor(2), tensor(2))),
    "lerp": (aten.lerp.Tensor, (tensor(3), tensor(3), tensor(3))),
    "addcmul": (aten.addcmul.default, (tensor(3), tensor(3), tensor(3))),
    "masked_fill": (aten.masked_fill.Scalar, (tensor(2), mq.tensor([True, False]), 3.0)),
    "pad": (aten.constant_pad_nd.default, (tensor(2, 3), [1, 2], 7.0)),
    "sum": (aten.sum.dim_IntList, (tensor(2, 3), [1])),
    "mean": (aten.mean.default, (tensor(2, 3),)),
    "cumsum": (aten.cumsum.default, (tensor(2, 3), 1)),
    "view": (aten.view.default, (tensor(2, 3), [6])),
    "select": (aten.select.int, (tensor(2, 3), 1, 2)),
    "split": (aten.split.Tensor, (tensor(4, 3), 2)),
    "cat": (aten.cat.default, ([tensor(2, 2), tensor(1, 2)],)),
    "stack": (aten.stack.default, ([tensor(2), tensor(2)],)),
    "index": (aten.index.Tensor, (tensor(3), [mq.tensor([0, 2, 0])])),
    "index_put": (aten.index_put.default, (tensor(3), [mq.tensor([0, 2])], tensor(2))),
    "scatter_add": (
        aten.scatter_add.default,
        (tensor(3), 0, mq.tensor([0, 0]), tensor(2)),
    ),
    "mm": (aten.mm.default, (tensor(2, 3), tensor(3, 2))),
    "bmm": (aten.bmm.default, (tensor(1, 2, 3), tensor(1, 3, 2))),
    "addmm": (aten.addmm.default, (tensor(2), tensor(2, 3), tensor(3, 2))),
    "convolution": (
        aten.convolution.default,
        (tensor(1, 2, 5), tensor(3, 2, 2), tensor(3), [1], [1], [1], False, [0], 1),
    ),
    "softmax": (aten._softmax.default, (tensor(2, 3), 1, False)),
    "log_softmax": (aten._log_softmax.default, (tensor(2, 3), 1, False)),
    "upsample": (aten.upsample_nearest1d.default, (tensor(1, 1, 3), [6])),
}


def flat(value: object) -> list[mq.Tensor]:
    if isinstance(value, mq.Tensor):
        return [value]
    return [t for v in value for t in flat(v)] if isinstance(value, (tuple, list)) else []


def inner(a: list[mq.Tensor], b: list[mq.Tensor]) -> complex:
    """The real inner product of two lists of tensors."""
    return sum((x * y.conj()).sum().real.item() for x, y in zip(a, b))


@pytest.mark.parametrize("name", CASES)
def test_tangent_is_the_transpose_of_the_gradient(name: str) -> None:
    op, args = CASES[name]
    params = list(bind(op._schema, args, {}, takes_numbers=op.takes_numbers))
    moving = {}
    for i, p in enumerate(params):
        tensors = flat(p)
        if tensors and all(t.is_floating_point() or t.is_complex() for t in tensors):
            params[i] = (
                p.detach().requires_grad_()
                if isinstance(p, mq.Tensor)
                else tuple(t.detach().requires_grad_() for t in p)
            )
            ts = [mq.randn_like(t) for t in tensors]
            moving[i] = ts[0] if isinstance(p, mq.Tensor) else ts
    result = op.run(op_keys(op, params), params)
    tangent = flat(tangent_of(op, params, moving, result))
    cotangents = [mq.randn_like(t) for t in flat(result)]
    inputs = [t for i in moving for t in flat(params[i])]
    grads = mq.autograd.grad(flat(result), inputs, cotangents)
    given = [t for i in moving for t in flat(moving[i])]
    assert inner(tangent, cotangents) == pytest.approx(inner(given, list(grads)), rel=1e-9)


def op_keys(op: OpOverload, params: list[object]) -> int:
    from maquette.dispatch.operator import argument_keys
    from maquette.dispatch.tls import tls

    return tls.st.effective_keys(argument_keys(op, params))


def test_what_jumps_has_a_tangent_of_zeros() -> None:
    x = mq.tensor([1.5, -0.5])
    assert tangent_of(aten.floor.default, (x,), {0: mq.ones(2)}, x.floor()).tolist() == [0, 0]


def test_a_page_that_does_not_say_its_tangent_refuses_by_name() -> None:
    x = tensor(2, 2)
    assert not has_tangent_rule(aten.prod.default, [0])
    with pytest.raises(NotImplementedError, match="aten::prod: its page does not say the tangent"):
        tangent_of(aten.prod.default, (x, None), {0: x}, x.prod())
