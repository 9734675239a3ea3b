"""Subscripts: views, index tensors, masks, and writing through them."""

import numpy as np
import pytest

import maquette as mq
from maquette import Tensor
from maquette.dispatch.modes import TorchDispatchMode


def numbered(*shape: int) -> Tensor:
    return mq.arange(int(np.prod(shape))).view(shape)


def test_T42_integers_neither_split_nor_join_index_tensors() -> None:
    assert mq.zeros(3, 4, 5)[0, :, [0, 1]].shape == (4, 2)


def test_T42_plain_indices_give_views() -> None:
    x = numbered(3, 4)
    for v in (x[1], x[1:, None], x[..., 0], x[mq.tensor(1)]):
        assert v._is_view()
    assert x[mq.tensor(1)].tolist() == [4, 5, 6, 7]


def test_T42_slices_clamp() -> None:
    x = numbered(4)
    assert x[2:99].tolist() == [2, 3]
    assert x[-99:1].tolist() == [0]
    assert x[3:1].shape == (0,)


def test_T42_one_ellipsis_only() -> None:
    with pytest.raises(IndexError, match="ellipsis"):
        mq.zeros(3, 4)[..., ...]


def test_T43_out_of_range() -> None:
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 1 with size 4"):
        mq.zeros(3, 4)[0, 5]
    with pytest.raises(IndexError, match=r"5.*dimension 0.*3"):
        mq.zeros(3)[[5]]


def test_T43_too_many() -> None:
    with pytest.raises(IndexError, match="dimension 2"):
        mq.zeros(3, 4)[0, 0, 0]
    with pytest.raises(IndexError, match="item"):
        mq.zeros(())[0]


@pytest.mark.parametrize("index", [mq.tensor([0.0]), 1.0, mq.tensor([0], dtype=mq.int16)])
def test_T43_what_is_no_index(index: object) -> None:
    with pytest.raises(IndexError):
        mq.zeros(3)[index]


@pytest.mark.parametrize("step", [-1, 0])
def test_T43_steps_go_forward(step: int) -> None:
    with pytest.raises(ValueError, match="step"):
        mq.zeros(3)[::step]


def test_T43_strings_and_del_are_refused() -> None:
    x = mq.zeros(3)
    with pytest.raises(TypeError):
        x["a"]
    with pytest.raises(TypeError):
        del x[0]


def test_T44_truth_takes_a_new_dimension() -> None:
    x = mq.zeros(3)
    assert x[True].shape == (1, 3)
    assert x[False].shape == (0, 3)
    assert x[mq.tensor(True)].shape == (1, 3)
    assert not x[True]._is_view()


def test_T44_a_mask_stands_for_as_many_indices_as_it_has_dimensions() -> None:
    assert mq.zeros(3, 4, 5)[mq.ones(3, 4, dtype=mq.bool)].shape == (12, 5)
    x = numbered(2, 2)
    assert x[x > 1].tolist() == [2, 3]


def test_T44_a_mask_must_fit() -> None:
    with pytest.raises(IndexError, match=r"mask.*\[2\].*0.*\[3, 4\]"):
        mq.zeros(3, 4)[mq.ones(2, dtype=mq.bool)]


def test_T45_places_of_index_tensors() -> None:
    x = mq.zeros(3, 4, 5)
    assert x[[0, 1], :, [0, 1]].shape == (2, 4)
    assert x[:, [[0], [1]], [0, 1, 2]].shape == (3, 2, 3)


def test_T45_index_tensors_broadcast() -> None:
    with pytest.raises(IndexError, match=r"\[2\].*\[3\]"):
        mq.zeros(3, 4)[[0, 1], [0, 1, 2]]


def test_T45_values_are_numpy_s() -> None:
    x = numbered(3, 4, 5)
    assert x[:, [[0], [1]], [0, 1, 2]].tolist() == x.numpy()[:, [[0], [1]], [0, 1, 2]].tolist()
    assert x[[0, 1], :, [0, 1]].tolist() == x.numpy()[[0, 1], :, [0, 1]].tolist()


