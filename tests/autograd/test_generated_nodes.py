"""Generated functions of nodes do what their plain form does (`plain_gradients`)."""

from __future__ import annotations

import pytest

import maquette as mq
from maquette.autograd.compiled_formulas import DerivativePlan, plain_gradients
from maquette.autograd.record import make_node
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.matching import bind

aten = mq.ops.aten


def leaf(*shape: int) -> mq.Tensor:
    return mq.randn(shape, dtype=mq.float64, requires_grad=True)


CASES: dict[str, tuple[OpOverload, tuple[object, ...]]] = {
    "two, saved": (aten.mul.Tensor, (leaf(2, 3), leaf(3))),
    "one of two": (aten.mul.Tensor, (leaf(2), mq.ones(2, dtype=mq.float64))),
    "number for a tensor": (aten.mul.Tensor, (leaf(2), 3.0)),
    "result saved": (aten.exp.default, (leaf(3),)),
    "meta alone": (aten.sum.dim_IntList, (leaf(2, 3), [0])),
    "jointly": (
        aten.native_layer_norm.default,
        (leaf(2, 3), [3], leaf(3), leaf(3), 1e-5),
    ),
    "jointly, one wanted": (
        aten.native_layer_norm.default,
        (leaf(2, 3), [3], mq.ones(3, dtype=mq.float64), None, 1e-5),
    ),
    "list": (aten.cat.default, ([leaf(2), leaf(1)],)),
    "many results": (aten.split.Tensor, (leaf(4), 2)),
    "matrices": (aten.addmm.default, (leaf(2), leaf(2, 3), leaf(3, 2))),
}


def flat(value: object) -> list[object]:
    return (
        [v for item in value for v in flat(item)] if isinstance(value, (list, tuple)) else [value]
    )


@pytest.mark.parametrize("name", CASES)
def test_formulas_and_step_compute_what_the_plain_form_does(name: str) -> None:
    op, args = CASES[name]
    params = bind(op._schema, args, {}, takes_numbers=op.takes_numbers)
    plan = DerivativePlan(op)
    wanted = [any(getattr(t, "requires_grad", False) for t in flat(params[i])) for i in plan.wrt]
    mask = sum(1 << bit for bit, is_wanted in enumerate(wanted) if is_wanted)
    result = op(*args)
    outputs = [t for t in flat(result) if t.requires_grad]
    grads = [mq.randn_like(t).detach() for t in outputs]
    grads += [None] * (len(flat(result)) - len(outputs))

    plain = [g for g in flat(plain_gradients(plan, mask, params, result, grads)) if g is not None]
    node = make_node(op, plan, params, len(grads))
    assert node is not None
    node.saved = node.save(result, *params)
    by_formulas = [g for g in node.formulas(grads) if g is not None]
    leaves = [t for t in flat(params) if getattr(t, "requires_grad", False)]
    by_step = mq.autograd.grad(outputs, leaves, grads[: len(outputs)])

    assert len(plain) == len(by_formulas) == len(by_step)
    for a, b, c in zip(plain, by_formulas, by_step, strict=True):
        assert mq.equal(a, b)
        assert mq.allclose(a.sum_to_size(c.shape), c, rtol=1e-12)
