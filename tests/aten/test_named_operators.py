"""Operators that programs call by name and few others build on: vander, conv_tbc, draws, grids."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradients, check_second_gradients

import maquette as mq

RANDOM = np.random.default_rng(11)


def randn(*shape):
    return RANDOM.standard_normal(shape)


# --- powers, diagonals, frequencies --------------------------------------------------


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("columns", [None, 1, 2, 5])
def test_vander_is_numpys(columns, increasing):
    x = randn(4)
    found = mq.vander(mq.from_numpy(x), columns, increasing)
    np.testing.assert_allclose(found.numpy(), np.vander(x, columns, increasing))


def test_vander_of_integers_is_of_int64():
    assert mq.vander(mq.tensor([2, 3], dtype=mq.int8), N=9)[0, 0].item() == 256
    with pytest.raises(RuntimeError, match="one-dimensional"):
        mq.vander(mq.ones(2, 2))


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (7, 2), (2, 5), (2, 2, 2), (0, 3)])
def test_fill_diagonal_is_numpys(shape, wrap):
    expected = np.zeros(shape)
    if expected.size:
        np.fill_diagonal(expected, 2.5, wrap=wrap)
    found = mq.zeros(shape, dtype=mq.float64).fill_diagonal_(2.5, wrap)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_fill_diagonal_lets_no_gradient_through_the_diagonal():
    check_gradients(lambda x: (x * 1).fill_diagonal_(3.0, True).square(), randn(5, 2))


@pytest.mark.parametrize(
    "shape, words", [((3,), "larger than 1"), ((2, 2, 3), "equal length"), ((), "larger than 1")]
)
def test_fill_diagonal_refuses_shapes(shape, words):
    for device in ("cpu", "meta"):
        with pytest.raises(RuntimeError, match=words):
            mq.zeros(shape, device=device).fill_diagonal_(1)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies_are_numpys(n):
    for name in ("fftfreq", "rfftfreq"):
        found = getattr(mq, f"fft_{name}")(n, 0.3, dtype=mq.float64)
        np.testing.assert_allclose(found.numpy(), getattr(np.fft, name)(n, 0.3))


def test_frequencies_are_of_the_dtype_of_out():
    out = mq.empty(4, dtype=mq.float64)
    assert mq.fft_fftfreq(4, out=out) is out
    assert out.tolist() == [0.0, 0.25, -0.5, -0.25]
    with pytest.raises(RuntimeError, match="floating point or complex"):
        mq.fft_fftfreq(4, dtype=mq.int64)


# --- convolution, grids, weights -----------------------------------------------------


@pytest.mark.parametrize("pad", [0, 2])
def test_conv_tbc_is_conv1d_of_another_layout(pad):
    x, w, b = mq.randn(6, 2, 3), mq.randn(3, 3, 4), mq.randn(4)
    expected = mq.conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), b, padding=pad)
    assert mq.allclose(mq.conv_tbc(x, w, b, pad), expected.permute(2, 0, 1), atol=1e-5)


@pytest.mark.parametrize("pad", [-1, 0, 1])
def test_conv_tbc_has_gradients_of_first_and_second_order(pad):
    arrays = randn(5, 2, 3), randn(2, 3, 2), randn(2)
    check_gradients(lambda x, w, b: mq.conv_tbc(x, w, b, pad), *arrays)
    check_second_gradients(lambda x, w, b: mq.conv_tbc(x, w, b, pad), *arrays)


@pytest.mark.parametrize(
    "shapes, words",
    [
        (((5, 2), (3, 3, 4), (4,)), "Input must have 3 dims"),
        (((5, 2, 3), (3, 4), (4,)), "Weight tensor must have 3 dims"),
        (((5, 2, 3), (3, 3, 4), (4, 1)), "Bias must be 1-D"),
        (((5, 2, 2), (3, 3, 4), (4,)), "Input dim 2"),
        (((5, 2, 3), (3, 3, 4), (5,)), "Bias size"),
        (((1, 2, 3), (4, 3, 4), (4,)), "negative dimension -2"),
    ],
)
def test_conv_tbc_refuses_shapes(shapes, words):
    for device in ("cpu", "meta"):
        with pytest.raises(RuntimeError, match=words):
            mq.conv_tbc(*(mq.zeros(s, device=device) for s in shapes))


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("space", [(3, 4), (2, 1, 3)])
def test_the_identity_map_gives_a_grid_of_centers(space, align_corners):
    n = len(space)
    theta = mq.eye(n, n + 1, dtype=mq.float64).expand(2, n, n + 1)
    grid = mq.affine_grid_generator(theta, [2, 1, *space], align_corners)
    assert grid.shape == (2, *space, n)
    for d, steps in enumerate(reversed(space)):
        inner = 1 - (0 if align_corners else 1 / steps)
        expected = np.linspace(-inner, inner, steps) if steps > 1 else np.zeros(1)
        along = grid[0].movedim(n - 1 - d, 0)[..., d].flatten(1)[:, 0]
        np.testing.assert_allclose(along.numpy(), expected, atol=1e-12)


def test_affine_grids_have_gradients_and_refuse_other_spaces():
    check_gradients(lambda t: mq.affine_grid_generator(t, [2, 1, 3, 4], False), randn(2, 2, 3))
    with pytest.raises(RuntimeError, match=r"4d \(spatial\) or 5d"):
        mq.affine_grid_generator(mq.ones(2, 2, 3), [2, 1, 3], False)


@pytest.mark.parametrize("dim", [0, 1, 2, -2])
def test_norm_except_dim_is_a_norm_of_all_other_dims(dim):
    v = randn(2, 3, 4)
    others = tuple(d for d in range(3) if d != dim % 3)
    expected = np.sqrt((v**2).sum(others, keepdims=True))
    np.testing.assert_allclose(mq.norm_except_dim(mq.from_numpy(v), 2, dim).numpy(), expected)


def test_weight_norm_has_the_length_that_it_is_given():
    v, g = mq.randn(3, 4), mq.rand(3, 1)
    assert mq.allclose(mq.norm_except_dim(mq._weight_norm(v, g)), g)


# --- draws ---------------------------------------------------------------------------


def test_poisson_draws_counts_of_the_rates():
    mq.manual_seed(3)
    rates = mq.tensor([0.0, 1.0, 50.0]).expand(4000, 3)
    drawn = mq.poisson(rates)
    assert mq.equal(drawn, drawn.round())
    errors = (drawn.mean(0) - rates[0]).abs() / (rates[0] / 4000).sqrt().clamp(min=1e-9)
    assert errors.max().item() < 5
    mq.manual_seed(3)
    assert mq.equal(mq.poisson(rates), drawn)


def test_poisson_takes_rates_that_no_int64_holds():
    assert bool((mq.poisson(mq.tensor([1e30, float("inf")])) > 1e18).all())


def test_poisson_has_the_derivative_zero_and_refuses_rates():
    x = mq.ones(3, requires_grad=True)
    assert mq.autograd.grad(mq.poisson(x).sum(), x)[0].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="non-negative"):
        mq.poisson(mq.tensor([-1.0]))
    for device in ("cpu", "meta"):
        with pytest.raises(NotImplementedError, match="'Long'"):
            mq.poisson(mq.ones(2, dtype=mq.int64, device=device))


def test_binomial_draws_counts_of_successes():
    mq.manual_seed(5)
    count, prob = mq.full((4000, 1), 20.0), mq.tensor([0.0, 0.25, 1.0])
    drawn = mq.binomial(count, prob)
    assert drawn[:, 0].unique().tolist() == [0.0]
    assert drawn[:, 2].unique().tolist() == [20.0]
    assert abs(drawn[:, 1].mean().item() - 5) < 5 * (3.75 / 4000) ** 0.5


def test_binomial_of_nan_is_nan_and_of_too_much_the_nearest():
    nan = float("nan")
    found = mq.binomial(mq.tensor([nan, 3.0, 3.0, -3.0]), mq.tensor([0.5, nan, 1.5, 0.5]))
    assert found.isnan().tolist() == [True, True, False, False]
    assert found[2:].tolist() == [3.0, 0.0]


@pytest.mark.parametrize(
    "count, prob, error, words",
    [
        (mq.int64, mq.float32, ValueError, "for count, got: Long"),
        (mq.float32, mq.int64, ValueError, "for prob, got: Long"),
        (mq.float16, mq.float16, NotImplementedError, "'Half'"),
        (mq.float64, mq.float32, RuntimeError, "Found dtype Float but expected Double"),
    ],
)
def test_binomial_refuses_dtypes(count, prob, error, words):
    for device in ("cpu", "meta"):
        operands = [mq.ones(2, dtype=kind, device=device) for kind in (count, prob)]
        with pytest.raises(error, match=words):
            mq.binomial(*operands)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: mq.poisson(x.abs()),
        lambda x: mq.binomial(x.abs(), x[0].sigmoid()),
        lambda x: mq.vander(x[0]),
        lambda x: x.clone().fill_diagonal_(1),
        lambda x: mq.norm_except_dim(x, 2, 1),
        lambda x: mq.affine_grid_generator(x.expand(2, 2, 3), [2, 1, 3, 4], True),
        lambda x: mq.conv_tbc(x.expand(4, 2, 3), x.expand(2, 2, 3).mT, x[0, :2]),
        lambda x: mq.fft_rfftfreq(5, device=x.device),
        lambda x: mq.view_as_complex_copy(x[:, :2].contiguous()),
        lambda x: mq.matrix_power(x[:, :2], 3),
    ],
)
def test_in_fake_mode_results_are_as_in_earnest(call):
    x = mq.randn(2, 3)
    mode = mq.FakeTensorMode()
    real = call(x)
    with mode:
        fake = call(mode.from_tensor(x))
    assert fake.meta is real.meta


# --- dtypes --------------------------------------------------------------------------


def test_result_type_counts_dimensions_and_numbers():
    ints = mq.ones(2, dtype=mq.int32)
    assert mq.result_type(ints, 1.5) is mq.float32
    assert mq.result_type(ints, mq.tensor(1, dtype=mq.int64)) is mq.int32
    assert mq.result_type(1, 1j) is mq.complex64
    assert mq.result_type(True, ints) is mq.result_type(tensor=ints, other=True) is mq.int32


def test_promote_types_goes_by_name_too():
    assert mq.promote_types(type1=mq.int8, type2=mq.uint8) is mq.int16
    assert mq.can_cast(from_=mq.int8, to=mq.bool) is False
