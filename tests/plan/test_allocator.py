"""CUDA's caching allocator as a model: each rule that PyTorch documents, then their sum."""

from __future__ import annotations

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.plan.allocator import KIB, MIB, CachingAllocator, replay


@pytest.mark.parametrize(
    ("asked", "allocated", "reserved"),
    [
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (1 * MIB, 1 * MIB, 2 * MIB),
        (1 * MIB + 1, 1 * MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),  # 1 MiB is not worth a split
        (13 * MIB + 1, 14 * MIB, 14 * MIB),
    ],
)
def test_a_request_takes_a_segment_of_its_class(asked: int, allocated: int, reserved: int) -> None:
    made = replay([(0, 1, asked)])
    assert (made.allocated, made.reserved, made.segments) == (allocated, reserved, 1)


def test_small_requests_share_a_segment() -> None:
    made = replay([(i, i, 400 * KIB) for i in range(6)])
    assert made.segments == 2  # five of 400 KiB in 2 MiB, and one more


def test_the_smallest_block_that_is_large_enough_is_taken() -> None:
    events = [(0, 1, 30 * MIB), (1, 2, 50 * MIB), (2, 2, -50 * MIB), (3, 1, -30 * MIB)]
    made = replay([*events, (4, 3, 30 * MIB), (5, 4, 50 * MIB)])
    assert (made.reserved, made.segments) == (80 * MIB, 2)


def test_a_block_is_split_where_the_rest_is_worth_keeping() -> None:
    grown = [(0, 1, 40 * MIB), (1, 1, -40 * MIB)]
    assert replay([*grown, (2, 2, 20 * MIB), (3, 3, 20 * MIB)]).reserved == 40 * MIB
    # What would remain is 1 MiB: the block is given whole.
    assert replay([*grown, (2, 2, 39 * MIB)]).allocated == 40 * MIB


def test_free_neighbours_are_one_block_again() -> None:
    cut = [(0, 1, 40 * MIB), (1, 1, -40 * MIB), (2, 2, 20 * MIB), (3, 3, 20 * MIB)]
    made = replay([*cut, (4, 2, -20 * MIB), (5, 3, -20 * MIB), (6, 4, 40 * MIB)])
    assert made.reserved == 40 * MIB


def test_small_and_large_requests_do_not_mix() -> None:
    made = replay([(0, 1, 4 * MIB), (1, 1, -4 * MIB), (2, 2, 100 * KIB)])
    assert made.reserved == 22 * MIB


def test_free_segments_are_given_back_before_memory_is_out() -> None:
    events = [(0, 1, 60 * MIB), (1, 1, -60 * MIB), (2, 2, 80 * MIB)]
    assert replay(events, capacity=100 * MIB).reserved_at_end == 80 * MIB
    with pytest.raises(MemoryError, match="are reserved and none of them can be given back"):
        replay(events, capacity=70 * MIB)


def test_expandable_segments_grow_and_do_not_fragment() -> None:
    sizes = [30, 50, 70, 90]
    events = [e for i, n in enumerate(sizes) for e in ((i, i, n * MIB), (i, i, -n * MIB))]
    fixed, grown = replay(events), replay(events, expandable=True)
    assert (fixed.reserved, grown.reserved) == (240 * MIB, 100 * MIB)
    assert grown.segments == 1


@given(st.lists(st.tuples(st.integers(1, 40 * MIB), st.integers(0, 9)), max_size=40), st.booleans())
def test_any_program_keeps_the_allocator_whole(
    requests: list[tuple[int, int]], expandable: bool
) -> None:
    """Blocks tile their segments, sums agree, and all is free when all is released."""
    allocator = CachingAllocator(expandable=expandable)
    held = []
    for size, gone in requests:
        held.append(allocator.malloc(size))
        if gone < 5 and held:
            allocator.free(held.pop(gone % len(held)))
    assert allocator.allocated == sum(b.size for b in held if b is not None)
    for block in held:
        allocator.free(block)
    free = [b for p in (allocator.small, allocator.large) for b in p.blocks.values()]
    assert sum(b.size for b in free) == allocator.reserved
    assert len(free) == allocator.segments


RECORDED = pathlib.Path(__file__).parent / "recorded"


@pytest.mark.parametrize("name", ["whole_run", "forward", "bfloat16"])
def test_a_snapshot_recorded_on_a_gpu_takes_the_same_segments(name: str) -> None:
    """The numbers of public snapshots: sizes asked for, and which request took which segment.

    events: bytes asked for, or -1 - n where the n-th block, those of the start among them, is let
    go. A run is recorded from its start, or from a state whose segments are given.
    """
    recorded = json.loads((RECORDED / f"allocator_{name}.json").read_text("utf-8"))
    allocator, blocks = CachingAllocator.holding(recorded["segments"])
    grown = []
    requests = 0
    for event in recorded["events"]:
        before = allocator.reserved
        if event < 0:
            allocator.free(blocks[-1 - event])
            continue
        block = allocator.malloc(event)
        assert block is not None
        blocks.append(block)
        if allocator.reserved != before:
            grown.append([requests, allocator.reserved - before])
        requests += 1
    assert grown == recorded["grown"]
    assert allocator.reserved == recorded["reserved"]
    assert allocator.allocated == recorded["allocated"]
