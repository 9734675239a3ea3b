"""Pieces of tensors, as safetensors files have them, and the tensors that they are of."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.core.device import cpu
from maquette.core.meta import TensorMeta
from maquette.tensor.copying import rebuild_storage, rebuild_tensor
from maquette.tensor.saving import FileError, Row, errors_of, read_bytes, read_table
from maquette.tensor.tensor import Tensor
from maquette.torch.distributed.checkpoint._hf_utils import CUSTOM_METADATA_KEY, SAVED_OFFSETS_KEY

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Piece:
    """A part of a tensor: the file it is in, from which byte on, and its place in the whole."""

    file: Path
    begin: int
    row: Row
    offsets: tuple[int, ...]

    @property
    def place(self) -> tuple[slice, ...]:
        """What it is of the whole, in each dimension."""
        sizes = zip(self.offsets, self.row.shape, strict=True)
        return tuple([slice(offset, offset + size) for offset, size in sizes])

    def read(self) -> Array:
        """Its elements, each as so many bytes."""
        return self._bytes().view(f"V{self.row.kind.itemsize}").reshape(self.row.shape)

    def tensor(self) -> Tensor:
        """The piece, as a tensor of its own."""
        values = self._bytes()
        storage = rebuild_storage(values.nbytes, cpu, values, False)
        return rebuild_tensor(Tensor, storage, TensorMeta.of(self.row.kind, self.row.shape), False)

    def _bytes(self) -> npt.NDArray[np.uint8]:
        with open(self.file, "rb") as file, errors_of(file):
            file.seek(self.begin)
            return read_bytes(file, self.row.end - self.row.begin)


@dataclass(frozen=True)
class Whole:
    """A tensor to write, of all its pieces."""

    name: str
    meta: TensorMeta
    pieces: list[Piece]

    @property
    def nbytes(self) -> int:
        """The bytes of its values."""
        return self.meta.numel * self.meta.itemsize

    def values(self) -> Array:
        """Its elements, each as so many bytes: the pieces put together."""
        found: Array = np.zeros(self.meta.shape, f"V{self.meta.itemsize}")
        for piece in self.pieces:
            found[piece.place] = piece.read()
        return found


def pieces_in(path: Path, *, plain: bool = False) -> Iterator[tuple[str, Piece]]:
    """The pieces in a file, each with the name of its tensor.

    plain: whether a file that says nothing of pieces has whole tensors; if not, it is refused.
    """
    with open(path, "rb") as file, errors_of(file):
        rows, strings = read_table(file)
        if CUSTOM_METADATA_KEY not in strings and not plain:
            raise FileError(
                "it does not say which parts of tensors it has. (No DCP custom metadata found) "
                "Only what several processes saved together can be consolidated."
            )
        places = json.loads(strings.get(CUSTOM_METADATA_KEY, "null"))
        for row in rows:
            offsets = (0,) * len(row.shape)
            if places is not None:
                offsets = tuple(places[row.name][SAVED_OFFSETS_KEY])
            if len(offsets) != len(row.shape) or any(offset < 0 for offset in offsets):
                raise FileError(f"'{row.name}' of {[*row.shape]} cannot be at {[*offsets]}")
            yield row.name, Piece(path, file.tell() + row.begin, row, offsets)


def meta_of(name: str, pieces: list[Piece]) -> TensorMeta:
    """The tensor that reaches as far as these pieces, which must be of one kind."""
    kinds = {(piece.row.kind, len(piece.row.shape)) for piece in pieces}
    if len(kinds) > 1:
        told = sorted({f"{kind} of {dims} dimensions" for kind, dims in kinds})
        raise ValueError(f"the pieces of '{name}' do not fit together: {', '.join(told)}")
    ends = [[part.stop for part in piece.place] for piece in pieces]
    return TensorMeta.of(pieces[0].row.kind, tuple([max(along) for along in zip(*ends)]))


def whole(name: str, pieces: list[Piece]) -> Whole:
    """The tensor of these pieces, which must be of one kind and leave nothing out."""
    meta = meta_of(name, pieces)
    apart = {(piece.offsets, piece.row.shape) for piece in pieces}  # of equals, one counts
    there = sum(math.prod(shape) for _, shape in apart)
    if there < meta.numel:
        files = sorted({piece.file.name for piece in pieces})
        raise ValueError(
            f"pieces of '{name}' are missing: {', '.join(files)} have {there} elements of "
            f"{meta.numel}. Put the files of all processes into the folder."
        )
    return Whole(name, meta, pieces)
