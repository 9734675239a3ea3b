"""Loaders with worker processes (finding 54)."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

import maquette.torch as torch
from maquette.torch.utils import data
from maquette.torch.utils.data import workers


class Squares(data.Dataset):
    """Numbers, and who read them."""

    def __init__(self, size: int = 10) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[int, int]:
        info = data.get_worker_info()
        return index * index, -1 if info is None else info.id


class Failing(Squares):
    """Fails at one index, or ends the process."""

    def __getitem__(self, index: int) -> tuple[int, int]:
        if index == 5:
            if self.size == 7:
                os._exit(3)
            raise KeyError("no fifth")
        return super().__getitem__(index)


class Counting(data.IterableDataset):
    """The numbers below a bound that are this worker's."""

    def __iter__(self) -> Iterator[int]:
        info = data.get_worker_info()
        return iter(range(info.id, 7, info.num_workers) if info else range(7))


def test_workers_are_processes_and_batches_come_in_order() -> None:
    """Finding 54."""
    loader = data.DataLoader(Squares(), batch_size=3, num_workers=2)
    batches = list(loader)
    assert torch.cat([squares for squares, _ in batches]).tolist() == [i * i for i in range(10)]
    assert [set(ids.tolist()) for _, ids in batches] == [{0}, {1}, {0}, {1}]
    assert data.get_worker_info() is None


def test_workers_share_an_iterable_data_set_by_their_numbers() -> None:
    """Finding 54."""
    loader = data.DataLoader(Counting(), batch_size=2, num_workers=2)
    assert [b.tolist() for b in loader] == [[0, 2], [1, 3], [4, 6], [5]]


def test_workers_that_stay_begin_again() -> None:
    """Finding 54."""
    loader = data.DataLoader(Counting(), batch_size=None, num_workers=1, persistent_workers=True)
    first, second = list(loader), list(loader)
    assert first == second == list(range(7))
    assert loader._iterator is not None
    loader._iterator.close()


def test_programs_end_workers_that_stay_and_others_take_their_place() -> None:
    loader = data.DataLoader(Counting(), batch_size=None, num_workers=1, persistent_workers=True)
    assert loader._iterator is None
    for _ in range(2):
        assert list(loader) == list(range(7))
        assert loader._iterator is not None
        loader._iterator._shutdown_workers()


def test_what_a_worker_raises_is_raised_with_its_traceback() -> None:
    """Finding 54."""
    loader = data.DataLoader(Failing(), num_workers=1)
    with pytest.raises(KeyError, match=r"^Caught KeyError in DataLoader worker process 0\.\n") as e:
        list(loader)
    assert str(e.value).endswith("KeyError: 'no fifth'\n")


def test_a_worker_that_dies_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 54."""
    monkeypatch.setattr(workers, "MP_STATUS_CHECK_INTERVAL", 0.1)
    loader = data.DataLoader(Failing(7), num_workers=1)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(loader)


def test_workers_are_seeded_apart() -> None:
    """Finding 54."""
    torch.manual_seed(0)
    loader = data.DataLoader(Squares(4), num_workers=2, collate_fn=lambda _: torch.rand(1).item())
    assert len(set(loader)) == 4


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_workers": -1}, "non-negative"),
        ({"timeout": -1}, "non-negative"),
        ({"prefetch_factor": 2}, "num_workers > 0"),
        ({"persistent_workers": True}, "num_workers > 0"),
        ({"multiprocessing_context": "fork"}, "num_workers > 0"),
        ({"num_workers": 1, "multiprocessing_context": "spoon"}, "valid start method"),
    ],
)
def test_options_of_workers_are_checked(options: dict[str, object], text: str) -> None:
    """Finding 54."""
    with pytest.raises(ValueError, match=text):
        data.DataLoader(Squares(), **options)


def test_iterable_data_sets_are_chained() -> None:
    """Finding 54."""
    assert list(Counting() + Counting()) == [*range(7), *range(7)]


def test_what_a_loader_reads_is_not_changed_later() -> None:
    """Finding 54."""
    loader = data.DataLoader(Squares(), batch_size=2)
    assert loader._auto_collation
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        loader.batch_size = 3


def test_after_a_batch_that_fails_the_next_ones_come() -> None:
    batches = iter(data.DataLoader(Failing(), batch_size=2, num_workers=2))
    assert [next(batches)[0].tolist() for _ in range(2)] == [[0, 1], [4, 9]]
    with pytest.raises(KeyError, match="no fifth"):
        next(batches)
    assert [squares.tolist() for squares, _ in batches] == [[36, 49], [64, 81]]


def test_numpys_generator_is_seeded_as_in_pytorch() -> None:
    """Values of PyTorch's own test of this."""
    expected = [2884386318, 1088094898, 3523808998, 3860348662]
    assert workers._generate_state(13434589827475259383, 4) == expected


def test_more_workers_than_processors_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="excessive worker creation might get DataLoader running"):
        data.DataLoader(Squares(), num_workers=10_000)


class Understated(data.IterableDataset):
    """Says three, gives five."""

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[int]:
        return iter(range(5))


def test_more_samples_than_told_are_warned_of() -> None:
    loader = data.DataLoader(Understated(), batch_size=None)
    assert sum(loader) == 10  # nobody asked for the length
    assert len(loader) == 3
    batches = iter(loader)
    assert [next(batches) for _ in range(3)] == [0, 1, 2]
    with pytest.warns(UserWarning, match="reported to be 3 .* but 4 samples have been fetched"):
        next(batches)


def test_an_epoch_that_was_left_does_not_disturb_the_next() -> None:
    loader = data.DataLoader(Squares(8), num_workers=2, persistent_workers=True)
    assert next(iter(loader))[0].item() == 0
    assert [square.item() for square, _ in loader] == [n * n for n in range(8)]
    assert loader._iterator is not None
    loader._iterator.close()


def test_workers_begin_with_the_iteration() -> None:
    """As in PyTorch: an iteration draws its order from the global generator at once."""
    loader = data.DataLoader(Squares(), num_workers=1, shuffle=True)
    torch.manual_seed(7)
    first, second = iter(loader), iter(loader)
    orders = [[int(squares) for squares, _ in batches] for batches in (second, first)]
    torch.manual_seed(7)
    again = [[int(squares) for squares, _ in iter(loader)] for _ in range(2)]
    assert orders == again[::-1]


def test_the_next_batch_is_asked_for_when_one_comes() -> None:
    """As in PyTorch: a sampler that is read to its end draws once more, which seeds the next."""
    drawn: list[int] = []
    loader = data.DataLoader(Squares(), num_workers=1, sampler=map(_noted(drawn), range(10)))
    batches = iter(loader)
    assert drawn == [0, 1]
    next(batches)
    assert drawn == [0, 1, 2]


def _noted(drawn: list[int]) -> Any:
    return lambda i: drawn.append(i) or i


def test_a_sampler_that_fails_ends_the_workers() -> None:
    ended: list[object] = []
    close = workers.Workers.close
    loader = data.DataLoader(Squares(), num_workers=1, sampler=map(int, ["x"]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(workers.Workers, "close", lambda w: ended.append(w) or close(w))
        with pytest.raises(ValueError, match="invalid literal"):
            iter(loader)
    assert [p.is_alive() for p in ended[0].processes] == [False]


def test_a_worker_has_one_thread() -> None:
    loader = data.DataLoader(
        Squares(2), num_workers=1, collate_fn=lambda _: torch.get_num_threads()
    )
    assert list(loader) == [1, 1]
