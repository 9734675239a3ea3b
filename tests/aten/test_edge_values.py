"""Values at the edges: infinities, poles, empty samples, 16-bit rounding between two steps."""

from __future__ import annotations

import math
from contextlib import nullcontext

import pytest

import maquette as mq

aten = mq.ops.aten


def test_a_truncated_quotient_is_rounded_to_16_bits_before_it_is_cut() -> None:
    # 8.9375 / 0.498046875 is 17.945..., which bfloat16 (8 bits) rounds to 18.
    a, b = (mq.tensor([v], dtype=mq.bfloat16) for v in (8.9375, 0.498046875))
    assert aten.div.Tensor_mode(a, b, rounding_mode="trunc").tolist() == [18.0]
    assert aten.div.Tensor_mode(a.float(), b.float(), rounding_mode="trunc").tolist() == [17.0]


def test_a_cross_product_in_16_bits_rounds_each_product() -> None:
    # 1.0078125^2 is 1.01568..., in bfloat16 1.015625; less 1 that is 0.015625 and not 0.01568.
    a = mq.tensor([1.0078125, 1.0, 0.0], dtype=mq.bfloat16)
    b = mq.tensor([1.0, 1.0078125, 0.0], dtype=mq.bfloat16)
    assert aten.linalg_cross.default(a, b).tolist() == [0.0, 0.0, 0.015625]


@pytest.mark.parametrize(
    ("values", "mean"),
    [([1.0, 2.0, math.inf], math.inf), ([math.inf, 1.0, 2.0], math.nan), ([1.0, 2.0], 1.5)],
)
def test_the_mean_beside_a_variance_is_updated_element_by_element(
    values: list[float], mean: float
) -> None:
    # mean += (x - mean) / n: once infinite, the next finite x makes it inf - inf.
    found = aten.var_mean.correction(mq.tensor(values))[1].item()
    assert found == mean or (math.isnan(found) and math.isnan(mean))


def test_the_mean_beside_a_variance_goes_along_the_reduced_dimension_only() -> None:
    x = mq.tensor([[math.inf, 1.0], [2.0, math.inf]])
    along_rows = aten.std_mean.correction(x, [0])[1].tolist()
    assert math.isnan(along_rows[0])
    assert along_rows[1] == math.inf


@pytest.mark.parametrize("correction", [-2, 0, 1])
def test_the_variance_of_nothing_is_nan(correction: int) -> None:
    warns = pytest.warns(UserWarning, match="degrees of freedom")
    with warns if correction >= 0 else nullcontext():
        assert math.isnan(aten.var.correction(mq.zeros(0), correction=correction).item())


def test_trigamma_at_infinity_is_zero() -> None:
    assert aten.polygamma.default(1, mq.tensor(math.inf)).item() == 0.0


def test_trigamma_at_a_negative_pole_is_what_the_reflection_gives() -> None:
    # (pi / sin(pi x))^2 with the sine of the rounded -pi, which is not zero.
    found = aten.polygamma.default(1, mq.tensor(-1.0, dtype=mq.float64)).item()
    assert found == pytest.approx((math.pi / math.sin(-math.pi)) ** 2, rel=1e-9)


@pytest.mark.parametrize("x", [-2.5, -0.25, 0.25, 0.75, 3.0])
def test_trigamma_falls_by_the_square_from_one_argument_to_the_next(x: float) -> None:
    here, next_one = (
        aten.polygamma.default(1, mq.tensor(v, dtype=mq.float64)).item() for v in (x, x + 1)
    )
    assert here - next_one == pytest.approx(1 / x**2, rel=1e-12)


def test_logspace_of_integers_starts_and_ends_at_whole_exponents() -> None:
    # 0.9 and 3.7 become 0 and 3, between which the exponents are 0, 0.75, 1.5, 2.25, 3.
    assert aten.logspace.default(0.9, 3.7, 5, 2.0, dtype=mq.int64).tolist() == [1, 1, 2, 4, 8]


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_extremes_take_no_bool(name: str) -> None:
    with pytest.raises(RuntimeError, match="does not support bool input"):
        getattr(aten, name).default(mq.tensor([True, False]))


