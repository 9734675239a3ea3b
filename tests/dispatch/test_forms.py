"""Forms of operators and their functional twins (spec D73, DESIGN decision 2)."""

from __future__ import annotations

import pytest

import maquette as mq
from maquette.dispatch.forms import Form
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import all_overloads

aten = mq.ops.aten


def test_every_form_has_a_functional_twin_or_says_why_not() -> None:
    missing = [
        op.name()
        for op in all_overloads()
        if op.namespace == "aten" and op.functional is None and not op.facts.without_functional
    ]
    assert missing == []


def test_functional_twins_mutate_nothing_and_return_every_new_value() -> None:
    for op in all_overloads():
        call = op.functional_call
        if call is None or op.namespace != "aten":
            continue
        assert not call.twin._schema.is_mutable, op
        assert len(call.arguments) == len(call.twin._schema.arguments), op
        assert max(call.values) < len(call.twin._schema.returns), op


@pytest.mark.parametrize(
    ("op", "form", "twin"),
    [
        (aten.add.Tensor, Form.FUNCTIONAL, aten.add.Tensor),
        (aten.add_.Scalar, Form.IN_PLACE, aten.add.Scalar),
        (aten.add.out, Form.OUT, aten.add.Tensor),
        (aten.t.default, Form.VIEW, aten.t.default),
        (aten.t_.default, Form.IN_PLACE, aten.t.default),
        (aten.zeros.out, Form.OUT, aten.zeros.default),
        (aten.normal_.default, Form.IN_PLACE, aten.normal_functional.default),
        (aten.resize_.default, Form.IN_PLACE, aten.resize.default),
        (aten.set_.source_Tensor, Form.IN_PLACE, aten.set.source_Tensor),
        (aten.rrelu_with_noise.default, Form.MUTABLE, aten.rrelu_with_noise_functional.default),
        (
            aten._native_batch_norm_legit.default,
            Form.MUTABLE,
            aten._native_batch_norm_legit_functional.default,
        ),
    ],
    ids=str,
)
def test_forms_and_twins_are_pytorchs(op: OpOverload, form: Form, twin: OpOverload) -> None:
    assert op.form is form
    assert op.functional is twin


def test_a_call_is_rebuilt_for_the_twin() -> None:
    call = aten.zeros.out.functional_call
    out = mq.ones(2, dtype=mq.float64)
    assert call.parameters(((2,), out)) == ((2,), mq.float64, mq.strided, out.device, False)
    (change,) = call.new_values("new")
    assert change == (1, "new")


def test_what_is_mutated_and_not_returned_follows_the_results() -> None:
    call = aten._native_batch_norm_legit.default.functional_call
    assert call.mutated == (3, 4)
    assert call.new_values(("out", "mean", "rstd", "m", "v")) == [(3, "m"), (4, "v")]


def test_twins_leave_their_arguments_as_they_are() -> None:
    x = mq.zeros(100)
    drawn = aten.uniform(x, 1.0, 2.0)
    assert bool((drawn >= 1).all())
    assert not bool(x.any())


def test_a_users_form_finds_its_twin_by_its_name() -> None:
    with mq.library._scoped_library("forms_test", "FRAGMENT") as lib:
        lib.define("twice(Tensor x, int n) -> Tensor")
        lib.define("twice_(Tensor(a!) x, int n) -> Tensor(a!)")
        ops = mq.ops.forms_test
        assert ops.twice_.default.functional is ops.twice.default
        lib.define("alone_(Tensor(a!) x) -> Tensor(a!)")
        assert ops.alone_.default.functional is None
    assert aten.add_.Tensor.functional is aten.add.Tensor
