"""Batches of sequences of different lengths: padded to one length, or packed without padding.

A packed batch lists the first steps of all sequences, the longest sequence first, then the second
steps of those that have one, and so on; `batch_sizes` says how many take part in each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from maquette.api import functions as mq
from maquette.core import dtype as dtypes
from maquette.core.device import device
from maquette.core.layout import contiguous_format
from maquette.tensor import Tensor

T = TypeVar("T", bound="PackedSequence")
Lengths = Tensor | Sequence[int]
Size = int  # where a method has the name


class PackedSequence_(NamedTuple):  # PyTorch's name
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """A packed batch: data (sum of lengths, *), batch_sizes (longest length), on the cpu.

    sorted_indices: the batch's order before it was sorted by length, None if it was not;
    unsorted_indices: back again. Made by `pack_padded_sequence` and `pack_sequence`.
    """

    # The batch sizes as numbers, where they are known: they cannot be read from a fake tensor.
    _sizes: list[Size] | None = None

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            raise TypeError("PackedSequence takes data and batch_sizes; use pack_sequence")
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                f"batch_sizes should always be on CPU; got one on {batch_sizes.device}"
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """`Tensor.to` of the data; the indices follow to its device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [
            None if index is None else index.to(data.device)
            for index in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(data, self.batch_sizes, *indices)._knowing(self._sizes)

    def sizes(self) -> list[Size]:
        """How many sequences take part in each step, as numbers."""
        sizes: list[Size] = self.batch_sizes.tolist() if self._sizes is None else self._sizes
        return sizes

    def _knowing(self: T, sizes: list[Size] | None) -> T:
        self._sizes = sizes
        return self

    def cuda(self: T, index: device | Size | None = None) -> T:
        """On a cuda device, the current one by default."""
        return self.to(device("cuda", index) if isinstance(index, Size) else index or "cuda")

    def cpu(self: T) -> T:
        """On the cpu."""
        return self.to("cpu")

    def double(self: T) -> T:
        """As float64."""
        return self.to(dtypes.float64)

    def float(self: T) -> T:
        """As float32."""
        return self.to(dtypes.float32)

    def half(self: T) -> T:
        """As float16."""
        return self.to(dtypes.float16)

    def long(self: T) -> T:
        """As int64."""
        return self.to(dtypes.int64)

    def int(self: T) -> T:
        """As int32."""
        return self.to(dtypes.int32)

    def short(self: T) -> T:
        """As int16."""
        return self.to(dtypes.int16)

    def char(self: T) -> T:
        """As int8."""
        return self.to(dtypes.int8)

    def byte(self: T) -> T:
        """As uint8."""
        return self.to(dtypes.uint8)

    def pin_memory(self: T) -> T:
        """With all tensors in pinned memory."""
        indices = [
            None if index is None else index.pin_memory()
            for index in (self.sorted_indices, self.unsorted_indices)
        ]
        packed = type(self)(self.data.pin_memory(), self.batch_sizes, *indices)
        return packed._knowing(self._sizes)

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a cuda device."""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes this one; None of None."""
    if permutation is None:
        return None
    places = mq.arange(0, permutation.numel(), device=permutation.device)
    return mq.empty_like(permutation).scatter_(0, permutation, places)


def pack_padded_sequence(
    input: Tensor, lengths: Lengths, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch (time, batch, *) or, batch_first, (batch, time, *).

    lengths: of each sequence, from 1 to time, on the cpu. enforce_sorted: they must decrease.
    Otherwise the batch is sorted by them, and layers give results in the order before.

    Raises RuntimeError for lengths that do not fit.
    """
    if isinstance(lengths, Tensor) and lengths.device.type != "cpu":
        raise RuntimeError(f"'lengths' should be on the CPU; got {lengths.device}")
    if not input.numel():
        raise RuntimeError(f"Cannot pack empty tensors; got one of shape {tuple(input.shape)}.")
    if isinstance(lengths, Tensor) and lengths.dim() != 1:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D"
        )
    sizes = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    sorted_indices = None
    if not enforce_sorted:
        order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
        sizes = [sizes[i] for i in order]
        sorted_indices = mq.tensor(order, dtype=dtypes.int64, device=input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    steps = input.transpose(0, 1) if batch_first else input
    _check_lengths(sizes, steps)
    batch_sizes = [sum(n > step for n in sizes) for step in range(sizes[0])]
    data = mq.cat([steps[step, :size] for step, size in enumerate(batch_sizes)])
    packed = PackedSequence(data, mq.tensor(batch_sizes, device="cpu"), sorted_indices)
    return packed._knowing(batch_sizes)


def _check_lengths(sizes: list[int], steps: Tensor) -> None:
    time, batch = steps.shape[:2]
    if len(sizes) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} "
            f"(batch_size={batch})"
        )
    if any(later > earlier for earlier, later in pairwise(sizes)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True; got "
            f"{sizes}. You can pass `enforce_sorted=False` to have the batch sorted."
        )
    if sizes[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if sizes[0] > time:
        raise RuntimeError(f"the longest of `lengths` is {sizes[0]}, but there are {time} steps")


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded batch, in the order before packing, and its lengths; undoes packing.

    total_length: pad to this time, if it is not the longest length. ValueError if it is shorter.
    """
    batch_sizes = sequence.sizes()
    time, batch = len(batch_sizes), batch_sizes[0]
    if total_length is not None and total_length < time:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={total_length} and max sequence length being {time}"
        )
    data = sequence.data
    shape = (batch, *data.shape[1:])
    steps = []
    for chunk, size in zip(data.split(batch_sizes), batch_sizes):
        if size < batch:
            rest = data.new_full((batch - size, *shape[1:]), padding_value)
            chunk = mq.cat([chunk, rest])
        steps.append(chunk)
    steps += [data.new_full(shape, padding_value)] * ((total_length or time) - time)
    padded = mq.stack(steps)
    if batch_first:
        padded = padded.transpose(0, 1)
    counts = [sum(size > i for size in batch_sizes) for i in range(batch)]
    lengths = mq.tensor(counts, device="cpu")
    back = sequence.unsorted_indices
    if back is not None:
        padded = padded.index_select(0 if batch_first else 1, back)
        lengths = lengths[back.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences (length, *) as (longest, batch, *), filled up with `padding_value`.

    batch_first: (batch, longest, *). padding_side: "right", or "left" to end together.
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    members = list(sequences)
    if not members:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    for i, member in enumerate(members):
        if not isinstance(member, Tensor):
            kind = type(member).__name__
            raise TypeError(f"pad_sequence: expected Tensor as element {i}, but got {kind}")
    time = max(member.size(0) for member in members)
    first, count = members[0], len(members)
    outer = (count, time) if batch_first else (time, count)
    padded = mq.full(
        (*outer, *first.shape[1:]), padding_value, dtype=first.dtype, device=first.device
    )
    for i, member in enumerate(members):
        length = member.size(0)
        start = time - length if padding_side == "left" else 0
        if batch_first:
            place = padded.select(0, i).narrow(0, start, length)
        else:
            place = padded.narrow(0, start, length).select(1, i)
        place.copy_(member)
    return padded


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences of a padded batch, each of its length, in memory of its own.

    Raises ValueError if there is not one length for each. Unlike PyTorch's, which transposes the
    batch in place, it leaves ``padded_sequences`` as they are.
    """
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    members = zip(batch.unbind(0), lengths.tolist(), strict=True)
    return [member[: max(n, 0)].clone(memory_format=contiguous_format) for member, n in members]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (length, *); see `pack_padded_sequence`."""
    lengths = [member.size(0) for member in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed batch, each of its length; undoes `pack_sequence`."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
