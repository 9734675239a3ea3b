"""Tangents are the transposes of gradients, over the recorded calls of every page with a rule.

For a tangent ``J t`` and a gradient ``J^H c`` of the same call, ``<J t, c>`` is ``<t, J^H c>``.
`test_tangents.py` holds single operators to the same; here are all, on the recordings' arguments.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import maquette as mq
from conformance import CALLS, load_checker
from maquette.autograd.tangents import has_tangent_rule, tangent_of
from maquette.dispatch.forms import Form
from maquette.dispatch.operator import OpOverload, argument_keys
from maquette.dispatch.schemas.matching import bind
from maquette.dispatch.tls import tls

checker = load_checker()
BACKEND = checker.Backend()

# Where gradient and tangent differ as PyTorch's do.
UNEQUAL = {
    "aten.max_unpool2d.default": "where two values have one place, the gradient goes to both",
    "aten.max_unpool3d.default": "as max_unpool2d",
    "aten.as_strided.default": "the recorded view reads memory outside of the tensor's own",
    "aten.embedding.default": "padding_idx and scale_grad_by_freq change the gradient alone",
    "aten.mean.default": "an empty mean is NaN; its gradient has no elements",
}


class Leaves:
    """The parameters of a recorded call in double precision, with random tangents."""

    def __init__(self, op: OpOverload, case: dict[str, Any]) -> None:
        arguments = checker.Arguments(BACKEND, case)
        bound = bind(
            op._schema, tuple(arguments.args), arguments.kwargs, takes_numbers=op.takes_numbers
        )
        self.params: list[Any] = [_wide(p) for p in bound]
        self.tangents: dict[int, Any] = {}
        derivatives = op.derivatives
        for i, p in enumerate(self.params):
            known = derivatives and derivatives.rule_of(op._schema.arguments[i].name)
            if known and flat(p) and all(_moves(t) for t in flat(p)):
                for t in flat(p):
                    t.requires_grad_()
                each = [mq.randn_like(t).detach() for t in flat(p)]
                self.tangents[i] = each[0] if isinstance(p, mq.Tensor) else each


def _moves(t: mq.Tensor) -> bool:
    return t.is_floating_point() or t.is_complex()


def _wide(value: Any) -> Any:
    if isinstance(value, mq.Tensor):
        kind = mq.complex128 if value.is_complex() else mq.float64
        return value.to(kind).detach() if _moves(value) else value
    return tuple([_wide(v) for v in value]) if isinstance(value, tuple) else value


def flat(value: object) -> list[mq.Tensor]:
    if isinstance(value, mq.Tensor):
        return [value]
    return [t for v in value for t in flat(v)] if isinstance(value, (tuple, list)) else []


def inner(a: list[Any], b: list[Any]) -> tuple[float, float]:
    """The real inner product of two lists of tensors, and the sum of its terms' magnitudes."""
    terms = [x * y.conj() for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    total = sum(t.sum().real.item() for t in terms)
    return total, sum(t.abs().sum().item() for t in terms)


def difference(op: OpOverload, case: dict[str, Any]) -> str | None:
    """What is wrong with the tangent of a recorded call; "" if nothing, None if there is none."""
    leaves = Leaves(op, case)
    params, tangents = leaves.params, leaves.tangents
    if not tangents or not has_tangent_rule(op, list(tangents)):
        return None
    ks = tls.st.effective_keys(argument_keys(op, params))
    if op.derivatives.of_reals and any(t.is_complex() for p in params for t in flat(p)):
        with pytest.raises(RuntimeError, match="outputs with complex dtype"):  # as PyTorch does
            op.run(ks, params)
        return None
    result = checker.quietly(op.run, ks, params)
    with mq.no_grad():
        moved = tangent_of(op, params, tangents, result)
    each = moved if isinstance(moved, (tuple, list)) else [moved]
    pairs = [(r, t) for r, t in zip(flat(result), each, strict=True) if r.requires_grad]
    # A dtype among the arguments may ask for less precision than we need.
    if not pairs or any(r.dtype.itemsize < 8 for r, _ in pairs):
        return None
    along = [mq.randn_like(r).detach() for r, _ in pairs]
    inputs = [t for i in tangents for t in flat(params[i])]
    grads = mq.autograd.grad([r for r, _ in pairs], inputs, along, allow_unused=True)
    forward, size = inner([t for _, t in pairs], along)
    backward, _ = inner([t for i in tangents for t in flat(tangents[i])], list(grads))
    same = forward == backward or (math.isnan(forward) and math.isnan(backward))
    if same or abs(forward - backward) <= 1e-6 * max(size, abs(backward), 1e-6):
        return ""
    return f"{case['op']} {case['id']}: tangent {forward}, gradient {backward}"


def recorded(every: int) -> Iterator[tuple[OpOverload, dict[str, Any]]]:
    """Every n-th recorded call of a functional overload that has derivatives."""
    number = 0
    for _, case in checker.read(CALLS):
        op = BACKEND.operator(case["op"])
        if op.form not in (Form.FUNCTIONAL, Form.VIEW) or op.derivatives is None:
            continue
        number += 1
        if number % every == 0 and case["op"] not in UNEQUAL:
            yield op, case


def check(every: int, least: int) -> None:
    mq.manual_seed(1)
    compared, wrong = 0, []
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        for op, case in recorded(every):
            # Complex arguments of mixed calls, sparse gradients: refused, which is no wrong answer.
            with contextlib.suppress(NotImplementedError):
                found = difference(op, case)
                compared += found is not None
                wrong += [found] if found else []
    assert not wrong, "\n".join(wrong)
    assert compared >= least


def test_tangents_of_some_recorded_calls_are_transposes_of_gradients() -> None:
    check(every=40, least=90)


@pytest.mark.verify
def test_tangents_of_all_recorded_calls_are_transposes_of_gradients() -> None:
    check(every=1, least=4600)


@pytest.mark.parametrize("name", ["sgn", "abs", "angle"])
def test_functions_that_are_not_holomorphic_have_tangents(name: str) -> None:
    op = getattr(mq.ops.aten, name).default
    z, t = mq.randn(2, 4, dtype=mq.complex128)
    step = 1e-6
    moved = (op(z + step * t) - op(z - step * t)) / (2 * step)
    assert mq.allclose(tangent_of(op, (z,), {0: t}, op(z)), moved, atol=1e-8)


def test_nansum_leaves_out_the_tangent_of_a_nan() -> None:
    op, x = mq.ops.aten.nansum.default, mq.tensor([1.0, float("nan")])
    assert tangent_of(op, (x, None, False, None), {0: mq.ones(2)}, op(x)) == 1
