"""`torch.utils.data`."""

from collections import OrderedDict, UserList, namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import maquette.torch as torch
from maquette.torch.utils import data
from maquette.torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    collate,
    default_collate,
)
from maquette.torch.utils.data.dataloader import _DatasetKind

Pair = namedtuple("Pair", ["x", "y"])


class Squares(Dataset):
    """i squared, for i below 5."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> tuple[int, dict[str, float]]:
        if index >= 5:
            raise IndexError(index)
        return index * index, {"half": index / 2}


class Stream(IterableDataset):
    """0, 1, 2, 3, 4."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(5))


def test_a_loader_gives_batches_in_order() -> None:
    batches = list(DataLoader(Squares(), batch_size=2))
    assert [squares.tolist() for squares, _ in batches] == [[0, 1], [4, 9], [16]]
    assert batches[0][1]["half"].tolist() == [0.0, 0.5]


def test_the_last_short_batch_may_be_dropped() -> None:
    loader = DataLoader(Squares(), batch_size=2, drop_last=True)
    assert len(list(loader)) == len(loader) == 2


def test_tensors_are_cut_and_stacked() -> None:
    data = TensorDataset(torch.ones(4, 3), torch.zeros(4))
    first = next(iter(DataLoader(data, batch_size=2, num_workers=2, pin_memory=True)))
    assert [t.shape for t in first] == [(2, 3), (2,)]


def test_streams_are_batched_as_they_come() -> None:
    batches = [b.tolist() for b in DataLoader(Stream(), batch_size=2)]
    assert batches == [[0, 1], [2, 3], [4]]
    with pytest.raises(ValueError, match="shuffle"):
        DataLoader(Stream(), shuffle=True)


def test_without_a_batch_size_samples_come_alone() -> None:
    assert [square for square, _ in DataLoader(Squares(), batch_size=None)] == [0, 1, 4, 9, 16]


def test_a_batch_sampler_decides_the_batches() -> None:
    loader = DataLoader(Squares(), batch_sampler=[[4, 0], [1]], collate_fn=list)
    assert [[square for square, _ in batch] for batch in loader] == [[16, 0], [1]]


def test_options_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="mutually exclusive"):
        DataLoader(Squares(), sampler=[1], shuffle=True)
    with pytest.raises(ValueError, match="positive integer"):
        BatchSampler([1], 0, False)


def test_collating_keeps_containers() -> None:
    made = default_collate([Pair(1, (2.0, "a")), Pair(3, (4.0, "b"))])
    assert type(made) is Pair
    assert made.x.tolist() == [1, 3]
    assert made.y[1] == ("a", "b")
    assert default_collate([np.ones(2), np.ones(2)]).shape == (2, 2)


def test_what_cannot_be_collated_is_named() -> None:
    with pytest.raises(TypeError, match="object"):
        default_collate([object()])
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1], [1, 2]])


def test_data_sets_are_combined() -> None:
    both = ConcatDataset([Squares(), Squares()])
    assert len(both) == 10
    assert both[6][0] == both[-4][0] == 1
    assert StackDataset(Squares(), Squares())[2][1][0] == 4
    assert Subset(Squares(), [3])[0][0] == 9
    assert len(Squares() + Squares()) == 10


def test_tensors_of_one_data_set_are_equally_long() -> None:
    with pytest.raises(AssertionError, match="Size mismatch"):
        TensorDataset(torch.ones(2), torch.ones(3))


def test_a_seed_gives_pytorchs_order():
    torch.manual_seed(0)
    assert [list(b) for b in data.DataLoader(range(12), batch_size=4, shuffle=True)] == [
        [6, 11, 9, 8],
        [2, 1, 4, 5],
        [3, 10, 7, 0],
    ]
    assert torch.rand(1).item() == pytest.approx(0.3074, abs=1e-4)
    torch.manual_seed(0)
    assert list(data.RandomSampler(range(12), num_samples=17))[10:] == [3, 8, 7, 0, 11, 5, 10]
    torch.manual_seed(0)
    drawn = list(data.RandomSampler(range(12), replacement=True, num_samples=40))
    assert drawn[:4] + drawn[32:] == [6, 2, 8, 9, 8, 8, 6, 10, 8, 7, 9, 1]


def test_passes_over_one_sampler_do_not_disturb_each_other():
    sampler = data.RandomSampler(range(6))
    torch.manual_seed(0)
    first = iter(sampler)
    head = next(first)
    torch.manual_seed(0)
    second = iter(sampler)
    assert [next(second) for _ in range(6)] == [head, *first]