@pytest.mark.parametrize("name", ["fft_fft", "fft_ifft2", "fft_hfft"])
def test_transforms_take_no_bfloat16(name: str) -> None:
    with pytest.raises(RuntimeError, match="Unsupported dtype BFloat16"):
        getattr(aten, name).default(mq.ones(3, 3, dtype=mq.bfloat16))


def test_an_exponent_has_no_more_bits_than_16_bit_elements() -> None:
    # bfloat16 has 3.0089 as 3.015625.
    x = mq.tensor([7.0625], dtype=mq.bfloat16)
    found = aten.pow.Tensor_Scalar(x, 3.0089)
    assert found.item() == mq.tensor(7.0625**3.015625, dtype=mq.bfloat16).item()


def test_batch_norm_normalizes_by_the_statistics_that_it_saves() -> None:
    x = mq.tensor([[1.0, 2.0, 4.0, 4.125]], dtype=mq.bfloat16).reshape(4, 1)
    out, mean, rstd = aten.native_batch_norm.default(x, None, None, None, None, True, 0.1, 0.5)
    expected = (x.double() - mean.double()) * rstd.double()
    assert out.tolist() == expected.to(mq.bfloat16).tolist()


def test_logit_clamps_from_below_first() -> None:
    # With eps above 1/2 the bounds are the wrong way round: 0 becomes 0.7, 1 becomes 0.3.
    low, high = aten.logit.default(mq.tensor([0.0, 1.0], dtype=mq.float64), 0.7).tolist()
    assert low == pytest.approx(math.log(0.7 / 0.3))
    assert high == pytest.approx(math.log(0.3 / 0.7))


def test_the_hinge_of_integers_stays_an_integer() -> None:
    x, target = mq.tensor([1, -3, 4]), mq.tensor([-1, -1, 1])
    found = aten.hinge_embedding_loss.default(x, target, 2.7, 0)
    assert found.dtype is mq.int64
    assert found.tolist() == [1, 5, 4]  # 2.7 - 1 and 2.7 + 3 without their fractions; 4 itself


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_nothing_divided_by_zero_is_nothing(name: str) -> None:
    op = getattr(aten, name)
    found = op(mq.zeros((0, 3), dtype=mq.int64), mq.zeros(3, dtype=mq.int64))
    assert found.shape == (0, 3)


def test_a_search_among_values_of_another_dtype_compares_in_the_common_one() -> None:
    whole = mq.tensor([1, 3, 5, 7])
    assert aten.searchsorted.Tensor(whole, mq.tensor([3.5, 5.0])).tolist() == [2, 2]
    assert aten.bucketize.Tensor(mq.tensor([4]), mq.tensor([1.0, 4.5])).tolist() == [1]


def test_a_0_dim_value_does_not_widen_the_search() -> None:
    # Just above 3 in double precision, 3 itself in that of the sequence.
    value = 3.0000000001
    sequence = mq.tensor([1.0, 3.0])
    assert aten.searchsorted.Tensor(sequence, mq.tensor(value, dtype=mq.float64)).item() == 1
    assert aten.searchsorted.Tensor(sequence, mq.tensor([value], dtype=mq.float64)).item() == 2


def test_isin_takes_no_bool() -> None:
    with pytest.raises(RuntimeError, match="Unsupported input type encountered for isin"):
        aten.isin.Tensor_Tensor(mq.ones(2), mq.tensor([True]))


def test_a_range_against_its_step_is_refused_though_its_whole_bounds_agree() -> None:
    with pytest.raises(RuntimeError, match="inconsistent with step sign"):
        aten.arange.start_step(0.0, 0.5, -4.0, dtype=mq.int64)


def test_values_of_more_dimensions_than_their_place_are_refused() -> None:
    with pytest.raises(RuntimeError, match="cannot be broadcast to indexing result of shape"):
        aten.index_put.default(mq.zeros(5, 5), [mq.tensor(2)], mq.ones(1, 5))


