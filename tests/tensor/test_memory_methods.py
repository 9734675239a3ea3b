"""Methods about memory, elements and kinds: storages, pinning, sharing, apply_, to_dense."""

from __future__ import annotations

import os

import numpy as np
import pytest

import maquette as mq


def typed(x):
    with pytest.warns(UserWarning, match="untyped_storage"):
        return x.storage()


def test_a_typed_storage_shares_all_elements_of_the_bytes():
    x = mq.arange(6, dtype=mq.float32).view(2, 3)
    held = typed(x[1])
    assert held.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert (len(held), held.dtype, held.nbytes()) == (6, mq.float32, 24)
    held[0] = 7
    assert x[0, 0].item() == 7.0
    assert held.untyped() is x.untyped_storage()


def test_typed_storages_are_copied_and_converted():
    held = typed(mq.tensor([1.5, -2.0]))
    copied = held.clone().fill_(3)
    assert held.tolist() == [1.5, -2.0]
    assert held.long().tolist() == [1, -2]
    assert held.copy_(copied)[1] == 3.0
    with pytest.raises(RuntimeError, match="slices"):
        held[:1]


def test_tensors_are_laid_over_typed_storages():
    x = mq.tensor([1.0, 2.0])
    y = mq.empty(0).set_(typed(x))
    assert y.tolist() == [1.0, 2.0]
    assert y.data_ptr() == x.data_ptr()


def test_new_takes_sizes_data_and_storages_in_the_tensors_dtype():
    x = mq.ones(2, dtype=mq.float64)
    assert (x.new(2, 3).shape, x.new(2, 3).dtype) == ((2, 3), mq.float64)
    assert x.new([1, 2]).tolist() == [1.0, 2.0]
    assert x.new(typed(x)).data_ptr() == x.data_ptr()
    with pytest.raises(TypeError, match="does not convert"):
        x.new(mq.ones(1))


def test_F60_pinning_is_remembered_of_real_and_fake_tensors():
    for x in (mq.ones(2), mq.FakeTensorMode().from_tensor(mq.ones(2))):
        assert not x.is_pinned()
        pinned = x.pin_memory()
        assert pinned.is_pinned()
        assert pinned[:1].is_pinned()
        assert pinned.pin_memory() is pinned
        assert not x.is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU"):
        mq.ones(2, device="meta").pin_memory()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_shared_memory_is_seen_across_processes():
    x = mq.zeros(3)
    view = x[1:]
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.is_shared()
    assert view.is_shared()
    child = os.fork()
    if child == 0:
        view.fill_(5.0)
        os._exit(0)
    os.waitpid(child, 0)
    assert x.tolist() == [0.0, 5.0, 5.0]


def test_memory_of_numpy_cannot_be_moved_to_be_shared():
    with pytest.raises(RuntimeError, match="clone"):
        mq.from_numpy(np.ones(2)).share_memory_()


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4, 5)])
def test_dim_order_is_that_of_contiguous_tensors(shape):
    assert mq.empty(shape).dim_order() == tuple(range(len(shape)))


def test_dim_order_follows_the_strides():
    x = mq.empty(2, 3, 4, 5)
    assert x.to(memory_format=mq.channels_last).dim_order() == (0, 2, 3, 1)
    assert x.permute(3, 0, 2, 1).dim_order() == (1, 3, 2, 0)


def test_dim_order_says_where_strides_leave_a_choice():
    formats = [mq.contiguous_format, mq.channels_last]
    assert mq.empty(2, 3, 4, 5).dim_order(ambiguity_check=formats) == (0, 1, 2, 3)
    for check in (True, formats):
        with pytest.raises(RuntimeError, match="unique dim order"):
            mq.empty(2, 1, 4, 5).dim_order(ambiguity_check=check)
    with pytest.raises(TypeError, match="bool or a list"):
        mq.empty(2).dim_order(ambiguity_check="yes")


# --- elements ------------------------------------------------------------------------


def test_apply_calls_for_each_element_in_order():
    seen = []
    x = mq.arange(6).view(2, 3).t()
    assert x.apply_(lambda v: seen.append(v) or 2 * v) is x
    assert seen == [0, 3, 1, 4, 2, 5]
    assert x.tolist() == [[0, 6], [2, 8], [4, 10]]


