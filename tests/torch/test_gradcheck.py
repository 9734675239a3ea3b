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


class Wrong(torch.autograd.Function):
    """The sum of squares of an input; tangents or batches of gradients are wrong, as told."""

    @staticmethod
    def forward(ctx, x, what):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        ctx.what = what
        return (x * x).sum()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad, None

    @staticmethod
    def jvp(ctx, moved, _):
        (x,) = ctx.saved_tensors
        return (2 * x * moved).sum() * (3 if ctx.what == "forward" else 1)


def leaf():
    return torch.ones(2, dtype=torch.float64, requires_grad=True)


def test_tangents_are_checked_where_that_is_asked_for():
    assert torch.autograd.gradcheck(Wrong.apply, (leaf(), "forward"))
    assert torch.autograd.gradcheck(Wrong.apply, (leaf(), ""), check_forward_ad=True)
    with pytest.raises(RuntimeError, match="forward mode mismatch for output 0"):
        torch.autograd.gradcheck(Wrong.apply, (leaf(), "forward"), check_forward_ad=True)


def test_batches_of_gradients_and_of_tangents_are_checked():
    asked = {"check_batched_grad": True, "check_batched_forward_grad": True}
    assert torch.autograd.gradcheck(torch.sin, leaf(), check_forward_ad=True, **asked)


def test_results_that_depend_in_secret_are_found():
    with pytest.raises(RuntimeError, match="expected to be zero"):
        torch.autograd.gradcheck(lambda x: x.detach() * 2, leaf())
    with pytest.raises(AssertionError, match="the same shape"):
        torch.autograd.gradcheck(lambda x: x[: 1 + int(x[0] > 1)], leaf())
    with pytest.raises(AssertionError, match="at least one of"):
        torch.autograd.gradcheck(torch.sin, leaf(), check_backward_ad=False)


def test_gradients_of_gradients_are_checked_in_both_modes():
    assert torch.autograd.gradgradcheck(torch.sin, leaf(), check_fwd_over_rev=True)
    with pytest.raises(AssertionError, match="at least one of"):
        torch.autograd.gradgradcheck(torch.sin, leaf(), check_rev_over_rev=False)


def test_T62_a_backward_that_cannot_do_without_a_gradient_is_found() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.register_hook(lambda grad: grad * 1)
        return y

    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    with pytest.warns(UserWarning, match="undefined gradient support"):
        assert not torch.autograd.gradcheck(fn, x, raise_exception=False)
    assert torch.autograd.gradcheck(fn, x, check_undefined_grad=False)


def test_T62_a_backward_that_adds_to_its_gradient_is_found() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.register_hook(lambda grad: grad + 1e-8)
        return y

    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="backward not multiplied by grad_output"):
        torch.autograd.gradcheck(fn, x)


def test_T62_inputs_of_single_precision_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="not a double precision"):
        torch.autograd.gradcheck(lambda x: x * 1, torch.ones(1, requires_grad=True), atol=1e-1)


def test_T62_a_sparse_gradient_of_a_dense_input_is_found() -> None:
    class Sparse(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            return grad.to_sparse()

    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad is incorrect layout"):
        torch.autograd.gradcheck(Sparse.apply, x)


def many_elements() -> torch.Tensor:
    return torch.linspace(0.5, 2, 30, dtype=torch.float64, requires_grad=True)


def test_T62_the_fast_mode_runs_a_function_a_few_times() -> None:
    ran = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        ran.append(x)
        return x.sin()

    assert torch.autograd.gradcheck(fn, many_elements(), fast_mode=True, check_forward_ad=True)
    assert len(ran) < 20


@pytest.mark.parametrize("mode", ["backward", "forward"])
def test_T62_the_fast_mode_finds_one_wrong_element(mode: str) -> None:
    class OneWrong(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output): ...

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 + (grad * (torch.arange(30) == 7) if mode == "backward" else 0)

        @staticmethod
        def jvp(ctx, moved):
            return moved * 2 + (moved * (torch.arange(30) == 7) if mode == "forward" else 0)

    with pytest.raises(
        GradcheckError, match=r"mismatch for output 0[^$]*per-element .*: (1\.0|0\.99)"
    ):
        gradcheck(OneWrong.apply, many_elements(), fast_mode=True, check_forward_ad=True)


def test_T62_the_fast_mode_checks_complex_functions_of_several_results() -> None:
    assert gradcheck(lambda z: (z.real, z * z), complex_input(), fast_mode=True)
    with pytest.raises(GradcheckError, match="imaginary part of complex outputs"):
        gradcheck(lambda z: z * z.detach(), complex_input(), fast_mode=True)


def test_T62_the_fast_mode_finds_results_that_depend_in_secret() -> None:
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, many_elements(), fast_mode=True)


def test_T62_the_fast_mode_leaves_the_programs_random_numbers() -> None:
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    gradcheck(torch.sin, many_elements(), fast_mode=True)
    assert torch.equal(torch.rand(2), wanted)


@pytest.mark.parametrize("fast", [True, False])
def test_T62_forward_mode_over_gradients_of_a_linear_function_is_checked(fast: bool) -> None:
    checked = {"check_fwd_over_rev": True, "fast_mode": fast}
    assert gradgradcheck(lambda x, y: (x * 3, y.sin()), (leaf(), leaf()), **checked)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_T62_backward_is_checked_before_forward_mode(fast_mode: bool) -> None:
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def vjp(ctx: Any, grad: Any) -> Any:
            raise RuntimeError("backward")

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            raise RuntimeError("forward mode")

    x = torch.rand(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="backward"):
        gradcheck(Broken.apply, x, check_forward_ad=True, fast_mode=fast_mode)
