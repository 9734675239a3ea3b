"""What CUDA's caching allocator does with a program's storages: blocks, segments, fragmentation.

The rules are those that PyTorch documents for ``torch.cuda`` memory (the notes "CUDA semantics",
section "Memory management", and the comments of its public allocator): sizes are rounded up to 512
bytes; requests up to 1 MiB are cut from segments of 2 MiB, those below 10 MiB from segments of 20
MiB, larger ones get a segment of their own, rounded up to 2 MiB; the smallest free block that is
large enough is taken, and split where what remains is worth keeping; neighbours that are free are
merged. A plan's events are replayed through this, so ``reserved`` holds the fragmentation that a
sum of bytes does not show. Snapshots that PyTorch recorded on GPUs are replayed in the tests: each
segment is taken by the same request, with the same bytes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

KIB, MIB = 1024, 1024 * 1024
ROUND = 512  # every block is a multiple of this
SMALL = 1 * MIB  # the largest request of the small pool
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB  # for requests below MIN_OWN
MIN_OWN = 10 * MIB  # from here on a request has a segment of its own
OWN_ROUND = 2 * MIB

Event = tuple[int, int, int]  # (operation, storage, bytes: > 0 made, < 0 released)


@dataclass(frozen=True)
class DeviceMemory:
    """What a device holds over a program, in bytes, each at its own peak.

    allocated: blocks in use, rounded; reserved: segments that the allocator took from the driver;
    at the end of the program `reserved_at_end` of them are still held. segments: how many.
    """

    allocated: int
    reserved: int
    reserved_at_end: int
    segments: int

    @property
    def fragmentation(self) -> float:
        """The share of the reserved bytes that no block uses at the best of times."""
        return 1 - self.allocated / self.reserved if self.reserved else 0.0


class _Block:
    __slots__ = ("after", "before", "free", "pool", "segment", "size", "start")

    def __init__(self, pool: _Pool, segment: int, start: int, size: int) -> None:
        self.pool, self.segment, self.start, self.size = pool, segment, start, size
        self.before: _Block | None = None
        self.after: _Block | None = None
        self.free = True

    def key(self) -> tuple[int, int, int]:
        return (self.size, self.segment, self.start)


class _Pool:
    """Free blocks of one pool, ordered by size and then by address."""

    def __init__(self, smallest_rest: int) -> None:
        self.smallest_rest = smallest_rest  # what must remain for a split to be worth it
        self.keys: list[tuple[int, int, int]] = []
        self.blocks: dict[tuple[int, int, int], _Block] = {}

    def add(self, block: _Block) -> None:
        block.free = True
        insort(self.keys, block.key())
        self.blocks[block.key()] = block

    def remove(self, block: _Block) -> None:
        block.free = False
        del self.keys[bisect_left(self.keys, block.key())]
        del self.blocks[block.key()]

    def best(self, size: int) -> _Block | None:
        at = bisect_left(self.keys, (size, 0, 0))
        return self.blocks[self.keys[at]] if at < len(self.keys) else None


class CachingAllocator:
    """One device's allocator, as far as sizes go; no memory is touched.

    capacity: bytes that the driver gives, None for as many as are asked. When they are used up,
    segments that are wholly free are given back first, as PyTorch does before it fails.
    expandable: ``expandable_segments:True``, one segment a pool that grows and shrinks by pages.
    """

    def __init__(self, capacity: int | None = None, *, expandable: bool = False) -> None:
        self.capacity, self.expandable = capacity, expandable
        self.small = _Pool(ROUND)
        self.large = _Pool(ROUND if expandable else SMALL + 1)
        self.allocated = self.reserved = 0
        self.peak_allocated = self.peak_reserved = 0
        self.segments = 0
        self._numbers = 0
        self._ends: dict[int, _Block] = {}  # expandable: the last block of each pool
        self._segment_sizes: dict[int, int] = {}

    @classmethod
    def holding(
        cls, segments: Iterable[tuple[str, Sequence[int]]]
    ) -> tuple[CachingAllocator, list[_Block]]:
        """An allocator in the middle of a run, as a snapshot shows it, and its blocks in use.

        segments: of each its pool, "small" or "large", and its blocks from the first on: their
        bytes, negative where they are free. Blocks are given in the same order.
        """
        made = cls()
        used: list[_Block] = []
        for kind, sizes in segments:
            pool = made.small if kind == "small" else made.large
            made._numbers += 1
            made.segments += 1
            made._segment_sizes[made._numbers] = sum(map(abs, sizes))
            made.reserved += made._segment_sizes[made._numbers]
            start, before = 0, None
            for size in sizes:
                block = _Block(pool, made._numbers, start, abs(size))
                block.before, block.free = before, size < 0
                if before is not None:
                    before.after = block
                if block.free:
                    pool.add(block)
                else:
                    made.allocated += block.size
                    used.append(block)
                start, before = start + block.size, block
        made.peak_allocated, made.peak_reserved = made.allocated, made.reserved
        return made, used

    def malloc(self, nbytes: int) -> _Block | None:
        """A block for ``nbytes``; None for none. MemoryError where the device has no more."""
        if nbytes == 0:
            return None
        size = max(ROUND, -(-nbytes // ROUND) * ROUND)
        pool = self.small if size <= SMALL else self.large
        block = pool.best(size)
        if block is None or (self.expandable and block.size < size):
            block = self._grow(pool, size)
        pool.remove(block)
        self._split(pool, block, size)
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block

    def free(self, block: _Block | None) -> None:
        """The block's holder is gone: it waits for the next request that it fits."""
        if block is None:
            return
        self.allocated -= block.size
        for other, first in ((block.before, True), (block.after, False)):
            if other is not None and other.free:
                block.pool.remove(other)
                block = _joined(other, block) if first else _joined(block, other)
        if self._ends.get(id(block.pool)) is not None and block.after is None:
            self._ends[id(block.pool)] = block
        block.pool.add(block)

    def empty_cache(self) -> int:
        """Give segments that are wholly free back to the driver; the bytes."""
        given = 0
        for pool in (self.small, self.large):
            for block in list(pool.blocks.values()):
                if block.before is None and block.after is None and not self.expandable:
                    pool.remove(block)
                    given += self._segment_sizes.pop(block.segment)
                    self.segments -= 1
        self.reserved -= given
        return given

    def _grow(self, pool: _Pool, size: int) -> _Block:
        wanted = _segment_size(size)
        end = self._ends.get(id(pool)) if self.expandable else None
        if self.expandable:
            page = SMALL_SEGMENT if pool is self.small else LARGE_SEGMENT
            missing = size - (end.size if end is not None and end.free else 0)
            wanted = -(-missing // page) * page
        if self.capacity is not None and self.reserved + wanted > self.capacity:
            self.empty_cache()
            if self.reserved + wanted > self.capacity:
                raise MemoryError(
                    f"{wanted} more bytes are wanted, {self.reserved} of {self.capacity} are "
                    f"reserved and none of them can be given back"
                )
        self.reserved += wanted
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        if end is not None:
            return self._extended(pool, end, wanted)
        self._numbers += 1
        self.segments += 1
        block = _Block(pool, self._numbers, 0, wanted)
        self._segment_sizes[block.segment] = wanted
        pool.add(block)
        if self.expandable:
            self._ends[id(pool)] = block
        return block

    def _extended(self, pool: _Pool, end: _Block, by: int) -> _Block:
        if end.free:
            pool.remove(end)
            end.size += by
            pool.add(end)
            return end
        new = _Block(pool, end.segment, end.start + end.size, by)
        new.before, end.after = end, new
        pool.add(new)
        self._ends[id(pool)] = new
        return new

    def _split(self, pool: _Pool, block: _Block, size: int) -> None:
        if block.size - size < pool.smallest_rest:
            return
        rest = _Block(pool, block.segment, block.start + size, block.size - size)
        rest.before, rest.after = block, block.after
        if block.after is not None:
            block.after.before = rest
        elif self._ends.get(id(pool)) is block:
            self._ends[id(pool)] = rest
        block.after, block.size = rest, size
        pool.add(rest)


def _segment_size(size: int) -> int:
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < MIN_OWN:
        return LARGE_SEGMENT
    return -(-size // OWN_ROUND) * OWN_ROUND


def _joined(first: _Block, second: _Block) -> _Block:
    """Two neighbours as one; ``first`` stays."""
    first.size += second.size
    first.after = second.after
    if second.after is not None:
        second.after.before = first
    return first


def replay(
    events: Iterable[Event], *, capacity: int | None = None, expandable: bool = False
) -> DeviceMemory:
    """What a device holds over a program's events, in order.

    Raises MemoryError where ``capacity`` is not enough.
    """
    allocator = CachingAllocator(capacity, expandable=expandable)
    held: dict[int, _Block | None] = {}
    for _, storage, nbytes in events:
        if nbytes >= 0:
            held[storage] = allocator.malloc(nbytes)
        else:
            allocator.free(held.pop(storage))
    return DeviceMemory(
        allocator.peak_allocated,
        allocator.peak_reserved,
        allocator.reserved,
        allocator.segments,
    )
