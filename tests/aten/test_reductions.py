"""Sums, means, products, extremes, truth, running sums: values, dtypes, derivatives."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from gradcheck import check_gradients, check_second_gradients
from hypothesis import given
from hypothesis import strategies as st

import maquette as mq
from maquette.dispatch.modes import TorchDispatchMode

random = np.random.default_rng(0)
A = random.standard_normal((3, 4, 2))
B = random.standard_normal((4, 3))


def ties() -> npt.NDArray[np.float64]:
    return np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 5.0]])


@pytest.mark.parametrize("dim", [None, (0,), (-1,), (0, 2), ()])
@pytest.mark.parametrize("keepdim", [False, True])
def test_sum_gradient_is_one_for_every_summed_element(
    dim: tuple[int, ...] | None, keepdim: bool
) -> None:
    check_gradients(lambda x: x.sum(dim, keepdim), A)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.mean(1),
        lambda x: x.mean(),
        lambda x: x.prod(),
        lambda x: x.prod(1),
        lambda x: x.amax(1),
        lambda x: x.amin((0, 2), True),
        lambda x: x.max(1),
        lambda x: x.min(-1, True),
        lambda x: x.max(),
        lambda x: mq.aminmax(x, dim=1),
        lambda x: x.cumsum(1),
        lambda x: x.cumprod(1),
        lambda x: x.cummax(0),
        lambda x: x.logcumsumexp(1),
        lambda x: x.nansum(1),
        lambda x: x.logsumexp((0, 1)),
    ],
)
def test_reduction_derivatives_are_finite_differences(function: object) -> None:
    check_gradients(function, A)  # type: ignore[arg-type]  # functions of a tensor


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.mean(1),
        lambda x: x.prod(0),
        lambda x: x.var(1),
        lambda x: x.std(1),
        lambda x: x.cumprod(0),
        lambda x: x.logsumexp((0,)),
        lambda x: mq.linalg_vector_norm(x, 3, (0,)),
        lambda x: x.cumsum(1),
    ],
)
def test_second_derivatives_are_finite_differences(function: object) -> None:
    check_second_gradients(function, B)  # type: ignore[arg-type]  # functions of a tensor


def test_products_differentiate_through_zeros() -> None:
    x = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0]])
    check_gradients(lambda t: t.prod(1), x)
    check_gradients(lambda t: t.cumprod(1), x)


def test_extremes_share_the_gradient_among_ties() -> None:
    x = mq.from_numpy(ties()).requires_grad_()
    (grad,) = mq.autograd.grad([x.amax(1).sum()], [x])
    assert grad.numpy().tolist() == [[0, 0.5, 0.5], [0, 0, 1]]


@pytest.mark.parametrize("ord", [0.5, 1, 1.5, 2, 3, float("inf"), -1])
def test_vector_norm_derivatives_are_finite_differences(ord: float) -> None:
    check_gradients(lambda x: mq.linalg_vector_norm(x, ord, (1,)), A)


@pytest.mark.parametrize("correction", [0, 1, 0.5])
def test_variance_derivatives_take_the_correction(correction: float) -> None:
    check_gradients(lambda x: mq.var_mean(x, (0, 1), correction=correction), A)
    check_gradients(lambda x: mq.std_mean(x, 1, correction=correction, keepdim=True), A)


def test_T33_sums_of_integers_are_int64_and_dtype_is_converted_to_first() -> None:
    x = mq.tensor([True, True, False])
    assert x.sum().dtype is mq.int64
    assert mq.tensor([1.5, 1.5]).sum(dtype=mq.int64).item() == 2


def test_mean_of_integers_names_the_dtype_and_the_way_out() -> None:
    with pytest.raises(RuntimeError, match=r"Got: Long\nPass dtype=float32"):
        mq.tensor([1, 2]).mean()


def test_bfloat16_sums_accumulate_in_float32() -> None:
    ones = mq.ones((4096, 2), dtype=mq.bfloat16)
    assert ones.sum(0).tolist() == [4096.0, 4096.0]


def test_long_float32_sums_across_memory_stay_accurate() -> None:
    x = mq.from_numpy(np.full((100_000, 2), 0.1, np.float32))
    assert x.sum(0).numpy() == pytest.approx(np.full(2, np.float32(0.1)).astype(float) * 1e5, 1e-6)


def test_reducing_an_empty_dimension_needs_an_identity() -> None:
    x = mq.zeros((0, 3))
    assert x.sum(0).tolist() == [0, 0, 0]
    assert x.prod(0).tolist() == [1, 1, 1]
    with pytest.raises(IndexError, match="dim 0 to have non-zero size"):
        x.amax(0)
    with pytest.raises(RuntimeError, match="dim to be specified"):
        x.max()


def test_any_of_no_dimensions_only_converts() -> None:
    x = mq.tensor([[0, 2], [3, 0]])
    assert x.any(()).tolist() == [[False, True], [True, False]]
    assert x.to(mq.uint8).all().dtype is mq.uint8


def test_argmax_finds_the_first_nan() -> None:
    x = mq.tensor([1.0, float("nan"), 9.0, float("nan")])
    assert x.argmax().item() == 1
    assert x.max().isnan().item()


def test_out_forms_refuse_what_the_result_cannot_be() -> None:
    x = mq.ones((2, 3))
    with pytest.raises(RuntimeError, match="dtype long int, but got int instead"):
        mq.argmax(x, 0, out=mq.empty(0, dtype=mq.int32))
    wide = mq.empty(0, dtype=mq.float64)
    assert mq.sum(x, 0, out=wide).dtype is mq.float64


def test_out_takes_a_pair_for_two_results() -> None:
    values, indices = mq.empty(0), mq.empty(0, dtype=mq.int64)
    mq.max(mq.tensor([[1.0, 5.0], [7.0, 2.0]]), 0, out=(values, indices))
    assert values.tolist() == [7.0, 5.0]
    assert indices.tolist() == [1, 0]


@given(st.lists(st.integers(1, 4), max_size=4), st.data())
def test_reduced_shapes_are_numpys(shape: list[int], data: st.DataObject) -> None:
    dims = data.draw(st.lists(st.sampled_from(range(len(shape) or 1)), unique=True, max_size=3))
    keepdim = data.draw(st.booleans())
    x = np.ones(shape)
    axes = tuple(dims) if dims and shape else None
    expected = x.sum(axis=axes, keepdims=keepdim)
    assert tuple(mq.from_numpy(x).sum(tuple(dims), keepdim).shape) == np.shape(expected)


@pytest.mark.parametrize("name", ["amax", "amin", "aminmax", "sum", "all", "argmax", "logsumexp"])
def test_dimensions_are_reduced_of_64_at_most(name: str) -> None:
    wide = mq.ones(1).as_strided((1,) * 65, (1,) * 65)
    with pytest.raises(RuntimeError, match="only tensors with up to 64 dims are supported"):
        getattr(wide, name)(dim=-1)


def test_a_mean_names_the_dtype_that_it_cannot_have() -> None:
    with pytest.raises(RuntimeError, match=r"Optional dtype must be .* Got: Long"):
        mq.ones(2).mean(dtype=mq.int64)


def test_complex_logcumsumexp_knows_infinities_and_nan() -> None:
    inf, nan = float("inf"), float("nan")
    found = mq.tensor([complex(-inf, 1), complex(2, 3), complex(inf, 1), complex(inf, 1)])
    found = found.logcumsumexp(0)
    assert found[:3].tolist() == [complex(-inf, 0), complex(2, 3), complex(inf, 1)]
    assert found[3].imag.item() == pytest.approx(0.7853982)
    assert mq.tensor([1j, complex(1, nan)]).logcumsumexp(0)[1].isnan()


def test_a_number_has_no_dimension_but_its_own() -> None:
    for name in ("cummax", "cummin"):
        with pytest.raises(IndexError, match="-1 or 0 for scalar but got 100"):
            getattr(mq.tensor(1.0), name)(100)


def test_gradients_keep_the_precision_of_their_points() -> None:
    values = mq.tensor([1.0000001, 1.0, 3.0])
    points = mq.tensor([0.0, 1e-7, 1.0], dtype=mq.float64)
    expected = np.gradient(values.double().numpy(), points.numpy())
    np.testing.assert_allclose(mq.gradient(values, spacing=[points])[0].numpy(), expected, 1e-9)


@pytest.mark.parametrize("x", [mq.ones(()), mq.ones(3), mq.ones(1)])
def test_the_tangent_of_a_deviation_of_zero_is_zero_as_its_gradient_is(x):
    _, tangent = mq.func.jvp(lambda t: mq.std(t, correction=0), (x,), (2 * mq.ones_like(x),))
    assert tangent.item() == 0.0


@pytest.mark.parametrize("kind", [mq.float32, mq.float64, mq.complex64], ids=str)
@pytest.mark.parametrize(
    "shape", [(5000,), (4099,), (70, 90), (1009, 7), (3, 1021, 2), (7, 5, 30, 8)], ids=str
)
def test_long_sums_over_any_dimensions_of_any_layout(
    shape: tuple[int, ...], kind: mq.dtype
) -> None:
    mq.manual_seed(0)
    x = mq.randn(shape, dtype=kind)
    for laid in (x, x.permute(tuple(reversed(range(x.ndim)))), x.expand(2, *shape)):
        array = laid.numpy().astype(np.complex128)
        for count in range(laid.ndim + 1):
            for dims in itertools.combinations(range(laid.ndim), count):
                found = laid.sum(dims, keepdim=True) if dims else laid.sum()
                expected = array.sum(dims, keepdims=True) if dims else array.sum()
                np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-4)


def test_long_sums_round_less_than_one_by_one() -> None:
    mq.manual_seed(0)
    x = mq.rand(1_000_003) + 100
    exact = x.double().sum()
    assert abs(x.sum().double() / exact - 1) < 2e-7
    assert abs(x.reshape(-1, 1).expand(-1, 2).contiguous().sum(0).double() / exact - 1).max() < 2e-7


def test_running_sums_of_single_numbers_are_taken_in_double_precision() -> None:
    x = mq.full((3000,), 0.1)
    expected = np.cumsum(x.numpy(), dtype=np.float64).astype(np.float32)
    assert (x.cumsum(0).numpy() == expected).all()


@pytest.mark.parametrize(
    "shape, axis",
    [((60, 300), 1), ((40, 509), 1), ((2000, 3), 1), ((40, 300, 2), 1), ((300, 9, 5), 1)],
)
@pytest.mark.parametrize("kind", [np.float32, np.complex64, np.complex128])
def test_sums_of_narrow_columns_and_of_rows_of_complex_numbers(
    shape: tuple[int, ...], axis: int, kind: type[np.generic]
) -> None:
    x = (random.standard_normal((*shape, 2)) @ [1, 1j if kind is not np.float32 else 1]).astype(
        kind
    )
    exact = x.astype(np.complex128).sum(axis)
    assert mq.from_numpy(x).sum(axis).numpy() == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("dims", [(2,), (3,), (2, 3), (0, 2), (0, 2, 3)])
def test_extremes_across_memory_are_those_along_it(dims: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal((9, 21, 7, 5)).astype(np.float32)
    x[::3, 4, 2, 1] = np.nan
    found = mq.from_numpy(x).permute(0, 3, 1, 2).amax(dims)
    expected = x.transpose(0, 3, 1, 2).max(dims)
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("dim", [None, 0, 1, (0, 2)], ids=str)
def test_sums_of_large_expanded_tensors_are_those_of_their_copies(dim: object) -> None:
    x = mq.arange(60.0).reshape(3, 1, 20).expand(3, 100, 20)
    found, expected = (t.sum(dim) for t in (x, x.clone()))
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("kind", [mq.float64, mq.float16, mq.int64, mq.bool], ids=str)
def test_large_expanded_tensors_are_converted_as_their_copies(kind: mq.dtype) -> None:
    x = mq.arange(60.0).reshape(3, 1, 20).expand(3, 100, 20)
    made = x.to(kind)
    assert made.stride() == (2000, 20, 1)
    assert mq.equal(made, x.clone().to(kind))


@pytest.mark.parametrize("dtype", [mq.float16, mq.bfloat16])
def test_logcumsumexp_of_halves_has_a_gradient(dtype: mq.dtype) -> None:
    values, cotangents = mq.tensor([-2.0, -40.0, 1.5, 3.0]), mq.tensor([1.0, 0.0, 0.5, -2.0])
    found = []
    for kind in (dtype, mq.float32):
        x = values.to(kind).requires_grad_()
        x.logcumsumexp(0).backward(cotangents.to(kind))
        assert x.grad is not None
        found.append(x.grad.float().numpy())
    np.testing.assert_allclose(*found, rtol=2e-2, atol=2e-2)


def test_weights_of_a_covariance_are_asked_without_python_numbers() -> None:
    seen: list[str] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            seen.append(op.name())
            return op(*args, **(kwargs or {}))

    with Watch():
        mq.ones(2, 3).cov(aweights=mq.ones(3))
    assert "aten::equal" in seen
    assert "aten::_local_scalar_dense" not in seen
    with pytest.raises(RuntimeError, match="fweights cannot be negative"):
        mq.ones(2, 3).cov(fweights=mq.tensor([1, -1, 1]))


def test_whether_tensors_without_data_are_equal_is_not_known() -> None:
    t = mq.ones(2, device="meta")
    with pytest.raises(NotImplementedError, match="aten::equal"):
        mq.equal(t, t)