def test_apply_converts_to_the_dtype():
    assert mq.tensor([1, 2]).apply_(lambda v: v * 1.7).tolist() == [1, 3]
    with pytest.raises(TypeError, match="not str"):
        mq.ones(1).apply_(lambda v: "a")


def test_map_takes_counterparts_that_broadcast():
    x, row = mq.zeros(2, 3), mq.tensor([1.0, 2.0, 3.0])
    assert x.map_(row, lambda a, b: a + b).tolist() == [[1.0, 2.0, 3.0]] * 2
    assert x.map2_(row, row, lambda a, b, c: a * b - c).tolist() == [[0.0, 2.0, 6.0]] * 2
    with pytest.raises(TypeError, match=r"expected torch\.FloatTensor"):
        x.map_(mq.ones(3, dtype=mq.int64), lambda a, b: a)


def test_elements_of_tensors_that_require_grad_are_left_alone():
    x = mq.ones(2, requires_grad=True)
    for call in (lambda: x.apply_(abs), lambda: mq.ones(2).map_(x, max)):
        with pytest.raises(RuntimeError, match="requires grad"):
            call()


def test_fakes_have_no_elements_to_call_for():
    x = mq.FakeTensorMode().from_tensor(mq.ones(2))
    assert x.apply_(lambda v: 1 / 0) is x


def test_where_and_polygamma_are_methods():
    x = mq.tensor([1.0, -1.0])
    assert x.where(x > 0, 5).tolist() == [1.0, 5.0]
    assert x[0].polygamma(1).item() == pytest.approx(np.pi**2 / 6)


# --- Python's operators --------------------------------------------------------------


def test_shifts_from_the_left_and_in_place():
    x = mq.tensor([1, 2])
    assert (2 << x).tolist() == [4, 8]
    assert (16 >> x).tolist() == [8, 4]
    x <<= 2
    assert x.tolist() == [4, 8]
    x >>= 1
    assert x.tolist() == [2, 4]


def test_reversed_is_a_tensor():
    x = mq.arange(4).view(2, 2)
    assert reversed(x).tolist() == [[2, 3], [0, 1]]
    assert reversed(x[0, 1]).item() == 1


# --- kinds ---------------------------------------------------------------------------


def test_dense_tensors_are_dense():
    x = mq.ones(2, 3)
    assert x.to_dense() is x
    assert x.to_dense(mq.float64).dtype is mq.float64
    assert (x.sparse_dim(), x.dense_dim()) == (0, 2)
    assert not any([x.is_sparse, x.is_sparse_csr, x.is_distributed(), x.is_xla])
    with pytest.raises(RuntimeError, match="sparse coordinate tensor layout but got Strided"):
        x.coalesce()


@pytest.mark.parametrize("name", ["int_repr", "to_mkldnn"])
def test_tensors_of_other_kinds_are_not_there_yet(name):
    with pytest.raises(NotImplementedError, match=f"{name} is not supported by maquette yet"):
        getattr(mq.ones(2), name)()


@pytest.mark.parametrize("name", ["eig", "symeig", "lstsq", "solve"])
def test_what_pytorch_removed_says_what_came_instead(name):
    with pytest.raises(RuntimeError, match=r"removed: use torch\.linalg"):
        getattr(mq.eye(2), name)(mq.eye(2))


def test_old_resizes_keep_the_number_of_elements():
    x = mq.arange(6)
    with pytest.warns(UserWarning, match="reshape"):
        assert x.resize(2, 3).shape == (2, 3)
    refused = pytest.raises(RuntimeError, match="requested resize to")
    with pytest.warns(UserWarning, match="reshape"), refused:
        x.resize_as(mq.ones(2))


def test_module_load_copies_or_takes_over():
    x, y = mq.zeros(2, requires_grad=True), mq.ones(2)
    assert x.module_load(y).data_ptr() == x.data_ptr()
    assert x.tolist() == [1.0, 1.0]
    assert x.module_load(y, assign=True).data_ptr() == y.data_ptr()
