"""Views: geometry, aliasing, versions, and the derivative of every one of them."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradients, check_second_gradients

import maquette as mq

A = np.arange(12.0).reshape(3, 4) / 10 + 0.5
CUBE = np.arange(24.0).reshape(2, 3, 4) / 10 + 0.5


def test_T7_as_strided_beyond_the_storage_names_needed_and_available_bytes() -> None:
    with pytest.raises(RuntimeError, match=r"24.* 16"):
        mq.zeros(4).as_strided((3, 2), (2, 1))


def test_T7_a_fake_refuses_the_same_geometry() -> None:
    with mq.FakeTensorMode(), pytest.raises(RuntimeError, match=r"24.* 16"):
        mq.zeros(4).as_strided((3, 2), (2, 1))


def test_T7_zero_size_is_never_out_of_bounds() -> None:
    assert mq.zeros(4).as_strided((0,), (100,), 50).shape == (0,)


def test_T8_detach_shares_the_version_and_data_does_not() -> None:
    a = mq.ones(2, requires_grad=True)
    a.detach().mul_(2)
    assert a._version == 1
    a.data.mul_(2)
    assert a._version == 1


def test_T9_a_dimension_out_of_range_names_the_range() -> None:
    with pytest.raises(IndexError, match=r"\[-3, 2\], but got 3"):
        mq.zeros(3, 4, 5).select(3, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.view(3, 2),
        lambda x: x.reshape(x.shape),
        lambda x: x.expand(2, 3),
        lambda x: x.t(),
        lambda x: x.squeeze(),
        lambda x: x[...],
        lambda x: x.split(1)[1],
        lambda x: x.diagonal(),
        lambda x: x.unflatten(1, (3, 1)),
        lambda x: x.movedim(0, 1),
    ],
)
def test_T18_a_view_is_a_new_object_whose_base_is_the_root(make: object) -> None:
    x = mq.zeros(2, 3)
    v = make(x)  # type: ignore[operator]  # a function
    assert v is not x
    assert v._base is x
    assert v.untyped_storage() is x.untyped_storage()


def test_T18_view_as_another_dtype_aliases_without_being_a_view() -> None:
    x = mq.zeros(2)
    bits = x.view(mq.int32)
    x.add_(1)
    assert not bits._is_view()
    assert bits._version == 1
    assert bits.tolist() == [0x3F800000] * 2


def test_T19_self_returned() -> None:
    x = mq.zeros(3)
    assert x.contiguous() is x
    assert x.to(mq.float32) is x
    assert x.flatten() is x
    assert mq.atleast_1d(x) is x


def test_T19_never_self() -> None:
    x = mq.zeros(3)
    assert all(v is not x for v in (x[:], x[...], x.ravel(), x.expand(3), x.squeeze()))


def test_T20_view_strides() -> None:
    assert mq.zeros(4, 6).t().view(2, 3, 4).stride() == (3, 1, 6)
    assert mq.zeros(1, 3).expand(4, 3).view(2, 2, 3).stride() == (0, 0, 1)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [((-1, -1), "only one"), ((4,), r"\[4\].*size 6"), ((-2, 3), "-2 at index 0")],
)
def test_T20_view_refuses(sizes: tuple[int, ...], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        mq.zeros(2, 3).view(sizes)


def test_T20_reshape_copies_where_view_fails() -> None:
    x = mq.arange(6).view(2, 3)
    with pytest.raises(RuntimeError, match="size and stride"):
        x.t().view(6)
    assert x.t().reshape(6).tolist() == [0, 3, 1, 4, 2, 5]


def test_T21_strides_of_new_dimensions() -> None:
    assert mq.zeros(3, 4, 5).unsqueeze(0).stride() == (60, 20, 5, 1)
    assert mq.zeros(3).expand(1, 3).stride() == (3, 1)
    windows = mq.arange(8).unfold(0, 3, 2)
    assert windows.shape == (3, 3)
    assert windows.stride() == (2, 1)


def test_T22_view_as_a_larger_dtype_names_what_does_not_divide() -> None:
    assert mq.zeros(2, 4).view(mq.float64).shape == (2, 2)
    with pytest.raises(RuntimeError, match=r"size\(-1\).*2.*3"):
        mq.zeros(2, 3).view(mq.float64)


def test_T23_a_write_through_a_view_counts_for_the_base() -> None:
    x = mq.zeros(4)
    x[:2].add_(1)
    assert x._version == 1


def test_unsafe_view_shares_the_storage_and_is_no_view() -> None:
    x = mq.zeros(2, 3)
    v = mq.ops.aten._unsafe_view.default(x, [6])
    assert v.untyped_storage() is x.untyped_storage()
    assert v._base is None


@pytest.mark.parametrize(
    ("change", "shape"),
    [
        (lambda x: x.t_(), (4, 3)),
        (lambda x: x.unsqueeze_(0), (1, 3, 4)),
        (lambda x: x.transpose_(0, 1), (4, 3)),
        (lambda x: x.as_strided_((2, 2), (1, 2)), (2, 2)),
    ],
)
def test_inplace_views_change_the_tensor_itself(change: object, shape: tuple[int, ...]) -> None:
    x = mq.zeros(3, 4)
    storage = x.untyped_storage()
    assert change(x) is x  # type: ignore[operator]  # a function
    assert x.shape == shape
    assert x.untyped_storage() is storage
    assert x._version == 1


def test_T27_detach_in_place_refuses_views() -> None:
    with pytest.raises(RuntimeError, match=r"Use detach\(\)"):
        mq.zeros(3)[:2].detach_()


def test_detach_in_place_forgets_history() -> None:
    x = mq.ones(2, requires_grad=True) * 2
    assert not x.detach_().requires_grad
    assert x.is_leaf


def test_T26_one_of_several_views_refuses_writes() -> None:
    part = mq.ones(4, requires_grad=True).clone().split(2)[0]
    with pytest.raises(RuntimeError, match="multiple views"):
        part.add_(1)


def test_T5_set_grows_a_short_storage_and_counts() -> None:
    x = mq.zeros(2)
    x.set_(mq.zeros(2).untyped_storage(), 0, [3], (1,))
    assert x.untyped_storage().nbytes() == 12
    assert x._version == 1


def test_T6_resize_keeps_strides_of_the_same_sizes_and_only_grows() -> None:
    x = mq.zeros(3, 4).t()
    assert x.resize_(4, 3).stride() == (1, 4)
    y = mq.zeros(4)[1:]
    assert y.resize_(10).untyped_storage().nbytes() == 44


def test_T6_resize_refuses_grad_and_foreign_memory() -> None:
    with pytest.raises(RuntimeError, match="require grad"):
        mq.zeros(3, requires_grad=True).resize_(5)
    with pytest.raises(RuntimeError, match="resizable"):
        mq.from_numpy(np.zeros(3)).resize_(5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.t().reshape(12),
        lambda x: x.expand(2, 3, 4),
        lambda x: x.permute(1, 0),
        lambda x: x.unsqueeze(1).squeeze(1),
        lambda x: x.select(1, 2),
        lambda x: x[1:, ::2],
        lambda x: x.unfold(1, 3, 1),
        lambda x: x.diagonal(1),
        lambda x: x.as_strided((3, 2), (2, 3), 1),
        lambda x: x.as_strided((2, 2, 2), (1, 1, 1), 2),
        lambda x: x.t().as_strided((2, 3), (1, 3), 1),
        lambda x: x.split(2, 1)[1],
        lambda x: x.unbind(1)[2] * x.unbind(1)[0],
        lambda x: x.tensor_split(3, 1)[1],
        lambda x: mq.ops.aten.unsafe_split.Tensor(x, 2)[0],
        lambda x: x.mT.flatten(),
        lambda x: x.narrow(1, 1, 2),
    ],
)
def test_derivative_of_views(function: object) -> None:
    check_gradients(function, A)  # type: ignore[arg-type]  # a function
    check_second_gradients(lambda x: function(x * x), A)  # type: ignore[operator]  # a function


@pytest.mark.parametrize("name", ["select", "slice", "diagonal", "unfold"])
def test_second_derivative_of_view_gradients(name: str) -> None:
    arguments = {"select": (1, 0), "slice": (1, 1, 3), "diagonal": (), "unfold": (1, 2, 1)}[name]
    check_second_gradients(lambda x: getattr(mq.ops.aten, name)(x * x, *arguments), A)


def test_derivative_of_in_place_views() -> None:
    check_gradients(lambda x: x.clone().t_() * 2, A)
    check_gradients(lambda x: x.clone().unsqueeze_(0).squeeze_() * 2, A)
    check_gradients(lambda x: x.clone().transpose_(0, 1) * 2, A)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x.select_scatter(y[0], 0, 1),
        lambda x, y: x.slice_scatter(y[:, :2], 1, 1, 3),
        lambda x, y: x.diagonal_scatter(y.diagonal(), 0),
    ],
)
def test_derivative_of_scattered_views(function: object) -> None:
    check_gradients(function, A, A + 1)  # type: ignore[arg-type]  # a function


def test_gradient_of_as_strided_scatter_is_that_of_the_written_elements_for_both() -> None:
    x = mq.zeros(6, requires_grad=True)
    y = mq.ones(2, requires_grad=True)
    slope = mq.arange(1.0, 7.0)
    by_x, by_y = mq.autograd.grad(x.as_strided_scatter(y, (2,), (3,), 1), [x, y], slope)
    assert by_y.tolist() == slope.as_strided((2,), (3,), 1).tolist()
    assert by_x.tolist() == mq.zeros(6).as_strided_scatter(by_y, (2,), (3,), 1).tolist()


def test_derivative_of_as_strided_scatter_by_its_source() -> None:
    x = mq.tensor(A)
    check_gradients(lambda y: x.as_strided_scatter(y[:2, :2], (2, 2), (3, 1), 2), A + 1)


def test_a_view_may_have_more_dimensions_than_numpy_arrays() -> None:
    x = mq.ones(1).as_strided((1,) * 65, (1,) * 65)
    assert x.ndim == 65
    assert x[0].sum().item() == 1
    with pytest.raises(NotImplementedError, match="at most 64 dims"):
        x.neg()


def test_copies_of_views_share_nothing() -> None:
    x = mq.arange(6).view(2, 3)
    copied = mq.ops.aten.t_copy.default(x)
    assert copied.is_contiguous()
    x.zero_()
    assert copied.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_split_names_bad_sizes() -> None:
    with pytest.raises(RuntimeError, match=r"sum exactly to 5.*\[2, 2\]"):
        mq.zeros(5).split([2, 2])
    with pytest.raises(RuntimeError, match="non-negative"):
        mq.zeros(5).split(-1)


def test_chunk_of_an_empty_dimension_gives_all_chunks() -> None:
    assert [c.shape for c in mq.zeros(0, 2).chunk(3)] == [(0, 2)] * 3


def test_functions_give_tuples_of_views() -> None:
    assert isinstance(mq.zeros(4).split(2), tuple)
    assert isinstance(mq.split(mq.zeros(4), [1, 3]), tuple)
    assert isinstance(mq.meshgrid(mq.zeros(2), mq.zeros(3), indexing="ij"), tuple)


def test_flatten_and_movedim_agree_with_numpy() -> None:
    x = mq.from_numpy(CUBE)
    np.testing.assert_array_equal(
        x.movedim((0, 1), (2, 0)).numpy(), np.moveaxis(CUBE, (0, 1), (2, 0))
    )
    np.testing.assert_array_equal(x.flatten(1).numpy(), CUBE.reshape(2, 12))


@pytest.mark.parametrize("name", ["mT", "mH", "adjoint", "matrix_H"])
def test_a_tensor_without_dimensions_is_its_own_transpose(name: str) -> None:
    transpose = getattr(mq.ops.aten, name)
    x = mq.tensor(2.0)
    assert transpose(x) is x
    z = mq.tensor(1 + 2j)
    assert transpose(z).item() == (1 + 2j if name == "mT" else 1 - 2j)


@pytest.mark.parametrize("start", [True, 1.0, [1]])
def test_narrow_starts_at_an_integer_of_no_dimensions(start: object) -> None:
    for narrow in (mq.narrow, mq.Tensor.narrow, mq.ops.aten.narrow):
        with pytest.raises(RuntimeError, match="start must be an 0-dim integral Tensor"):
            narrow(mq.ones(3), 0, mq.tensor(start), 1)
    assert mq.arange(3).narrow(0, mq.tensor(1), 1).tolist() == [1]


def test_nothing_unflattens_where_there_is_no_dimension() -> None:
    with pytest.raises(RuntimeError, match="0-dim tensor has no dimension"):
        mq.tensor(1.0).unflatten(0, (1,))


def test_methods_are_found_on_the_class() -> None:
    assert mq.Tensor.view(mq.zeros(4), 2, 2).shape == (2, 2)


def test_copies_keep_strides_and_offset() -> None:
    strided = mq.empty_strided((2, 2), (5, 1))
    assert mq.ops.aten.copy(strided, mq.ones(2, 2)).stride() == (5, 1)
    part = mq.ops.aten.copy(mq.zeros(6)[2:], mq.ones(4))
    assert part.storage_offset() == 2
    assert part.view(2, 2).tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("name", ["hsplit", "vsplit", "dsplit"])
@pytest.mark.parametrize(("overload", "at"), [("int", 2), ("array", [1])])
def test_operators_that_split_give_lists(name: str, overload: str, at: object) -> None:
    op = getattr(getattr(mq.ops.aten, name), overload)
    assert type(op(mq.ones(2, 2, 2), at)) is list
