"""`torch.autograd.functional`: what it refuses, and by which words."""

from typing import Any

import pytest

import maquette.torch as torch
from maquette.torch.autograd import functional as AF

x = torch.tensor([1.0, 2.0])


@pytest.mark.parametrize("call", [AF.vjp, AF.jvp, AF.jacobian, AF.hessian, AF.vhp, AF.hvp])
def test_arguments_and_results_are_tensors_or_tuples_of_them(call: Any) -> None:
    """Finding 24."""
    with pytest.raises(TypeError, match=r"The inputs given to .* must be either a Tensor"):
        call(lambda *a: a[0].sum(), (x, 2))
    given = () if call in (AF.jacobian, AF.hessian) else (x,)
    with pytest.raises(TypeError, match="The outputs of the user-provided function given to"):
        call(lambda a: (a.sum(), "no tensor"), x, *given)


def test_strict_refuses_what_does_not_depend_on_an_input() -> None:
    """Finding 24."""
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function does not"):
        AF.vjp(lambda a: a.detach(), x, x, strict=True)
    with pytest.raises(RuntimeError, match="with respect to input 0 is independent of the input"):
        AF.hessian(lambda a: a.sum(), x, strict=True)
    with pytest.raises(RuntimeError, match="not supported together"):
        AF.jacobian(lambda a: a, x, strict=True, vectorize=True)


def test_vectors_have_the_sizes_of_what_they_multiply() -> None:
    """Finding 24."""
    with pytest.raises(RuntimeError, match="v has invalid size: should be"):
        AF.jvp(lambda a: a, x, x[:1])
    with pytest.raises(RuntimeError, match="The vector v can only be None if"):
        AF.vjp(lambda a: a, x)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_the_hessian_by_either_strategy(strategy: str) -> None:
    """Finding 24: of a number too."""
    kept = {"vectorize": True, "outer_jacobian_strategy": strategy}
    assert AF.hessian(lambda a: (a**3).sum(), x, **kept).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert AF.hessian(lambda a: a**3, torch.tensor(1.0), **kept).item() == 6.0


def test_the_helpers_of_tuples_undo_each_other() -> None:
    outer, parts = AF._as_tuple(x)
    assert not outer
    assert AF._tuple_postprocess(parts, outer) is x
    assert AF._tuple_postprocess(((x,), (x,)), (True, False)) == (x, x)
    with pytest.raises(TypeError, match="value at index 1 has type <class 'int'>"):
        AF._as_tuple((x, 2), "inputs", "vjp")


def test_the_helpers_of_graphs_give_new_tensors_and_drop_history() -> None:
    (given,) = AF._grad_preprocess((x,), create_graph=False, need_graph=True)
    (result,) = AF._grad_postprocess((given * 2,), create_graph=False)
    assert given is not x
    assert given.requires_grad
    assert not result.requires_grad