@pytest.mark.parametrize("more", [mq.ones(5), mq.ones(1, 5)])
def test_diff_refuses_what_cannot_be_put_before_a_tensor(more: mq.Tensor) -> None:
    with pytest.raises(RuntimeError, match="diff expects"):
        aten.diff.default(mq.ones(5, 5), 1, 1, more)


@pytest.mark.parametrize("name", ["fweights", "aweights"])
def test_cov_refuses_negative_weights(name: str) -> None:
    weights = {"fweights": mq.tensor([1, -1]), "aweights": mq.tensor([1.0, -1.0])}[name]
    with pytest.raises(RuntimeError, match=f"{name} cannot be negative"):
        aten.cov.default(mq.ones(2), **{name: weights})


@pytest.mark.parametrize("op", ["_softmax_backward_data", "_log_softmax_backward_data"])
def test_the_gradient_of_softmax_has_the_dtype_of_what_comes_back(op: str) -> None:
    back = mq.ones(3, dtype=mq.float64)
    assert getattr(aten, op).default(back, back, 0, mq.float32).dtype is mq.float64


@pytest.mark.parametrize("kind", [mq.float16, mq.bfloat16])
def test_a_number_beside_16_bit_elements_is_rounded_to_them(kind: mq.dtype) -> None:
    x = mq.tensor([0.1], dtype=kind)
    assert (x == 0.1).tolist() == [True]
    assert (x == mq.tensor(0.1, dtype=mq.float64)).tolist() == [True]
    assert (x - 0.1).tolist() == [0.0]
    assert aten.remainder.Scalar(x, 0.1).tolist() == [0.0]


def test_integers_beside_16_bit_elements_are_rounded_to_them() -> None:
    # 2049 has 12 bits, float16 keeps 11.
    assert (mq.tensor([2048.0], dtype=mq.float16) == mq.tensor([2049])).tolist() == [True]


def test_a_number_that_multiplies_16_bit_elements_is_not_rounded() -> None:
    # 1.328125 * 3.14159 is 4.1724, nearest to 4.1875; by bfloat16's 3.140625 it is 4.1711, nearest
    # to 4.15625 (between 4 and 8 the steps are 0.03125, so 4.171875 divides the two).
    x = mq.tensor([1.328125], dtype=mq.bfloat16)
    assert (x * 3.14159).tolist() == [4.1875]
    assert (x * mq.tensor(3.14159)).tolist() == [4.1875]
    assert (x * mq.tensor(3.14159, dtype=mq.bfloat16)).tolist() == [4.15625]


def test_tensors_of_different_dtypes_may_be_equal() -> None:
    assert aten.equal.default(mq.ones(2), mq.ones(2, dtype=mq.int64))
    assert not aten.equal.default(mq.tensor([0.1]), mq.tensor([0.1], dtype=mq.float64))


def test_counts_of_nothing_are_integers_whatever_the_weights() -> None:
    found = aten.bincount.default(mq.zeros(0, dtype=mq.int64), mq.zeros(0), 4)
    assert found.dtype is mq.int64
    assert found.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "huber_loss"])
def test_the_gradient_of_a_broadcast_loss_is_that_of_the_expanded_one(name):
    """PyTorch 2.13 divides by the elements of the smaller operand."""
    loss = getattr(mq.ops.aten, name).default
    x, y = mq.tensor(-0.5, requires_grad=True), mq.tensor([1.0, -1.0, 0.25])
    (got,) = mq.autograd.grad(loss(x, y), x)
    (expected,) = mq.autograd.grad(loss(x.expand(3), y), x)
    assert float(got) == pytest.approx(float(expected))


def test_a_number_that_divides_is_not_rounded_to_16_bits():
    x = mq.tensor([-7.951], dtype=mq.bfloat16)
    assert mq.ops.aten.floor_divide(x, 1.135137677192688).tolist() == [-7]


