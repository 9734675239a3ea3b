"""`torch.utils.weak`: weak keys by identity."""

import copy
import gc

import maquette as mq
from maquette.torch.utils.weak import (
    TensorWeakRef,
    WeakIdKeyDictionary,
    WeakIdRef,
    WeakTensorKeyDictionary,
    _WeakHashRef,
)


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


def test_deep_copies_hold_the_same_keys_and_copies_of_the_values() -> None:
    key = mq.ones(1)
    held = WeakIdKeyDictionary({key: [1]})
    copied = copy.deepcopy(held)
    assert list(copied) == [key]
    assert copied[key] == [1]
    assert copied[key] is not held[key]


def test_a_dict_and_a_weak_one_are_joined() -> None:
    a, b = mq.ones(1), mq.ones(1)
    joined = {a: 1, b: 2} | WeakIdKeyDictionary({b: 3})
    assert isinstance(joined, WeakIdKeyDictionary)
    assert [joined[a], joined[b]] == [1, 3]


class Named:
    """Equal hashes for equal names."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)


def test_references_by_hash_find_what_stands_for_the_same() -> None:
    one, same = Named("a"), Named("a")
    held = WeakIdKeyDictionary({one: 1}, ref_type=_WeakHashRef)
    assert held[same] == 1
    assert Named("b") not in held