def test_replacement_is_a_bool():
    with pytest.raises(TypeError, match="replacement should be a boolean"):
        data.RandomSampler(range(3), replacement=0)


def test_data_sets_side_by_side_are_asked_for_several_samples_at_once():
    class Many(data.Dataset):
        def __len__(self):
            return 4

        def __getitems__(self, indices):
            return [10 * i for i in indices]

    sets = data.StackDataset(Many(), list("abcd"))
    assert sets.__getitems__([0, 2]) == [(0, "a"), (20, "c")]


def test_a_subset_of_a_subset_is_sliced():
    whole = data.TensorDataset(torch.arange(5))
    inner = data.Subset(data.Subset(whole, [4, 3, 2, 1]), [0, 2, 3])
    assert inner[1:][0].tolist() == [2, 1]


def test_a_loader_is_annotated_with_what_it_gives():
    assert data.DataLoader[int] is not None


def test_samples_are_collated_by_a_table_of_types() -> None:
    table = {**collate.default_collate_fn_map, complex: lambda batch, *, collate_fn_map: len(batch)}
    made = collate.collate([{"a": 1j, "b": 2}, {"a": 2j, "b": 3}], collate_fn_map=table)
    assert made["a"] == 2
    assert made["b"].tolist() == [2, 3]


def test_containers_of_their_own_class_stay_of_it() -> None:
    made = default_collate([OrderedDict(b=1, a=2.0), OrderedDict(b=3, a=4.0)])
    assert type(made) is OrderedDict
    assert list(made) == ["b", "a"]
    assert type(default_collate([UserList([1]), UserList([2])])) is UserList
    assert type(default_collate([(1, 2), (3, 4)])) is list


def test_arrays_of_texts_are_not_collated() -> None:
    with pytest.raises(TypeError, match="found <U1"):
        default_collate([np.array(["a"]), np.array(["b"])])


def test_a_loader_says_how_its_samples_are_asked_for() -> None:
    assert DataLoader(Squares())._dataset_kind == _DatasetKind.Map


def test_T55_nothing_to_draw_from_is_refused_when_it_is_given() -> None:
    with pytest.raises(ValueError, match="num_samples=0"):
        data.DataLoader([], shuffle=True)


def test_batches_are_pinned_in_containers_like_theirs():
    pin_memory = data._utils.pin_memory.pin_memory

    class Pinned:
        def pin_memory(self):
            return "pinned"

    class Batch(dict):
        pass

    found = pin_memory(Batch(a=(1, Pinned()), b=["text", torch.ones(2)]))
    assert (type(found), found["a"], found["b"][0]) == (Batch, (1, "pinned"), "text")
    assert found["b"][1].is_pinned()


def test_fetchers_read_as_a_loader_does():
    fetch = data._utils.fetch
    samples = fetch._MapDatasetFetcher([4, 5, 6], True, sum, False)
    stream = fetch._IterableDatasetFetcher(range(3), True, list, True)
    assert (samples.fetch([0, 2]), stream.fetch([None] * 2)) == (10, [0, 1])
    with pytest.raises(StopIteration):
        stream.fetch([None] * 2)


def test_samples_alone_are_converted_as_batches_are() -> None:
    """A tuple becomes a list, NumPy's numbers tensors; texts stay as they are."""
    convert = torch.utils.data.default_convert
    made = convert((1, np.float32(2), [np.ones(2)], {"a": np.array(["x"])}, "text"))
    assert type(made) is list
    assert made[1].dtype is torch.float32
    assert made[2][0].tolist() == [1.0, 1.0]
    assert made[3]["a"].tolist() == ["x"]
    assert made[4] == "text"
    assert type(convert(Pair(1, (2,)))) is Pair
    assert type(convert(OrderedDict(a=1))) is OrderedDict


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: torch.ones(2).to_sparse(), "sparse"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "nested"),
    ],
)
def test_layouts_that_are_not_stacked_are_refused(made: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=f"holds {text} tensors"):
        torch.utils.data.default_collate([made(), made()])


@pytest.mark.parametrize(
    "make",
    [
        lambda data: data.WeightedRandomSampler([[1.0]], 1),
        lambda data: data.WeightedRandomSampler([1.0], 1, replacement=1),
        lambda data: data.WeightedRandomSampler([1.0], True),
        lambda data: data.BatchSampler(range(3), 2, 1),
        lambda data: data.ConcatDataset([[1, 2], [3]])[-4],
    ],
)
def test_samplers_check_what_they_are_given(make: Any) -> None:
    with pytest.raises(ValueError):
        make(torch.utils.data)
