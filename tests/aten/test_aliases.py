"""Operators under a second name: every form of an alias is a call of its target's."""

from __future__ import annotations

import pytest

import maquette as mq
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import all_overloads

IMPLICIT = DispatchKey.CompositeImplicitAutograd


def target_of(op: OpOverload) -> OpOverload | None:
    kernel = op.kernel_at(IMPLICIT) if op.has_kernel_for_dispatch_key(IMPLICIT) else None
    return kernel.python if kernel and isinstance(kernel.python, OpOverload) else None


ALIASES = [op for op in all_overloads() if target_of(op) is not None]
UNARY = [
    op for op in ALIASES if op._schema_text.partition("(")[2].startswith("Tensor self) -> Tensor")
]


@pytest.mark.parametrize("op", ALIASES, ids=str)
def test_an_alias_has_the_arguments_of_its_target(op: OpOverload) -> None:
    mine, other = op._schema, target_of(op)._schema
    assert [str(a) for a in mine.arguments] == [str(a) for a in other.arguments]
    assert [str(r) for r in mine.returns] == [str(r) for r in other.returns]


@pytest.mark.parametrize("op", UNARY, ids=str)
def test_an_alias_gives_what_its_target_gives_and_so_do_gradients(op: OpOverload) -> None:
    x = mq.tensor([1.25, 1.5], dtype=mq.float64, requires_grad=True)
    results = [f(x) for f in (op, target_of(op))]
    assert results[0].tolist() == pytest.approx(results[1].tolist(), nan_ok=True)
    grads = [mq.autograd.grad(r.sum(), x)[0] for r in results]
    assert grads[0].tolist() == pytest.approx(grads[1].tolist(), nan_ok=True)


def test_in_place_and_out_forms_write() -> None:
    x, out = mq.tensor([-1.0, 2.0]), mq.empty(0)
    assert mq.absolute(x, out=out) is out
    assert out.tolist() == [1.0, 2.0]
    assert x.absolute_() is x
    assert x.tolist() == [1.0, 2.0]


def test_aliases_are_methods_and_take_numbers() -> None:
    x = mq.tensor([1.0, 2.0, 3.0])
    assert x.clip(1.5, 2.5).tolist() == [1.5, 2.0, 2.5]
    assert x.greater(2).tolist() == [False, False, True]
    assert x.multiply(2).tolist() == mq.multiply(x, 2).tolist() == [2.0, 4.0, 6.0]
    assert x.subtract(x, alpha=2).tolist() == [-1.0, -2.0, -3.0]
    assert mq.divide(x, 2, rounding_mode="floor").tolist() == [0.0, 1.0, 1.0]


def test_torch_special_has_no_in_place_forms() -> None:
    names = {op._opname for op in ALIASES if op._opname.startswith("special_")}
    assert "special_erf" in names
    assert not any(name.endswith("_") for name in names)


def test_true_divide_knows_no_rounding_mode() -> None:
    with pytest.raises(TypeError, match="rounding_mode"):
        mq.true_divide(mq.ones(2), 2, rounding_mode="floor")


def test_overrides_see_the_name_that_was_called() -> None:
    class Named(mq.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    x = mq.ones(2).as_subclass(Named)
    assert mq.ops.aten.arcsin(x) == mq.ops.aten.arcsin.__name__


def test_an_alias_in_fake_mode_is_its_target_in_fake_mode() -> None:
    with mq.FakeTensorMode():
        x = mq.empty(2, 3, dtype=mq.int64)
        assert mq.special_expit(x).dtype == mq.float32
        assert mq.arctan2(x, x).shape == (2, 3)
        with pytest.raises(RuntimeError, match="can't be cast"):
            x.arctan_()