def test_T46_result_strides() -> None:
    x = mq.zeros(60).as_strided((5, 3, 4), (1, 20, 5))[:, [0, 1]]
    assert (x.shape, x.stride()) == ((5, 2, 4), (1, 5, 10))
    two = mq.zeros(2, 3, dtype=mq.int64)
    y = mq.zeros(600).as_strided((7, 2, 6, 3), (1, 21, 42, 7))[:, :, two]
    assert y.stride() == (1, 126, 21, 7, 42)
    assert mq.zeros(3, 4, 5)[two.t()].stride() == (20, 60, 5, 1)


def test_T47_setitem_casts_numbers_and_plain_values() -> None:
    a = mq.zeros(2, dtype=mq.int64)
    a[0] = 1.7
    a[1:] = mq.tensor([2.7])
    assert a.tolist() == [1, 2]


def test_T47_an_index_tensor_takes_values_of_its_target_s_dtype() -> None:
    a = mq.zeros(2, dtype=mq.int64)
    with pytest.raises(RuntimeError, match=r"(?i)(long|int64).*float|float.*(long|int64)"):
        a[[0]] = mq.tensor([1.7])


def test_T47_a_mask_takes_a_single_value_of_any_dtype() -> None:
    a = mq.zeros(2, dtype=mq.int64)
    a[mq.tensor([True, False])] = mq.tensor(1.7)
    assert a.tolist() == [1, 0]


def test_T47_a_mask_and_a_vector_must_count_the_same() -> None:
    a = mq.zeros(3)
    a[mq.tensor([True, False, True])] = mq.tensor([1.0, 2.0])
    assert a.tolist() == [1.0, 0.0, 2.0]
    with pytest.raises((RuntimeError, IndexError), match="3"):
        a[mq.tensor([True, False, True])] = mq.tensor([1.0, 2.0, 3.0])


def test_T47_setitem_broadcasts_and_drops_leading_ones() -> None:
    a = mq.zeros(2, 2)
    a[0] = mq.ones(1, 1, 2)
    a[[1]] = 2.0
    assert a.tolist() == [[1.0, 1.0], [2.0, 2.0]]


def test_T47_accumulate_adds_duplicates() -> None:
    a = mq.zeros(2)
    a.index_put_((mq.tensor([0, 0]),), mq.ones(2), accumulate=True)
    assert a.tolist() == [2.0, 0.0]


def test_T47_nothing_is_written_at_false() -> None:
    a = mq.zeros(2)
    a[False] = 5.0
    assert a.tolist() == [0.0, 0.0]


# --- what modes see of a write --------------------------------------------------------


def _seen(index: object, value: object) -> list[str]:
    """The operators of ``x[index] = value``, with overloads."""
    names: list[str] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func).removeprefix("aten."))
            return func(*args, **(kwargs or {}))

    x = mq.zeros(3, 3)
    with Watch():
        x[index] = value
    return names


@pytest.mark.parametrize("index", [..., slice(None)])
def test_writing_a_number_lifts_it_and_fills(index):
    assert _seen(index, 1.0) == ["lift_fresh.default", "fill_.Tensor"]


def test_a_number_is_lifted_before_the_views_are_made():
    assert _seen(0, 1) == ["lift_fresh.default", "select.int", "fill_.Tensor"]


def test_a_number_is_copied_to_a_single_element():
    names = ["lift_fresh.default", "select.int", "select.int", "copy_.default"]
    assert _seen((0, 1), 1) == names


def test_writing_at_true_fills_the_whole():
    assert _seen(True, 1) == ["lift_fresh.default", "unsqueeze.default", "fill_.Tensor"]


def test_a_number_under_a_mask_is_lifted_and_put():
    assert _seen(mq.ones(3, 3) > 0, 1.0) == ["lift_fresh.default", "index_put_.default"]


def test_a_handler_in_a_list_of_indices_is_asked():
    class Answers(mq.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    t, i = mq.ones(3), mq.tensor(0).as_subclass(Answers)
    assert (t[[i, 1]], t[i]) == ("__getitem__", "__getitem__")
