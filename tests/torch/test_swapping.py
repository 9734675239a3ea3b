"""Two tensors that exchange all but their identity."""

import copy
import weakref

import pytest

import maquette as mq
from maquette.torch.utils import swap_tensors


class Named(mq.Tensor):
    __slots__ = ("label",)


def test_values_classes_and_attributes_are_swapped() -> None:
    a, b = mq.ones(2), mq.nn.Parameter(mq.zeros(3, 1))
    b.note = "kept"
    swap_tensors(a, b)
    assert [a.shape, type(a), a.note] == [(3, 1), mq.nn.Parameter, "kept"]
    assert [b.tolist(), type(b), b.requires_grad] == [[1, 1], mq.Tensor, False]


def test_other_slots_and_weak_references_are_refused() -> None:
    a, b = mq.ones(2), mq.zeros(2)
    with pytest.raises(RuntimeError, match="different slots"):
        swap_tensors(a, b.as_subclass(Named))
    reference = weakref.ref(b)
    with pytest.raises(RuntimeError, match="t2 because it has weakref"):
        swap_tensors(a, b)
    assert reference() is b


def test_backward_to_what_was_swapped_is_refused() -> None:
    a, b = mq.ones(2, requires_grad=True), mq.zeros(2)
    out = (a * 2).sum()
    swap_tensors(a, b)
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        out.backward()


def test_the_number_of_what_a_tensor_holds_is_swapped_with_it() -> None:
    a, b = mq.ones(2), mq.zeros(3)
    before = a._cdata
    a.data = mq.ones(4)
    assert a._cdata == before
    assert a.detach()._cdata != before
    assert copy.deepcopy(a)._cdata != before
    swap_tensors(a, b)
    assert b._cdata == before
    assert a._cdata != before
