"""Formulas of operators with defaults, and torch's guard that acts from where it is made."""

import pytest

import maquette.torch as torch


def scaled(backward, schema: str = "scaled(Tensor w, int x=2) -> Tensor"):
    lib = torch.library.Library("formula_defaults", "FRAGMENT")
    lib.define(schema)
    lib.impl("scaled", lambda w, x=2: w * x, "CPU")
    torch.library.register_autograd("formula_defaults::scaled", backward, lib=lib)
    return lib, torch.ops.formula_defaults.scaled


def test_L26_a_formula_need_not_answer_for_what_has_a_default() -> None:
    lib, op = scaled(lambda ctx, grad: grad * 2)
    w = torch.ones(3, requires_grad=True)
    op(w).sum().backward()
    assert w.grad.tolist() == [2.0] * 3
    lib._destroy()


def test_L26_a_formula_answers_for_what_has_none() -> None:
    lib, op = scaled(lambda ctx, grad: grad, "scaled(Tensor w, int x) -> Tensor")
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        op(torch.ones(3, requires_grad=True), 2).sum().backward()
    lib._destroy()


def test_D18_a_guard_acts_until_it_is_deleted() -> None:
    x = torch.ones(2, requires_grad=True)
    guard = torch._C._AutoDispatchBelowAutograd()
    assert not (x * 2).requires_grad
    del guard
    assert (x * 2).requires_grad


def test_D18_a_guard_ends_with_its_block() -> None:
    x = torch.ones(2, requires_grad=True)
    with torch._C._AutoDispatchBelowAutograd():
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad
