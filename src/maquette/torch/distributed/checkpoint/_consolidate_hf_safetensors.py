"""`torch.distributed.checkpoint._consolidate_hf_safetensors`: tensors in pieces are made whole.

A training of several processes leaves safetensors files in which each has its pieces of tensors,
with the offsets of each piece under ``DCP_SHARDING_INFO``. Here they become files as Hugging Face's
libraries read them, with ``model.safetensors.index.json``. One tensor is in memory at a time.

Where PyTorch writes what nobody saved (zeros for scalars and for missing pieces, a header without
a dtype for names that no file has) this is right, or refuses; tensors of integers are taken, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from maquette.tensor.saving import header_of, write_header
from maquette.torch.distributed.checkpoint._hf_utils import _gen_file_name, write_index
from maquette.torch.distributed.checkpoint.pieces import Piece, Whole, pieces_in, whole

Folder = str | os.PathLike[str]


def _write(folder: Path, name: str, tensors: list[Whole]) -> None:
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


def _write_index(folder: Path, files: Mapping[str, list[Whole]]) -> None:
    """Write which tensor is in which file."""
    nbytes = sum(t.nbytes for tensors in files.values() for t in tensors)
    places = {t.name: name for name, tensors in files.items() for t in tensors}
    write_index(folder, places, nbytes)


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
    found: dict[str, list[Piece]] = {}
    for path in sorted(Path(input_dir).glob("*.safetensors")):
        for name, piece in pieces_in(path):
            found.setdefault(name, []).append(piece)
    absent = [name for name in fqn_to_index_mapping if name not in found]
    if absent:
        raise ValueError(f"no safetensors file in {input_dir} has {', '.join(absent)}")
    largest = max(fqn_to_index_mapping.values(), default=0)
    files: dict[str, list[Whole]] = {}
    for name, number in fqn_to_index_mapping.items():
        file_name = _gen_file_name(number, largest)
        files.setdefault(file_name, []).append(whole(name, found[name]))
    target = Path(output_dir)
    with ThreadPoolExecutor(max(1, num_threads)) as pool:
        list(pool.map(partial(_write, target), files, files.values()))
    _write_index(target, files)


__all__ = ["consolidate_safetensors_files"]
