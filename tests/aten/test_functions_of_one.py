"""Functions of one operand and activations: values at the edges, types, and every derivative."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gradcheck import check_gradients, check_second_gradients

import maquette as mq
import maquette.torch as torch
from maquette.api import functions as F

INNER = np.array([-0.7, -0.3, 0.2, 0.6])
WIDE = np.array([-4.0, -1.3, 0.4, 2.2, 7.0])
POSITIVE = np.array([0.3, 1.4, 2.2])

DIFFERENTIABLE = {
    **dict.fromkeys("exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh erf erfc".split(), INNER),
    **dict.fromkeys("sigmoid asin acos atanh erfinv sinc deg2rad rad2deg neg abs".split(), INNER),
    **dict.fromkeys("square frac sgn nan_to_num".split(), INNER),
    **dict.fromkeys("log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma".split(), POSITIVE),
    **dict.fromkeys("special_ndtri special_entr".split(), np.array([0.2, 0.5, 0.8])),
    **dict.fromkeys("i0 special_i0e special_i1 special_i1e special_erfcx".split(), INNER),
    **dict.fromkeys("special_log_ndtr special_ndtr".split(), INNER),
    "acosh": np.array([1.3, 2.0]),
    "logit": np.array([0.2, 0.7]),
}
ACTIVATIONS = (
    "relu silu hardtanh leaky_relu elu selu celu softplus hardswish hardsigmoid mish log_sigmoid "
    "hardshrink softshrink relu6 gelu"
).split()


@pytest.mark.parametrize(("name", "at"), DIFFERENTIABLE.items(), ids=str)
def test_derivative_is_the_difference_quotient(name: str, at: object) -> None:
    check_gradients(getattr(F, name), at)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_derivative_is_the_difference_quotient(name: str) -> None:
    check_gradients(getattr(F, name), WIDE)


@pytest.mark.parametrize(
    "name", "tanh sigmoid gelu silu mish softplus elu log_sigmoid hardswish logit".split()
)
def test_backward_operators_have_derivatives_too(name: str) -> None:
    at = np.array([0.2, 0.7]) if name == "logit" else np.array([-1.3, 0.4, 2.2])
    check_second_gradients(getattr(F, name), at)


def test_gelu_by_tanh_differentiates_twice() -> None:
    check_second_gradients(lambda x: F.gelu(x, approximate="tanh"), np.array([-1.3, 0.4, 2.2]))


def test_glu_halves_its_dimension_and_differentiates_twice() -> None:
    x = np.random.default_rng(0).standard_normal((2, 4))
    assert F.glu(mq.from_numpy(x)).shape == (2, 2)
    check_second_gradients(F.glu, x)


def test_prelu_differentiates_by_its_weight() -> None:
    x = np.array([[-1.5, 0.7], [0.3, -0.2]])
    check_gradients(F.prelu, x, np.array([0.25, 0.5]))


@pytest.mark.parametrize("name", ["elu_", "leaky_relu_", "celu_", "relu_", "sigmoid_", "tanh_"])
def test_in_place_activations_differentiate_by_their_result(name: str) -> None:
    function = getattr(mq.nn.functional, name, None) or getattr(mq, name)
    check_gradients(lambda x: function(x * 1), np.array([-1.3, 0.4, 2.2]))


def test_polygamma_and_mvlgamma_differentiate() -> None:
    check_gradients(lambda x: F.polygamma(1, x), POSITIVE)
    check_gradients(lambda x: F.mvlgamma(x, 2), POSITIVE + 1)


def test_T31_integers_become_the_default_dtype() -> None:
    x = mq.tensor([1, 2], dtype=mq.int8)
    assert x.exp().dtype is mq.float32
    assert x.exp().tolist() == pytest.approx([math.e, math.e**2], rel=1e-6)


def test_rounding_gives_integers_back() -> None:
    x = mq.tensor([1, -2])
    assert x.floor().tolist() == [1, -2]
    assert x.floor().dtype is mq.int64


def test_round_goes_to_even_and_takes_decimals() -> None:
    assert mq.tensor([0.5, 1.5, 2.5]).round().tolist() == [0, 2, 2]
    assert mq.tensor([123.456]).round(decimals=-1).tolist() == [120]


@pytest.mark.parametrize("name", ["floor", "gelu", "erf"])
def test_complex_numbers_are_refused_where_there_is_no_order(name: str) -> None:
    with pytest.raises(NotImplementedError):
        getattr(F, name)(mq.ones(2, dtype=mq.complex64))


def test_abs_of_complex_is_real() -> None:
    x = mq.tensor([3 + 4j])
    assert x.abs().dtype is mq.float32
    assert x.abs().item() == 5.0


def test_sign_of_nan_is_zero() -> None:
    assert mq.tensor([float("nan"), -2.0]).sign().tolist() == [0, -1]


def test_relu_keeps_nan_and_integers() -> None:
    assert mq.tensor([float("nan")]).relu().isnan().item()
    assert mq.tensor([-1, 2]).relu().tolist() == [0, 2]


def test_predicates_of_integers_are_all_false() -> None:
    x = mq.tensor([0, 1])
    assert x.isnan().tolist() == [False, False]
    assert x.isfinite().tolist() == [True, True]


def test_softplus_is_linear_above_its_threshold() -> None:
    assert F.softplus(mq.tensor([25.0]), threshold=20).item() == 25.0


@pytest.mark.parametrize(("name", "count"), [("exp", 1), ("sin", 1), ("neg", 0), ("deg2rad", 0)])
def test_no_more_is_saved_than_the_formula_names(name: str, count: int) -> None:
    x = mq.ones(2, requires_grad=True)
    saved = getattr(x, name)().grad_fn.saved
    assert sum(not isinstance(s, int) for s in saved) == count  # versions stand beside tensors


@pytest.mark.parametrize("name", ["chebyshev_polynomial_t", "legendre_polynomial_p"])
def test_polynomials_of_degree_two(name: str) -> None:
    found = getattr(F, f"special_{name}")(mq.tensor([0.5]), 2).item()
    assert found == pytest.approx(-0.5 if "cheb" in name else -0.125)


@pytest.mark.parametrize("x", [0.0, 1e-170, 1e-9, -1e-5, 0.05, 0.0999999, 0.1, -0.3, 2.5])
def test_derivatives_of_sinc_are_exact_near_zero_too(x: float) -> None:
    """The power series of the function, differentiated term by term."""
    at = mq.tensor(x, dtype=mq.float64, requires_grad=True)
    (first,) = mq.autograd.grad(mq.sinc(at), at, create_graph=True)
    (second,) = mq.autograd.grad(first, at, create_graph=True)
    (third,) = mq.autograd.grad(second, at)
    terms = [(2 * k, (-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1)) for k in range(20)]
    for order, found in ((1, first), (2, second), (3, third)):
        expected = math.fsum(
            c * math.perm(n, order) * x ** (n - order) for n, c in terms if n >= order
        )
        assert found.item() == pytest.approx(expected, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("kind", [mq.float16, mq.bfloat16], ids=str)
def test_signs_of_16_bit_floats_are_turned_in_their_bits(kind: mq.dtype) -> None:
    x = mq.tensor([1.5, -1.5, 0.0, -0.0, float("inf"), -float("inf")], dtype=kind)
    assert mq.neg(x).tolist() == [-1.5, 1.5, 0.0, 0.0, -float("inf"), float("inf")]
    assert mq.neg(x).signbit().tolist() == [True, False, True, False, True, False]
    assert not mq.abs(x.reshape(2, 3).t()).signbit().any()


@pytest.mark.parametrize("degree", [-1, 0, 1, 2, 5, 130])
@pytest.mark.parametrize("family", ["chebyshev_polynomial_u", "hermite_polynomial_h"])
def test_polynomials_of_one_degree_are_those_of_a_tensor_of_degrees(
    family: str, degree: int
) -> None:
    x = torch.tensor([-2.0, -0.3, 0.0, 1.0, torch.nan, torch.inf]).repeat(3_000)
    function = getattr(torch.special, family)
    expected = function(x, torch.full(x.shape, float(degree)))
    torch.testing.assert_close(function(x, degree), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["bessel_j0", "modified_bessel_k1", "erfcx", "ndtri", "airy_ai"])
def test_floats_of_16_bits_are_refused_where_pytorch_has_no_kernel(name: str) -> None:
    function = getattr(mq.ops.aten, f"special_{name}")
    with pytest.raises(NotImplementedError, match=f"{name}_cpu\" not implemented for 'BFloat16'"):
        function(mq.ones(2, dtype=mq.bfloat16))
    assert function(mq.ones(2, dtype=mq.int32)).dtype is mq.float32


def test_polynomials_of_16_bits_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Half'"):
        mq.ops.aten.special_legendre_polynomial_p(mq.ones(0, dtype=mq.float16), 1)


def test_the_gradient_of_log_sigmoid_is_laid_out_as_what_came() -> None:
    x = mq.ones(2, 3, 4, 5, requires_grad=True)
    came = mq.ones(2, 3, 4, 5).contiguous(memory_format=mq.channels_last)
    (found,) = mq.autograd.grad(mq.nn.functional.logsigmoid(x), x, came)
    assert found.is_contiguous(memory_format=mq.channels_last)


@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_complex_functions_move_twice_as_their_differences(name: str) -> None:
    function = getattr(mq.nn.functional, name, None) or getattr(mq, name)
    z, t, c = (mq.tensor(v, dtype=mq.complex128) for v in (0.3 - 0.7j, 0.7 - 0.2j, 0.4 + 0.2j))
    step = 1e-6 * t

    def gradient(z: mq.Tensor) -> mq.Tensor:
        z.requires_grad_()
        return mq.autograd.grad(function(z), z, c, create_graph=True)[0]

    moved = (function(z + step) - function(z - step)) / 2e-6
    assert mq.allclose(mq.func.jvp(function, (z,), (t,))[1], moved)
    moved = ((gradient(z + step) - gradient(z - step)) / 2e-6).detach()
    (found,) = mq.autograd.grad(gradient(z), z, c)
    assert (found.conj() * t).real.item() == pytest.approx((c.conj() * moved).real.item())
