"""Values at the edges: infinities, poles, empty samples, 16-bit rounding between two steps."""

from __future__ import annotations

import math

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
