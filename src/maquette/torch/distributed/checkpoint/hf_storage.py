"""`torch.distributed.checkpoint.hf_storage`: checkpoints as Hugging Face's libraries have them.

A folder of safetensors files, which hold tensors alone, and no index of PyTorch's. What several
processes wrote is read, and one process writes as the first of several would.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from maquette.core.size import Size
from maquette.tensor.saving import can_name, check_entry, header_of, write_header, write_values
from maquette.tensor.tensor import Tensor
from maquette.torch.distributed.checkpoint._consolidate_hf_safetensors import (
    consolidate_safetensors_files,
)
from maquette.torch.distributed.checkpoint._hf_utils import (
    CUSTOM_METADATA_KEY,
    DCP_VERSION_KEY,
    FORMAT_KEY,
    FORMAT_VALUE,
    HF_DCP_VERSION,
    SAVED_OFFSETS_KEY,
    SHARDED_DIR_NAME,
    SUFFIX,
    _gen_file_name,
    _HFStorageInfo,
    _metadata_fn,
    write_index,
)
from maquette.torch.distributed.checkpoint.filesystem import (
    Entries,
    FileSystemReader,
    FileSystemWriter,
    entry_metadata,
)
from maquette.torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from maquette.torch.distributed.checkpoint.pieces import Piece, meta_of, pieces_in, whole

_VERSION = str(HF_DCP_VERSION)


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes a checkpoint as safetensors files, in a folder that is made if it is not there.

    fqn_to_index_mapping: the number of the file of each tensor, from 1 on; one file if None.
    save_distributed: write the file of one process of several (``shard-00001-...``), without an
    index. enable_consolidation: write to ``sharded`` in the folder, and where those are files of
    processes put the tensors together in the folder itself.

    Views are written as they are seen, where PyTorch refuses them. TypeError for what is no tensor,
    which PyTorch leaves out of its files, and for dtypes that old readers do not know.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fqn_to_index_mapping: dict[str, int] | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:
        super().__init__(path, thread_count=thread_count)
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed = save_distributed
        self.enable_consolidation = enable_consolidation
        self.thread_count_consolidation = thread_count_consolidation
        self.consolidated_output_path: str | None = None
        if enable_consolidation:
            self.consolidated_output_path = str(self.path)
            self.path = self.path / SHARDED_DIR_NAME

    @property
    def metadata_path(self) -> str:
        """The name of the index."""
        return _metadata_fn

    def write(self, entries: Entries, places: dict[str, tuple[object, ...]]) -> Metadata:
        """Write tensors by name, and what the options ask for."""
        tensors = {name: _writable(name, value) for name, value in entries.items()}
        self.path.mkdir(parents=True, exist_ok=True)
        files = self._files(tensors)
        for file_name, held in files.items():
            _write_file(self.path / file_name, held)
        if not self.save_distributed:
            where = {name: file_name for file_name, held in files.items() for name in held}
            nbytes = sum(t.meta.numel * t.meta.itemsize for t in tensors.values())
            write_index(self.path, where, nbytes)
        elif self.consolidated_output_path is not None:
            consolidate_safetensors_files(
                self.path,
                self.consolidated_output_path,
                self.fqn_to_index_mapping or dict.fromkeys(tensors, 1),
                self.thread_count_consolidation,
            )
        return Metadata({name: entry_metadata(value) for name, value in entries.items()}, places)

    def _files(self, tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
        """The tensors of each file."""
        numbers = self.fqn_to_index_mapping
        if numbers is None:
            numbers = dict.fromkeys(tensors, 1)
        absent = [name for name in tensors if name not in numbers]
        if absent:
            raise KeyError(f"fqn_to_index_mapping has no file for {', '.join(absent)}")
        largest = max(numbers.values(), default=1)
        shard = 1 if self.save_distributed else None
        files: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            file_name = _gen_file_name(numbers[name], largest, shard)
            files.setdefault(file_name, {})[name] = tensor
        return files


def _writable(name: str, value: object) -> Tensor:
    check_entry(name, value)
    tensor = cast(Tensor, value)
    if tensor.fake_mode is not None or not can_name(tensor.meta.dtype):
        raise TypeError(f"save(): '{name}' is {tensor.meta}, which a safetensors file cannot hold")
    return tensor.detach()


def _write_file(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a file, which gets its name when it is whole."""
    # Wide elements first, so that each begins where its dtype may.
    ordered = sorted(tensors, key=lambda name: -tensors[name].meta.itemsize)
    places = {name: {SAVED_OFFSETS_KEY: [0] * t.dim()} for name, t in tensors.items()}
    strings = {
        CUSTOM_METADATA_KEY: json.dumps(places),
        DCP_VERSION_KEY: _VERSION,
        FORMAT_KEY: FORMAT_VALUE,
    }
    unfinished = path.with_name(f"{path.name}.tmp")
    with open(unfinished, "wb") as file:
        metas = [(name, tensors[name].meta) for name in ordered]
        write_header(file, header_of(tensors, metas, strings))
        for name in ordered:
            write_values(tensors[name].cpu(), file)
    os.replace(unfinished, path)


class HuggingFaceStorageReader(FileSystemReader):
    """Reads the safetensors files of a folder, those of several processes too.

    thread_count: how many threads PyTorch reads with; one reads here.
    """

    def __init__(self, path: str | os.PathLike[str], thread_count: int = 1) -> None:
        super().__init__(path)
        self.thread_count = thread_count
        self._pieces: dict[str, list[Piece]] = {}

    def read_metadata(self) -> Metadata:
        """What tensors the files have; FileError for one that is damaged."""
        self._pieces = {}
        for file_name in sorted(os.listdir(self.path)):
            if file_name.endswith(SUFFIX):
                for name, piece in pieces_in(self.path / file_name, plain=True):
                    self._pieces.setdefault(name, []).append(piece)
        return Metadata(
            {name: _metadata_of(name, pieces) for name, pieces in self._pieces.items()},
            storage_data={
                MetadataIndex(name, piece.offsets): _info(piece)
                for name, pieces in self._pieces.items()
                for piece in pieces
            },
            storage_meta=StorageMeta(),
        )

    def read(self, metadata: Metadata, name: str) -> Iterator[tuple[MetadataIndex, Any]]:
        """The pieces of a tensor; ValueError where one is missing, which PyTorch lets pass."""
        for piece in whole(name, self._pieces[name]).pieces:
            yield MetadataIndex(name, piece.offsets), piece.tensor()


def _metadata_of(name: str, pieces: list[Piece]) -> TensorStorageMetadata:
    meta = meta_of(name, pieces)
    chunks = [ChunkStorageMetadata(Size(p.offsets), Size(p.row.shape)) for p in pieces]
    return TensorStorageMetadata(TensorProperties(meta.dtype), Size(meta.shape), chunks)


def _info(piece: Piece) -> _HFStorageInfo:
    return _HFStorageInfo(str(piece.file), Size(piece.row.shape), piece.row.kind)


__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]
