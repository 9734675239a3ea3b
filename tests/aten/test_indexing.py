"""Subscripts and the operators behind them, against NumPy where the two agree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gradcheck import check_gradients, check_second_gradients
from hypothesis import given
from hypothesis import strategies as st

import maquette as mq
import maquette.torch as torch
from maquette.fake.exceptions import DynamicOutputShapeException

A = np.arange(12.0).reshape(3, 4) / 10 + 0.5
CUBE = np.arange(60.0).reshape(3, 4, 5)


@given(st.data())
def test_basic_subscripts_agree_with_numpy(data: st.DataObject) -> None:
    index: list[object] = []
    for size in CUBE.shape:
        number = st.integers(-size, size - 1)
        bound = st.none() | st.integers(-size - 1, size + 1)
        cut = st.builds(slice, bound, bound, st.integers(1, 3))
        index += data.draw(st.lists(st.none(), max_size=1))
        index.append(data.draw(number | cut))
    found = mq.from_numpy(CUBE)[tuple(index)]
    np.testing.assert_array_equal(found.numpy(), CUBE[tuple(index)])


def test_T42_integers_do_not_split_advanced_indices() -> None:
    assert mq.zeros(3, 4, 5)[0, :, [0, 1]].shape == (4, 2)


def test_T42_basic_subscripts_are_views_and_lists_copy() -> None:
    x = mq.zeros(3, 4)
    assert x[1:, None, 0]._base is x
    assert x[[0, 1]]._base is None


def test_T42_a_second_ellipsis_is_refused() -> None:
    with pytest.raises(IndexError, match="single ellipsis"):
        mq.zeros(3)[..., ...]


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        (5, IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
        ((0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
        (1.5, IndexError, "got float"),
        (slice(None, None, -1), ValueError, "greater than zero"),
        (slice(None, None, 0), ValueError, "cannot be zero"),
        ("a", TypeError, "str"),
        ([7], IndexError, "index 7 is out of bounds"),
        (([0, 1], [0, 1, 2]), IndexError, "could not be broadcast"),
    ],
)
def test_T43_refusals(index: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        mq.zeros(3, 4)[index]


def test_T43_an_index_into_a_0_dim_tensor_says_item() -> None:
    with pytest.raises(IndexError, match="item"):
        mq.zeros(())[0]


def test_T43_elements_cannot_be_deleted() -> None:
    with pytest.raises(TypeError, match="deletion"):
        del mq.zeros(3)[0]


def test_T44_truth_values_add_a_dimension() -> None:
    assert mq.zeros(3, 4)[True].shape == (1, 3, 4)
    assert mq.zeros(3, 4)[False].shape == (0, 3, 4)


def test_T44_a_mask_stands_for_as_many_dimensions_as_it_has() -> None:
    mask = mq.ones(3, 4, dtype=mq.bool)
    assert mq.zeros(3, 4, 5)[mask].shape == (12, 5)
    assert mq.zeros(3, 4, 5)[mask, 1:].shape == (12, 4)


def test_T44_a_mask_of_another_shape_is_refused() -> None:
    with pytest.raises(IndexError, match=r"mask \[2\] at index 0 .*\[3, 4\]"):
        mq.zeros(3, 4)[mq.ones(2, dtype=mq.bool)]


def test_T45_place_of_the_index_shape() -> None:
    x = mq.zeros(3, 4, 5)
    assert x[[0, 1], :, [0, 1]].shape == (2, 4)
    assert x[:, [[0], [1]], [0, 1, 2]].shape == (3, 2, 3)


def test_T46_strides_of_the_result() -> None:
    x = mq.zeros(60).as_strided((5, 3, 4), (1, 20, 5))
    assert x[:, [0, 1]].stride() == (1, 5, 10)
    y = mq.zeros(7 * 2 * 6 * 3).as_strided((7, 2, 6, 3), (1, 21, 42, 7))
    assert y[:, :, mq.zeros(2, 3, dtype=mq.int64)].stride() == (1, 126, 21, 7, 42)


def test_T47_writes_cast_and_broadcast() -> None:
    x = mq.zeros(2, 3, dtype=mq.int64)
    x[0] = 1.7
    x[:, 0] = mq.ones(1, 1, 2)
    assert x.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_T47_an_advanced_write_of_another_dtype_is_refused() -> None:
    x = mq.zeros(3, dtype=mq.int64)
    with pytest.raises(RuntimeError, match="Long for the destination and Float"):
        x[[0]] = mq.tensor([1.7])


def test_T47_writes_by_mask() -> None:
    x = mq.zeros(4)
    x[mq.tensor([True, False, True, False])] = mq.tensor([1.0, 2.0])
    assert x.tolist() == [1, 0, 2, 0]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[x > 0] = mq.ones(3)


def test_T47_false_writes_nothing() -> None:
    x = mq.zeros(2)
    x[False] = 3
    assert x.tolist() == [0, 0]


def test_T47_accumulating_adds_duplicates() -> None:
    x = mq.zeros(2).index_put((mq.tensor([0, 0, 1]),), mq.ones(3), accumulate=True)
    assert x.tolist() == [2, 1]


def test_indices_may_live_on_cpu() -> None:
    with mq.FakeTensorMode():
        x = mq.zeros(3, 4, device="cuda")
        assert x[mq.tensor([0, 1])].device.type == "cuda"


def test_F68_constants_serve_as_indices() -> None:
    with mq.FakeTensorMode():
        assert mq.empty(4)[mq.tensor(1) : mq.tensor(3)].shape == (2,)
        assert mq.empty(4, 2)[mq.tensor(1)].shape == (2,)


@pytest.mark.parametrize(
    "take",
    [
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: x.masked_select(x > 0),
        lambda x: mq.ops.aten.repeat_interleave.Tensor(x.long()),
    ],
)
def test_what_only_data_could_size_raises_on_fakes(take: Callable[[mq.Tensor], object]) -> None:
    with mq.FakeTensorMode(), pytest.raises(DynamicOutputShapeException):
        take(mq.zeros(3))


def test_a_masked_write_needs_no_data() -> None:
    with mq.FakeTensorMode():
        x = mq.zeros(3)
        x[x > 0] = 1.0
        assert x.shape == (3,)


INDEX = mq.tensor([[0, 1, 1, 0], [2, 1, 0, 2]])
DERIVATIVES = {
    "index": lambda x: x[[0, 2, 0]] * x[1, [0, 1, 1]][0],
    "mask": lambda x: x[mq.tensor([True, False, True])],
    "index_select": lambda x: x.index_select(1, mq.tensor([1, 1, 0])),
    "gather": lambda x: x.gather(0, INDEX),
    "take": lambda x: x.take(INDEX),
    "take_along_dim": lambda x: x.take_along_dim(INDEX[:, :1], 0),
    "masked_select": lambda x: x.masked_select(mq.tensor([True, False, False, True])),
    "setitem": lambda x: _written(x),
    "repeat_interleave": lambda x: x.repeat_interleave(mq.tensor([1, 0, 2]), 0),
}
WRITES = {
    "index_put": lambda x, y: x.index_put((mq.tensor([0, 2]),), y[:2]),
    "index_put_add": lambda x, y: x.index_put((mq.tensor([0, 0]),), y[:2], True),
    "scatter": lambda x, y: x.scatter(0, mq.tensor([[0, 1, 2, 0]]), y),
    "scatter_add": lambda x, y: x.scatter_add(0, INDEX, y),
    "scatter_mean": lambda x, y: x.scatter_reduce(0, INDEX, y, "mean"),
    "scatter_prod": lambda x, y: x.scatter_reduce(0, INDEX, y, "prod"),
    "scatter_amax": lambda x, y: x.scatter_reduce(0, INDEX, y * 3, "amax", include_self=False),
    "index_add": lambda x, y: x.index_add(0, mq.tensor([1, 1, 0]), y, alpha=2),
    "index_copy": lambda x, y: x.index_copy(1, mq.tensor([3, 0]), y[:, :2]),
    "index_reduce": lambda x, y: x.index_reduce(0, mq.tensor([1, 1, 0]), y, "mean"),
    "put": lambda x, y: x.put(INDEX, y[:2], True),
    "masked_scatter": lambda x, y: x.masked_scatter(mq.tensor([True, False, True, True]), y),
}


def _written(x: mq.Tensor) -> mq.Tensor:
    y = x.clone()
    y[0] = x[1] * 2
    y[[1], 1:] = x[2, 1:]
    return y


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_of_reading(name: str) -> None:
    check_gradients(DERIVATIVES[name], A)
    check_second_gradients(lambda x: DERIVATIVES[name](x * x), A)


@pytest.mark.parametrize("name", WRITES)
def test_derivatives_of_writing(name: str) -> None:
    check_gradients(WRITES[name], A, A[::-1].copy() + 0.3)


def test_gather_refuses_what_scatter_refuses() -> None:
    with pytest.raises(RuntimeError, match="out of bounds for dimension 0 with size 3"):
        mq.zeros(3).gather(0, mq.tensor([3]))
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        mq.zeros(3, 3).scatter(0, mq.tensor([0]), 1.0)


def test_T41_gather_into_its_source_is_refused() -> None:
    x = mq.arange(3)
    with pytest.raises(RuntimeError, match="clone"):
        mq.gather(x, 0, mq.tensor([0, 1, 2]), out=x)


def test_nonzero_gives_contiguous_columns() -> None:
    places = mq.tensor([[0, 1], [2, 3]]).nonzero()
    assert places.tolist() == [[0, 1], [1, 0], [1, 1]]
    assert places.stride() == (1, 3)


@pytest.mark.parametrize("name", ["index_add_", "index_copy_"])
def test_positions_from_the_end_are_refused(name: str) -> None:
    for shape, error in (((3,), IndexError), ((3, 2), (IndexError, RuntimeError))):
        t = mq.zeros(shape)
        with pytest.raises(error, match="index -1 is out of bounds"):
            getattr(t, name)(0, mq.tensor([-1]), mq.ones((1, *shape[1:])))
        assert not t.any()


def test_positions_from_the_end_are_filled() -> None:
    assert mq.zeros(3).index_fill_(0, mq.tensor([-1]), 2).tolist() == [0, 0, 2]


def test_index_select_of_nothing_is_refused() -> None:
    with pytest.raises(RuntimeError, match="indexing axis dim should be positive"):
        mq.zeros(0, 3).index_select(0, mq.tensor([0]))
    with pytest.raises(RuntimeError, match="out of DATA bounds"):
        mq.zeros(0, 3).index_select(1, mq.tensor([5]))


def test_index_add_cuts_a_factor_of_whole_numbers() -> None:
    found = mq.zeros(3, dtype=mq.int64).index_add(0, mq.tensor([1]), mq.tensor([3]), alpha=2.5)
    assert found.tolist() == [0, 6, 0]


def test_nonzero_writes_no_tuple() -> None:
    with pytest.raises(RuntimeError, match="as_tuple"):
        mq.nonzero(mq.ones(2), out=mq.zeros(0, dtype=mq.int64), as_tuple=True)


def test_ends_of_slices_are_integers() -> None:
    with pytest.raises(TypeError, match="slice indices must be integers"):
        mq.zeros(3)["0":"1"]  # type: ignore[index]  # the point


def test_T42_shapes_are_compared_before_dtypes() -> None:
    with pytest.raises(RuntimeError, match="shape mismatch"):
        mq.arange(4)[mq.tensor([0, 1])] = mq.tensor([1.0, 2.0, 3.0])


def test_second_derivatives_of_a_product_at_one_place_with_two_zeros():
    # The gradient of each zero is a multiple of the other, so nothing: its derivative is not.
    factors = mq.tensor([0.0, 0.0, 3.0], requires_grad=True)
    start, index = mq.tensor([2.0]), mq.tensor([0, 0, 0])
    for function in (mq.scatter_reduce, mq.index_reduce):
        (first,) = mq.autograd.grad(
            function(start, 0, index, factors, "prod").sum(), factors, create_graph=True
        )
        (second,) = mq.autograd.grad(first[0], factors)
        assert first.tolist() == [0, 0, 0]
        assert second.tolist() == [0, 6, 0]


@pytest.mark.parametrize("shape", [(7,), (40, 50), (3, 4, 5), (2, 0, 3)], ids=str)
def test_places_of_what_is_not_zero_are_numpys(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(*shape).round() * torch.tensor([1.0, torch.nan])[torch.randint(0, 2, shape)]
    found = x.nonzero().numpy()
    np.testing.assert_array_equal(found, np.argwhere(x.numpy()))
    assert (x > 0).nonzero().shape == ((x > 0).sum(), len(shape))
    assert torch.nansum(x, 0).isnan().sum() == 0


@pytest.mark.parametrize("kind, most", [(torch.float16, 2048), (torch.bfloat16, 256)], ids=str)
def test_added_slices_of_halves_are_rounded_each_and_scattered_ones_once(
    kind: mq.dtype, most: int
) -> None:
    x, ones = torch.zeros(2, 50, dtype=kind), torch.ones(2500, 50, dtype=kind)
    rows = torch.zeros(2500, dtype=torch.int64)
    assert x.index_add(0, rows, ones)[0].eq(most).all()
    assert x.index_put((rows,), ones, accumulate=True)[0].eq(most).all()
    whole = torch.tensor(2500, dtype=kind)
    assert x.scatter_add(0, rows[:, None].expand_as(ones), ones)[0].eq(whole).all()


@pytest.mark.parametrize(
    ("kind", "reduce"), [(mq.complex64, "amax"), (mq.complex64, "amin"), (mq.bool, "mean")]
)
def test_what_has_no_order_or_no_mean_is_not_reduced(kind: mq.dtype, reduce: str) -> None:
    x, index = mq.ones(3, dtype=kind), mq.tensor([0, 1, 0])
    with pytest.raises(NotImplementedError, match=f'cpu_reduce_{reduce}" not implemented for'):
        mq.scatter_reduce(x, 0, index, x, reduce)
    with pytest.raises(NotImplementedError, match='"index_func_" not implemented for'):
        mq.index_reduce(x, 0, index, x, reduce)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "prod"])
@pytest.mark.parametrize("dim", [0, 1])
def test_an_expanded_index_is_one_of_slices(reduce: str, dim: int) -> None:
    values = np.random.default_rng(0).standard_normal((90, 100)).astype(np.float32)
    places = mq.from_numpy(np.random.default_rng(1).integers(0, 40, values.shape[dim]))
    index = places.unsqueeze(1 - dim).expand(90, 100)
    target = mq.ones(90, 100)
    found, expected = (
        target.scatter_reduce(dim, each, mq.from_numpy(values), reduce).numpy()
        for each in (index, index.contiguous())
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    taken = (mq.from_numpy(values).gather(dim, i).numpy() for i in (index, index.contiguous()))
    np.testing.assert_array_equal(*taken)


def test_index_reduce_of_slices_takes_what_its_operators_take() -> None:
    index, true = mq.from_numpy(np.array([0, 1])), mq.ones(2, 2, dtype=mq.bool)
    assert mq.index_reduce(true, 0, index, ~true, "amin").numpy().sum() == 0
    with pytest.raises(NotImplementedError, match='"div_floor_cpu" not implemented for'):
        mq.index_reduce(true, 0, index, true, "mean")
    with pytest.raises(NotImplementedError, match='"maximum_cpu" not implemented for'):
        mq.index_reduce(true.to(mq.complex64), 0, index, true.to(mq.complex64), "amax")
