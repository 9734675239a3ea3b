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


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_gradients_of_sparse_inputs_are_checked(layout: str, masked: bool) -> None:
    matrix = torch.tensor([[1.0, 0, 2], [0, 3, 0]], dtype=torch.float64)
    matrix = matrix.to_sparse(layout=getattr(torch, layout)).requires_grad_()
    dense = torch.arange(6.0, dtype=torch.float64).reshape(3, 2).requires_grad_()
    function = torch.sparse.mm if masked else torch.mm
    assert torch.autograd.gradcheck(function, (matrix, dense), masked=masked)


def test_a_wrong_gradient_of_a_sparse_input_is_found() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x.to_dense() * 2

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            return grad * 3

    x = torch.eye(2, dtype=torch.float64).to_sparse().requires_grad_()
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(Wrong.apply, x, masked=True)
