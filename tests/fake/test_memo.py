"""What a mode remembers of its conversions (F42, F43): originals hold it, nothing lives longer."""

import copy
import gc
import weakref
from collections.abc import Callable

import pytest

import maquette as mq
from maquette import Tensor, nn
from maquette.fake.convert import FakeTensorConverter
from maquette.fake.memo import Memo
from maquette.torch.utils import swap_tensors


def chain(t: Tensor) -> int:
    """How many modes' entries a tensor holds."""
    entry, count = t._converted, 0
    while entry is not None:
        entry, count = entry.rest, count + 1  # type: ignore[attr-defined]  # an entry
    return count


MAKE: dict[str, Callable[[], Tensor]] = {
    "factory": lambda: mq.ones(2, 3),
    "result": lambda: mq.ones(2, 3) + 1,
    "view": lambda: mq.ones(3, 2).t(),
    "parameter": lambda: nn.Parameter(mq.ones(2, 3)),
    "written": lambda: mq.ones(2, 3).add_(1),
    "meta": lambda: mq.ones(2, 3, device="meta"),
    "fake": lambda: mq.FakeTensorMode().from_tensor(mq.ones(2, 3)),
    "sparse": lambda: mq.eye(3).to_sparse(),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())
def test_F42_each_mode_remembers_its_own_fake(make: Callable[[], Tensor]) -> None:
    t, first, second, third = make(), *(mq.FakeTensorMode() for _ in range(3))
    fakes = [mode.from_tensor(t) for mode in (first, second, third)]
    assert [mode.from_tensor(t) for mode in (first, second, third)] == fakes
    assert [fake.fake_mode for fake in fakes] == [first, second, third]
    assert len({id(fake._storage) for fake in fakes}) == 3


def test_F42_modes_that_ended_leave_nothing_behind() -> None:
    t = mq.ones(2)
    kept = mq.FakeTensorMode()
    fake = kept.from_tensor(t)
    for _ in range(5):
        mq.FakeTensorMode().from_tensor(t)
    assert chain(t) == 2
    assert kept.from_tensor(t) is fake


def test_F42_an_original_does_not_keep_a_mode_alive() -> None:
    t, mode = mq.ones(2), mq.FakeTensorMode()
    fake, ended = mode.from_tensor(t), weakref.ref(mode)
    del fake, mode
    gc.collect()
    assert ended() is None


def test_F42_a_fake_that_ended_is_made_anew() -> None:
    t, mode = mq.ones(2), mq.FakeTensorMode()
    ended = weakref.ref(mode.from_tensor(t))
    assert ended() is None
    assert mode.from_tensor(t).shape == (2,)
    assert chain(t) == 1


def test_F42_originals_that_live_are_counted() -> None:
    converter, mode = FakeTensorConverter(), mq.FakeTensorMode()
    x, y = mq.ones(2), mq.ones(3)
    made = [converter.from_real_tensor(mode, t) for t in (x, y, x)]
    assert (len(converter.tensor_memo), len(converter.storage_memo)) == (2, 2)
    assert x in converter.tensor_memo
    assert x not in mode.converter.tensor_memo
    del x
    assert (len(converter.tensor_memo), len(converter.storage_memo)) == (1, 1)
    assert made[0] is made[2]


def test_F43_a_storage_is_remembered_longer_than_the_fake() -> None:
    x, mode = mq.ones(2, 2), mq.FakeTensorMode()
    storage = mode.from_tensor(x).untyped_storage()
    assert x not in mode.converter.tensor_memo
    assert mode.from_tensor(x[0]).untyped_storage() is storage
    assert mode.converter.storage_memo.original_of(storage) is x.untyped_storage()


def test_the_original_of_a_storage_is_the_one_of_the_memo_that_is_asked() -> None:
    first, second = Memo[Tensor, Tensor](both_ways=True), Memo[Tensor, Tensor](both_ways=True)
    a, b, made = mq.ones(1), mq.ones(2), mq.ones(3)
    first.remember(a, made)
    second.remember(b, made)
    other = weakref.ref(made)
    assert (first.original_of(made), second.original_of(made)) == (a, b)
    assert other() is made
    del a
    assert first.original_of(made) is None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, Tensor.detach])
def test_F42_copies_are_originals_of_their_own(copied: Callable[[Tensor], Tensor]) -> None:
    t, mode = mq.ones(2), mq.FakeTensorMode()
    fake = mode.from_tensor(t)
    assert mode.from_tensor(copied(t)) is not fake


def test_tensors_with_fakes_are_not_swapped() -> None:
    a, b, mode = mq.ones(1), mq.ones(2), mq.FakeTensorMode()
    fake = mode.from_tensor(a)
    with pytest.raises(RuntimeError, match="weakref"):
        swap_tensors(a, b)
    del fake
    swap_tensors(a, b)
    assert mode.from_tensor(a).shape == (2,)
