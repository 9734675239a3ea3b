"""`torch.distributed.checkpoint._consolidate_hf_safetensors`: tensors in pieces are made whole.

A training of several processes leaves safetensors files in which each has its pieces of tensors,
with the offsets of each piece under ``DCP_SHARDING_INFO``. Here they become files as Hugging Face's
libraries read them, with ``model.safetensors.index.json``. One tensor is in memory at a time.

Where PyTorch writes what nobody saved (zeros for scalars and for missing pieces, a header without
a dtype for names that no file has) this is right, or refuses; tensors of integers are taken, too.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.core.meta import TensorMeta
from maquette.tensor.saving import (
    FileError,
    Row,
    errors_of,
    header_of,
    read_bytes,
    read_table,
    write_header,
)

_INDEX = "model.safetensors.index.json"
_PLACES = "DCP_SHARDING_INFO"
Folder = str | os.PathLike[str]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Piece:
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
        with open(self.file, "rb") as file, errors_of(file):
            file.seek(self.begin)
            values = read_bytes(file, self.row.end - self.row.begin)
        return values.view(f"V{self.row.kind.itemsize}").reshape(self.row.shape)


@dataclass(frozen=True)
class _Whole:
    """A tensor to write, of all its pieces."""

    name: str
    meta: TensorMeta
    pieces: list[_Piece]

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


def _pieces_in(path: Path) -> Iterator[tuple[str, _Piece]]:
    """The pieces in a file, each with the name of its tensor."""
    with open(path, "rb") as file, errors_of(file):
        rows, strings = read_table(file)
        if _PLACES not in strings:
            raise FileError(
                "it does not say which parts of tensors it has. (No DCP custom metadata found) "
                "Only what several processes saved together can be consolidated."
            )
        places = json.loads(strings[_PLACES])
        for row in rows:
            offsets = tuple(places[row.name]["saved_offsets"])
            if len(offsets) != len(row.shape) or any(offset < 0 for offset in offsets):
                raise FileError(f"'{row.name}' of {[*row.shape]} cannot be at {[*offsets]}")
            yield row.name, _Piece(path, file.tell() + row.begin, row, offsets)


def _whole(name: str, pieces: list[_Piece]) -> _Whole:
    """The tensor of these pieces, which must be of one kind and leave nothing out."""
    kinds = {(piece.row.kind, len(piece.row.shape)) for piece in pieces}
    if len(kinds) > 1:
        told = sorted({f"{kind} of {dims} dimensions" for kind, dims in kinds})
        raise ValueError(f"the pieces of '{name}' do not fit together: {', '.join(told)}")
    ends = [[part.stop for part in piece.place] for piece in pieces]
    meta = TensorMeta.of(pieces[0].row.kind, tuple([max(along) for along in zip(*ends)]))
    apart = {(piece.offsets, piece.row.shape) for piece in pieces}  # of equals, one counts
    there = sum(math.prod(shape) for _, shape in apart)
    if there < meta.numel:
        files = sorted({piece.file.name for piece in pieces})
        raise ValueError(
            f"pieces of '{name}' are missing: {', '.join(files)} have {there} elements of "
            f"{meta.numel}. Put the files of all processes into the folder."
        )
    return _Whole(name, meta, pieces)


def _write(folder: Path, name: str, tensors: list[_Whole]) -> None:
    """Write a file, which gets its name when it is whole."""
    # Wide elements first, so that each begins where its dtype may.
    ordered = sorted(tensors, key=lambda t: -t.meta.itemsize)
    names, metas = [t.name for t in tensors], [(t.name, t.meta) for t in ordered]
    unfinished = folder / f"{name}.tmp"
    with open(unfinished, "wb") as file:
        write_header(file, header_of(names, metas, {"format": "pt"}))
        for tensor in ordered:
            file.write(tensor.values().tobytes())
    os.replace(unfinished, folder / name)


def _write_index(folder: Path, files: Mapping[str, list[_Whole]]) -> None:
    """Write which tensor is in which file."""
    nbytes = sum(t.nbytes for tensors in files.values() for t in tensors)
    places = {t.name: name for name, tensors in files.items() for t in tensors}
    index = {"metadata": {"total_size": nbytes}, "weight_map": places}
    (folder / _INDEX).write_text(json.dumps(index, indent=2))


def consolidate_safetensors_files(
    input_dir: Folder,
    output_dir: Folder,
    fqn_to_index_mapping: Mapping[str, int],
    num_threads: int = 1,
) -> None:
    """Put the pieces of tensors in a folder's safetensors files together, in files of another.

    fqn_to_index_mapping: the tensors to write, and the number of the file of each, from 1 on. The
    files are ``model-<number>-of-<largest number>.safetensors``, with five digits each.
    num_threads: how many files are written at a time.

    Raises ValueError where a tensor or a piece is missing, and where a file does not say which
    parts of tensors it has.
    """
    found: dict[str, list[_Piece]] = {}
    for path in sorted(Path(input_dir).glob("*.safetensors")):
        for name, piece in _pieces_in(path):
            found.setdefault(name, []).append(piece)
    absent = [name for name in fqn_to_index_mapping if name not in found]
    if absent:
        raise ValueError(f"no safetensors file in {input_dir} has {', '.join(absent)}")
    largest = max(fqn_to_index_mapping.values(), default=0)
    files: dict[str, list[_Whole]] = {}
    for name, number in fqn_to_index_mapping.items():
        file_name = f"model-{number:05}-of-{largest:05}.safetensors"
        files.setdefault(file_name, []).append(_whole(name, found[name]))
    target = Path(output_dir)
    with ThreadPoolExecutor(max(1, num_threads)) as pool:
        list(pool.map(partial(_write, target), files, files.values()))
    _write_index(target, files)


__all__ = ["consolidate_safetensors_files"]
