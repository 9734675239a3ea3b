"""Calls that once ended in an accident of Python's or NumPy's: refused by a check, or answered."""

from collections.abc import Callable

import numpy as np
import pytest

import maquette as mq
from maquette.nn import functional as F

aten = mq.ops.aten
POINT = mq.ones(())
LINE = mq.ones(5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: aten._fft_r2c(POINT, [0], 0, True),
        lambda: aten._fft_c2c(POINT.to(mq.complex64), [0], 0, True),
        lambda: aten._fft_c2r(POINT.to(mq.complex64), [0], 0, 2),
        lambda: mq.ops.aten.fft_fftshift(POINT, [0]),
        lambda: mq.trapezoid(POINT),
        lambda: mq.cumulative_trapezoid(POINT, LINE),
        lambda: mq.linalg_cross(POINT, POINT),
        lambda: mq.repeat_interleave(POINT, mq.tensor([3]), 0),
        lambda: aten.unique_consecutive(POINT, False, False, 0),
        lambda: aten.unique_dim(POINT, 0),
        lambda: aten.sym_stride.int(POINT, 0),
        lambda: POINT.size(0),
        lambda: POINT.unbind(0),
    ],
)
def test_T9_what_works_along_a_dimension_needs_one(call: Callable[[], object]) -> None:
    with pytest.raises(IndexError, match=r"Dimension specified as -?[01] but tensor has no dim"):
        call()


def test_a_dimension_out_of_range_is_named_by_fftshift() -> None:
    with pytest.raises(IndexError, match=r"range of \[-1, 0\], but got 1"):
        aten.fft_fftshift(LINE, [1])


def test_bilinear_needs_inputs_of_equal_rank() -> None:
    with pytest.raises(RuntimeError, match="input dimensions do not match: got 1 and 0"):
        aten.bilinear(mq.ones(3), POINT, mq.ones(5, 3, 4))


def test_a_target_without_dimensions_matches_no_batch() -> None:
    with pytest.raises(ValueError, match=r"batch_size \(4\) to match target batch_size \(0\)"):
        aten.cross_entropy_loss(mq.ones(4, 2), mq.tensor(1))


def test_sources_lack_the_dimension_that_is_written_along() -> None:
    square, where = mq.ones(5, 5), mq.arange(5)
    with pytest.raises(RuntimeError, match="Indexing dim 1 is out of bounds of the source"):
        mq.index_add(square, -1, where, LINE)
    with pytest.raises(RuntimeError, match="Indexing dim 1 is out of bounds of the source"):
        mq.index_reduce(square, -1, where, LINE, "prod")
    with pytest.raises(IndexError, match="dimensionality must match"):
        mq.index_copy(square, -1, where, LINE)


@pytest.mark.parametrize("dims", [2, 3])
def test_gradients_of_pools_need_channels(dims: int) -> None:
    backward = getattr(aten, f"_adaptive_avg_pool{dims}d_backward")
    with pytest.raises(RuntimeError, match=f"Expected {dims + 1}D or {dims + 2}D tensor"):
        backward(POINT, POINT)


def test_instance_norm_needs_images_and_channels() -> None:
    with pytest.raises(IndexError, match="images and channels"):
        aten.instance_norm(LINE, None, None, None, None, True, 0.1, 1e-5, False)


def test_running_statistics_are_vectors() -> None:
    two = mq.ones(2)
    with pytest.raises(RuntimeError, match="running_var should have 1 dimension"):
        aten.batch_norm(mq.ones(3, 2), two, two, two, mq.ones(2, 1), True, 0.1, 1e-5, False)


@pytest.mark.parametrize("pad", [[2, -5], [-5, 3], [-5, 7]])
def test_padding_takes_no_more_than_there_is(pad: list[int]) -> None:
    with pytest.raises(RuntimeError, match="length must be non-negative"):
        mq.constant_pad_nd(mq.ones(4), pad)


def test_complex_bounds_do_not_fit_real_results() -> None:
    with pytest.raises(RuntimeError, match="cannot be converted"):
        mq.linspace(-2, 1j, 5, out=mq.ones(5))
    with pytest.raises(RuntimeError, match="cannot be converted"):
        aten.linspace.Scalar_Tensor_out(-2.0, mq.tensor(1j), 5, out=mq.ones(5))


def test_the_gradient_of_complex_losses_is_not_defined() -> None:
    z = LINE.to(mq.complex64)
    with pytest.raises(NotImplementedError, match="ComplexFloat"):
        aten.mse_loss_backward(LINE, z, z, 2)
    with pytest.raises(RuntimeError, match="can't be cast"):
        aten.mse_loss_backward(LINE, LINE, z, 2)


@pytest.mark.parametrize("dtype", [mq.uint8, mq.int32, mq.float32])
@pytest.mark.parametrize("beta", [-1.0, 0.0, 0.5, 2.0])
def test_smooth_slopes_are_cut_off_at_beta(dtype: mq.dtype, beta: float) -> None:
    values, one = [0, 1, 2, 3, 9], mq.ones(5, dtype=dtype)
    found = aten.smooth_l1_loss_backward(4 * one, mq.tensor(values, dtype=dtype), one, 2, beta)
    slopes = [-1 if v - 1 <= -beta else 1 if v - 1 >= beta else (v - 1) / beta for v in values]
    assert found.tolist() == np.array([4 * s for s in slopes]).astype(dtype.numpy).tolist()


def test_the_median_of_no_bools_is_a_bool() -> None:
    assert mq.ones(0, dtype=mq.bool).nanmedian().tolist() is True


def test_complex_weights_count_by_their_real_parts() -> None:
    weights = mq.tensor([1 + 5j, 2 + 0j])
    assert mq.bincount(mq.tensor([1, 1]), weights).tolist() == [0.0, 3.0]


def test_a_scale_without_inputs_under_it_gives_zeros() -> None:
    found = aten._upsample_bilinear2d_aa(mq.ones(1, 1, 2, 2), [7, 3], False, 0.5, 0.5)
    assert found.shape == (1, 1, 7, 3)
    assert found[0, 0, :, 2].tolist() == [0.0] * 7


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (1, 0, 3, 4), (1, 2, 0, 4), (1, 2, 3, 0)])
def test_attention_over_nothing_keeps_the_shape(shape: tuple[int, ...]) -> None:
    x = mq.ones(*shape)
    assert aten._scaled_dot_product_flash_attention_for_cpu(x, x, x)[0].shape == shape


@pytest.mark.parametrize(
    "call",
    [
        lambda x, c: F.elu(x, c),
        lambda x, c: F.celu(x, c),
        lambda x, c: F.softplus(x, c),
        lambda x, c: F.leaky_relu(x, c),
        lambda x, c: F.hardshrink(x, c),
        lambda x, c: F.softshrink(x, c),
        lambda x, c: aten.hardtanh(x, c, 3.0),
        lambda x, c: mq.std(x, correction=c),
        lambda x, c: mq.arange(c),
        lambda x, c: mq.addmm(x, x, x, alpha=c),
        lambda x, c: mq.trapezoid(x, dx=c),
        lambda x, c: mq.dist(x, x, c),
        lambda x, c: mq.bucketize(c, x[0]),
    ],
)
def test_complex_numbers_are_refused_where_real_ones_are_computed_with(
    call: Callable[..., object],
) -> None:
    with pytest.raises(
        (RuntimeError, NotImplementedError), match=r"without overflow|real|[Cc]omplex"
    ):
        call(mq.ones(2, 2), 2 + 1j)
