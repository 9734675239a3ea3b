"""Storages, metadata and what happens to tensors when bytes come, grow and go."""

import copy
import gc
import threading

import numpy as np
import pytest

import maquette as mq
from maquette.tensor.storage import UntypedStorage, observe_allocations, observers_paused


class Log:
    """An allocation observer that writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def allocated(self, storage: UntypedStorage, nbytes: int) -> None:
        self.events.append(("allocated", nbytes, str(storage.device)))

    def resized(self, storage_id: int, old_nbytes: int, new_nbytes: int) -> None:
        self.events.append(("resized", old_nbytes, new_nbytes))

    def released(self, storage_id: int) -> None:
        self.events.append(("released",))


# --- bytes ---------------------------------------------------------------------------


def test_T1_views_give_the_same_storage_object() -> None:
    x = mq.zeros(4)
    assert x[1:].untyped_storage() is x.untyped_storage()


def test_T1_nbytes_size_and_len_agree() -> None:
    s = mq.zeros(3).untyped_storage()
    assert s.nbytes() == s.size() == len(s) == 12
    assert s.device == mq.device("cpu")


def test_T1_a_storage_is_read_by_the_byte() -> None:
    s = mq.tensor([1, 258], dtype=mq.int16).untyped_storage()
    assert [s[i] for i in range(4)] == [1, 0, 2, 1]


def test_T1_resize_keeps_the_prefix_and_the_tensor_s_metadata() -> None:
    x = mq.tensor([1, 2, 3], dtype=mq.uint8)
    s = x.untyped_storage()
    s.resize_(2)
    s.resize_(3)
    assert [s[0], s[1]] == [1, 2]
    assert x.shape == (3,)


@pytest.mark.parametrize("x", [mq.zeros(0), mq.zeros(3, device="meta")], ids=["empty", "meta"])
def test_T1_data_ptr_is_zero_without_bytes(x: mq.Tensor) -> None:
    assert x.untyped_storage().data_ptr() == 0


def test_T1_data_ptr_is_where_the_elements_are() -> None:
    x = mq.zeros(4)
    assert x[1:].data_ptr() == x.untyped_storage().data_ptr() + 4


def test_T2_a_fresh_tensor_allocates_the_bytes_it_spans() -> None:
    assert mq.empty_strided((2, 3), (8, 1)).untyped_storage().nbytes() == 44
    assert mq.empty_strided((2, 0), (8, 1)).untyped_storage().nbytes() == 0


def test_T2_nbytes_counts_elements_not_the_span() -> None:
    assert mq.empty_strided((2, 3), (8, 1)).nbytes == 24


# --- no data -------------------------------------------------------------------------


def test_T3_meta_tensors_have_no_data() -> None:
    x = mq.zeros(2, device="meta")
    with pytest.raises(NotImplementedError, match="no data"):
        x.tolist()
    with pytest.raises(NotImplementedError, match="no data"):
        mq.zeros(2).copy_(x)
    with pytest.raises(RuntimeError, match="meta"):
        mq.zeros((), device="meta").item()


@pytest.mark.parametrize("read", [mq.Tensor.item, mq.Tensor.tolist, bool])
def test_T3_a_fake_s_values_are_not_known(read: object) -> None:
    fake = mq.FakeTensorMode().from_tensor(mq.ones(()))
    with pytest.raises(mq.fake.DataDependentOutputException, match="aten"):
        read(fake)  # type: ignore[operator]  # a function


def test_T3_a_kernel_on_too_short_a_storage_is_refused() -> None:
    x = mq.ones(4)
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=r"16.*0"):
        x + 1


def test_T3_a_write_to_too_short_a_storage_is_refused() -> None:
    x = mq.ones(4)
    x.untyped_storage().resize_(8)
    with pytest.raises(RuntimeError, match=r"16.*8"):
        x.add_(1)


def test_T3_a_view_of_too_short_a_storage_is_refused_when_read() -> None:
    x = mq.ones(4)
    v = x[2:]
    x.untyped_storage().resize_(8)
    with pytest.raises(RuntimeError, match=r"16.*8"):
        v.tolist()


def test_T3_a_storage_given_back_its_bytes_is_read_again() -> None:
    x = mq.ones(4)
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(16)
    assert x.fill_(2).tolist() == [2.0] * 4


def test_T3_views_follow_when_bytes_move() -> None:
    x = mq.zeros(4)
    v = x[:2]
    x.resize_(10)
    v.fill_(1)
    assert x[:4].tolist() == [1.0, 1.0, 0.0, 0.0]


def test_T3_all_views_follow_their_storage_when_it_is_resized_itself() -> None:
    x = mq.arange(4)
    views = [x[:2], x[2:], x.view(2, 2)]
    x.untyped_storage().resize_(64)
    x.fill_(7)
    assert [v.flatten().tolist() for v in views] == [[7, 7], [7, 7], [7] * 4]


READING = {
    "numpy": lambda t: t.numpy().tolist(),
    "tolist": lambda t: t.tolist(),
    "DLPack": lambda t: np.from_dlpack(t).tolist(),
    "deepcopy": lambda t: copy.deepcopy(t).tolist(),
    "repr": lambda t: eval(repr(t).replace("tensor", "")),
    "an operator": lambda t: (t + 0).tolist(),
    "a list": lambda t: mq.cat([t]).tolist(),
    "a method": lambda t: t.clone().tolist(),
}


@pytest.mark.parametrize("how", READING)
def test_T3_views_are_read_where_the_bytes_are_now(how: str) -> None:
    x = mq.zeros(4, dtype=mq.int64)
    v = x[:2]
    x.resize_(100)
    x[:2].fill_(5)
    assert READING[how](v) == [5, 5]


def test_T3_an_out_argument_that_is_resized_takes_its_views_along() -> None:
    out = mq.zeros(2)
    v = out[:1]
    with pytest.warns(UserWarning, match="resized"):
        mq.add(mq.ones(8), 1, out=out)
    assert v.tolist() == [2.0]


def test_T3_shared_memory_takes_the_views_along() -> None:
    x = mq.zeros(4)
    v = x[:2]
    x.share_memory_()
    x.fill_(3)
    assert v.tolist() == [3.0, 3.0]


def test_T4_one_release_for_all_aliases() -> None:
    log = Log()
    with observe_allocations(log):
        x = mq.zeros(2, 3)
        y = x.view(-1)
        del x
        gc.collect()
        assert log.events == [("allocated", 24, "cpu")]
        del y
        gc.collect()
    assert log.events[1:] == [("released",)]


def test_T4_fakes_report_on_their_own_device() -> None:
    log = Log()
    with observe_allocations(log), mq.FakeTensorMode():
        x = mq.empty(2, device="cuda")
    assert log.events == [("allocated", 8, "cuda:0")]
    assert x.shape == (2,)


def test_T4_a_resize_reports_old_and_new() -> None:
    log = Log()
    with observe_allocations(log):
        mq.zeros(4).untyped_storage().resize_(4)
    assert log.events == [("allocated", 16, "cpu"), ("resized", 16, 4), ("released",)]


# --- set_, resize_, as_strided -------------------------------------------------------


def test_T5_set_without_source_empties() -> None:
    x = mq.zeros(3)
    before = x.untyped_storage()
    x.set_()
    assert x.shape == (0,)
    assert x.untyped_storage() is not before


def test_T5_set_to_a_tensor_shares() -> None:
    x, y = mq.zeros(1), mq.zeros(2, 3).t()
    x.set_(y)
    assert x.untyped_storage() is y.untyped_storage()
    assert x.stride() == (1, 3)


def test_T5_set_to_a_storage_grows_it() -> None:
    short = mq.zeros(2).untyped_storage()
    mq.zeros(1).set_(short, 0, [3], (1,))
    assert short.nbytes() == 12


def test_T5_set_counts_as_a_write() -> None:
    x = mq.zeros(1)
    x.set_(mq.zeros(2))
    assert x._version == 1


def test_T5_set_refuses_another_dtype() -> None:
    with pytest.raises(RuntimeError, match=r"int64.*float32"):
        mq.zeros(1).set_(mq.zeros(1, dtype=mq.int64))


def test_T6_resize_to_the_same_sizes_keeps_strides() -> None:
    x = mq.empty_strided((4, 3), (1, 4))
    assert x.resize_(4, 3).stride() == (1, 4)


def test_T6_resize_lays_out_anew_and_keeps_the_offset() -> None:
    x = mq.zeros(4)[1:].resize_(10)
    assert (x.storage_offset(), x.stride()) == (1, (1,))
    assert x.untyped_storage().nbytes() == 44


def test_T6_a_storage_only_grows() -> None:
    x = mq.zeros(4).resize_(2)
    assert x.untyped_storage().nbytes() == 16


def test_T6_a_named_format_lays_out_anew() -> None:
    x = mq.zeros(2, 3, 4, 4).resize_(2, 3, 4, 4, memory_format=mq.channels_last)
    assert x.is_contiguous(memory_format=mq.channels_last)


def test_T6_tensors_that_require_grad_are_not_resized() -> None:
    with pytest.raises(RuntimeError, match="resize variables that require grad"):
        mq.zeros(2, requires_grad=True).resize_(3)


def test_T6_numpy_s_memory_does_not_grow() -> None:
    with pytest.raises(RuntimeError, match="resizable"):
        mq.from_numpy(np.zeros(2)).resize_(3)


def test_T7_as_strided_stays_in_its_storage() -> None:
    with pytest.raises(RuntimeError, match=r"24.*16"):
        mq.zeros(4).as_strided((3, 2), (2, 1))


@pytest.mark.parametrize(
    "size, stride, offset", [((2,), (-1,), 0), ((2,), (1,), -1), ((2,), (), 0)]
)
def test_T7_as_strided_refuses(size: tuple[int], stride: tuple[int], offset: int) -> None:
    with pytest.raises(RuntimeError):
        mq.zeros(4).as_strided(size, stride, offset)


def test_T7_nothing_is_never_out_of_bounds() -> None:
    assert mq.zeros(4).as_strided((0, 9), (9, 9), 99).shape == (0, 9)


def test_T7_as_strided_starts_at_the_tensor_s_own_offset() -> None:
    assert mq.arange(4)[2:].as_strided((1,), (1,)).tolist() == [2]


# --- .data, metadata -----------------------------------------------------------------


def test_T8_data_takes_all_of_another_tensor() -> None:
    x, y = mq.zeros(2), mq.ones(2, 3, dtype=mq.float64).t()
    x.add_(1)
    x.data = y
    assert (x.shape, x.stride(), x.dtype) == ((3, 2), (1, 3), mq.float64)
    assert x.untyped_storage() is y.untyped_storage()
    assert x._version == 1


def test_T8_a_detached_tensor_shares_the_version() -> None:
    a = mq.zeros(2)
    a.detach().mul_(2)
    assert a._version == 1
    assert not a.detach()._is_view()


def test_T8_data_counts_for_itself() -> None:
    a = mq.zeros(2)
    a.add_(1)
    a.data.mul_(2)
    assert (a._version, a.data._version) == (1, 0)


def test_T8_what_requires_grad_takes_no_integers() -> None:
    w = mq.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="floating point"):
        w.data = mq.zeros(2, dtype=mq.int64)


def test_T9_no_dimensions() -> None:
    x = mq.zeros(())
    assert (x.shape, x.stride(), x.ndim, x.numel(), x.storage_offset()) == ((), (), 0, 1, 0)
    assert x.sum(-1).shape == x.sum(0).shape == ()


def test_T9_a_wrong_dimension_is_refused_with_the_range() -> None:
    with pytest.raises(IndexError, match=r"\[-3, 2\], but got 3"):
        mq.zeros(3, 4, 5).sum(3)


def test_T10_tensors_carry_the_index_of_their_device() -> None:
    with mq.FakeTensorMode():
        assert str(mq.empty(2, device="cuda").device) == "cuda:0"
    assert mq.device("cuda") != mq.device("cuda:0")


def test_T10_negative_sizes_and_mismatched_strides_are_refused() -> None:
    with pytest.raises(RuntimeError, match="-1"):
        mq.empty(2, -1)
    with pytest.raises(RuntimeError, match=r"2.*1"):
        mq.empty_strided((2, 3), (1,))


def test_T11_contiguous_strides() -> None:
    assert mq.empty(2, 0, 4).stride() == (4, 4, 1)


def test_T12_strides_of_single_dimensions_do_not_matter() -> None:
    x = mq.zeros(7).as_strided((1, 3), (7, 1))
    assert x.is_contiguous()
    assert x.contiguous() is x
    assert x.clone().stride() == (7, 1)


def test_T13_channels_last() -> None:
    assert not mq.zeros(0, 3, 4, 5).is_contiguous(memory_format=mq.channels_last)
    both = mq.zeros(2, 3, 1, 1)
    assert both.is_contiguous()
    assert both.is_contiguous(memory_format=mq.channels_last)


def test_T13_a_wrong_rank_is_no_format() -> None:
    x = mq.zeros(2, 3)
    assert not x.is_contiguous(memory_format=mq.channels_last)
    with pytest.raises(RuntimeError, match="4"):
        x.contiguous(memory_format=mq.channels_last)
    with pytest.raises(RuntimeError, match="4"):
        mq.empty(2, 3, memory_format=mq.channels_last)


def test_T14_dense_layouts_are_copied_as_they_are() -> None:
    dense, gaps = mq.zeros(2, 3).t(), mq.zeros(2, 3)[:, :2]
    assert dense.meta.is_dense
    assert not gaps.meta.is_dense
    assert not mq.zeros(1, 3).expand(2, 3).meta.is_dense


def test_T15_contiguous_in_a_format_already_had_is_self() -> None:
    x = mq.zeros(2, 3, 1, 1)
    assert x.contiguous(memory_format=mq.channels_last) is x
    assert x.clone(memory_format=mq.channels_last).stride() == (3, 1, 3, 3)


def test_T15_preserve_format_is_no_format_to_bring_a_tensor_to() -> None:
    with pytest.raises(RuntimeError, match="preserve"):
        mq.zeros(2, 3).t().contiguous(memory_format=mq.preserve_format)


@pytest.mark.parametrize(
    "size, stride, kept",
    [((2, 3, 4), (0, 1, 3), (12, 1, 3)), ((3, 4), (1, 0), (4, 1)), ((4, 3), (2, 16), (1, 4))],
)
def test_T16_clone_keeps_the_order(
    size: tuple[int, ...], stride: tuple[int, ...], kept: tuple[int, ...]
) -> None:
    x = mq.zeros(64).as_strided(size, stride)
    assert x.clone().stride() == mq.empty_like(x).stride() == kept


def test_T17_to_returns_self_where_the_suggested_format_holds() -> None:
    x = mq.zeros(2, 3).t()
    assert x.to(memory_format=mq.contiguous_format) is x
    assert x.float() is x.cpu() is x
    assert x.to(mq.float32, copy=True) is not x


def test_T17_to_channels_last_copies_what_is_suggested_contiguous() -> None:
    x = mq.zeros(2, 3, 1, 1)
    made = x.to(memory_format=mq.channels_last)
    assert made is not x
    assert made.stride() == (3, 1, 3, 3)


def test_T17_a_slice_of_channels_last_is_suggested_channels_last() -> None:
    x = mq.empty(2, 3, 4, 5, memory_format=mq.channels_last)[..., :2]
    assert x.to(memory_format=mq.channels_last) is x
    assert not x.is_contiguous(memory_format=mq.channels_last)


def test_T4_a_pause_of_observers_is_one_of_its_thread():
    log, paused, made = Log(), threading.Event(), threading.Event()

    def pause():
        with observers_paused():
            paused.set()
            made.wait(10)

    other = threading.Thread(target=pause)
    with observe_allocations(log):
        other.start()
        paused.wait(10)
        x = mq.ones(4)
        made.set()
        other.join()
        mq.ones(8)
    assert [event[1] for event in log.events if event[0] == "allocated"] == [16, 32]
    assert x.nbytes == 16


def test_T4_observers_see_what_their_own_thread_makes():
    log = Log()
    with observe_allocations(log):
        other = threading.Thread(target=lambda: mq.ones(4))
        other.start()
        other.join()
    assert log.events == []


def test_resizing_to_the_same_sizes_counts_as_no_write() -> None:
    x = mq.ones(2, 3)
    x.resize_(2, 3).resize_as_(mq.zeros(2, 3))
    assert x._version == 0
    assert x.resize_(3, 2)._version == 1


def test_a_tensor_whose_array_is_out_cannot_grow() -> None:
    t = mq.zeros(2)
    array = t.numpy()
    with pytest.raises(RuntimeError, match="not resizable"):
        t.resize_(9)
    t.fill_(1)
    assert array.tolist() == [1.0, 1.0]
