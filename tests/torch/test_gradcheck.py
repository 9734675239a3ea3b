"""gradcheck: complex functions, inputs of any layout, differences in place (finding 10)."""

from collections.abc import Callable
from typing import Any

import pytest

import maquette.torch as torch
from maquette.torch.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck


def complex_input() -> Any:
    return torch.tensor([1 + 2j, -0.5 + 1j], dtype=torch.complex128, requires_grad=True)


@pytest.mark.parametrize(
    "function",
    [lambda z: z * z, lambda z: z.abs(), lambda z: z.conj() * 2, lambda z: z.real, torch.exp],
)
def test_T62_complex_functions_are_checked(function: Callable[[Any], Any]) -> None:
    assert gradcheck(function, complex_input())


def test_T62_second_gradients_of_complex_functions_are_checked() -> None:
    assert gradgradcheck(lambda z: z**3, complex_input())


def test_T62_complex_results_of_real_inputs_are_checked() -> None:
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: torch.complex(x, x * x), x)


def test_T62_a_wrong_complex_gradient_names_the_part() -> None:
    with pytest.raises(GradcheckError, match="imaginary part of complex outputs"):
        gradcheck(lambda z: z * z.detach(), complex_input())


@pytest.mark.parametrize("shape", [(3, 2), (0, 2)])
def test_T62_inputs_may_be_empty_or_not_contiguous(shape: tuple[int, int]) -> None:
    x = torch.ones(shape, dtype=torch.float64).t().requires_grad_()
    assert gradcheck(torch.exp, x)


def test_T62_functions_that_close_over_their_input_are_checked() -> None:
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda _: x.sin(), x)


def test_T62_inputs_are_left_as_they_were() -> None:
    x = torch.tensor([1.5, 2.5], dtype=torch.float64, requires_grad=True)
    gradcheck(torch.sin, x)
    assert x.tolist() == [1.5, 2.5]