def test_a_trace_with_constants_runs_with_fakes():
    graph = mq.fx.make_fx(lambda x: mq.combinations(x, 2), tracing_mode="fake")(mq.ones(3))
    with mq.FakeTensorMode() as mode:
        assert graph(mode.from_tensor(mq.ones(3))).shape == (3, 2)


@pytest.mark.parametrize("name", ["lift", "lift_fresh"])
def test_lifting_keeps_tangents(name):
    lift = getattr(mq.ops.aten, name)
    assert mq.func.jvp(lift, (mq.ones(2),), (mq.ones(2),))[1].tolist() == [1, 1]


def test_the_inverse_root_of_a_complex_zero_is_infinite() -> None:
    for length in (1, 9):
        found = mq.rsqrt(mq.zeros(length, dtype=mq.complex64))[0].item()
        assert isinstance(found, complex)
        assert (found.real, math.isnan(found.imag)) == (math.inf, True)


def test_the_gamma_function_of_several_dimensions_refuses_truths() -> None:
    with pytest.raises(RuntimeError, match="may not be a boolean tensor"):
        mq.mvlgamma(mq.tensor([True]), 2)


@pytest.mark.parametrize("z", [1e-19 + 1e-18j, -1e-30 + 2e-30j, 1e-250 + 2e-250j])
def test_log1p_of_a_small_complex_number_is_the_number(z: complex) -> None:
    found = mq.log1p(mq.tensor(z, dtype=mq.complex128)).item()
    assert isinstance(found, complex)
    assert (found.real, found.imag) == pytest.approx((z.real, z.imag), rel=1e-12, abs=0)


def test_a_matrix_with_an_infinite_element_has_no_singular_values() -> None:
    two = mq.eye(3).repeat(2, 1, 1)
    two[0, 2, 0] = float("-inf")
    left, values, _ = mq.linalg_svd(two)
    assert left[0].isnan().all()
    assert values[0].isnan().all()
    assert values[1].tolist() == [1, 1, 1]


def test_a_matrix_with_nan_is_refused_by_its_singular_values() -> None:
    with pytest.raises(RuntimeError, match="contained non-finite values"):
        mq.linalg_svdvals(mq.full((3, 3), math.nan))


SLOPES_AT_NAN = {
    "hardtanh": 0.0, "relu6": 0.0, "hardshrink": 0.0, "softshrink": 0.0,
    "hardswish": math.nan, "elu": math.nan, "selu": math.nan, "celu": math.nan,
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES_AT_NAN)
@pytest.mark.parametrize("count", [1, 5000])
def test_the_slope_of_an_activation_at_nan(name: str, count: int) -> None:
    x = mq.full((count,), math.nan, requires_grad=True)
    getattr(mq.nn.functional, name)(x).sum().backward()
    assert str(x.grad[-1].item()) == str(SLOPES_AT_NAN[name])


def test_the_most_frequent_element_is_nan_where_none_comes_twice() -> None:
    found = mq.tensor([[1.0, math.nan, 0.5], [2.0, 2.0, math.nan]]).mode()
    assert str(found.values.tolist()) == "[nan, 2.0]"
    assert found.indices.tolist() == [1, 1]


def test_the_gamma_function_of_a_number_below_the_normal_ones() -> None:
    x = mq.tensor([1e-310, -1e-310], dtype=mq.float64)
    assert x.lgamma().tolist() == pytest.approx([713.8013788281542] * 2)


def test_the_least_common_multiple_of_short_integers_wraps() -> None:
    a, b = mq.tensor([2], dtype=mq.int8), mq.tensor([127], dtype=mq.int8)
    assert mq.lcm(a, b).tolist() == [-2]  # 254


def test_the_slope_of_leaky_relu_lies_as_its_operand() -> None:
    grad, x = mq.ones(2, 3).t(), mq.ones(3, 2)
    assert aten.leaky_relu_backward(grad, x, 0.1, False).stride() == x.stride()
