"""`torch.utils.weak`: weak keys by identity."""

import gc

import maquette as mq
from maquette.torch.utils.weak import TensorWeakRef, WeakIdRef, WeakTensorKeyDictionary


def test_keys_are_told_apart_by_identity_and_not_by_value():
    a, b = mq.ones(2), mq.ones(2)
    found = WeakTensorKeyDictionary({a: 1})
    assert found[a] == 1
    assert b not in found
    found[b] = 2
    assert (found[a], found[b], len(found)) == (1, 2, 2)


def test_an_entry_goes_with_its_key():
    a, b = mq.ones(2), mq.ones(2)
    found = WeakTensorKeyDictionary({a: 1, b: 2})
    del a
    gc.collect()
    assert list(found.values()) == [2]
    del found[b]
    assert not found.data


def test_references_are_equal_if_their_tensors_are_the_same():
    a = mq.ones(2)
    assert WeakIdRef(a) == WeakIdRef(a) != WeakIdRef(mq.ones(2))
    reference = TensorWeakRef(a)
    assert reference() is a
    del a
    gc.collect()
    assert reference() is None


def test_a_copy_has_the_same_entries():
    a = mq.ones(2)
    found = WeakTensorKeyDictionary({a: 1})
    other = found | {a: 3}
    assert (found[a], other[a], found.copy()[a]) == (1, 3, 1)
