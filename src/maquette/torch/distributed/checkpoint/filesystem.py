"""`torch.distributed.checkpoint.filesystem`: a checkpoint as a folder, an index and a file.

Each entry is what `torch.save` writes, one after the other in ``__0_0.distcp``; ``.metadata`` says
which bytes are whose. Both are read and written as PyTorch has them.
"""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pickle import Unpickler
from typing import Any

from maquette.core.size import Size
from maquette.tensor.saving import FileError
from maquette.tensor.tensor import Tensor
from maquette.torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from maquette.torch.saving import serialization
from maquette.torch.saving.pickles import Pickler, unpickle

_VERSION = "1.0.0"
_INDEX = ".metadata"
_FILE = "__0_0.distcp"  # of the first process, its first
Entries = dict[str, object]


@dataclass
class _StorageInfo:
    """Which bytes of which file an entry is."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: list[str] | None = None


def entry_metadata(value: object) -> TensorStorageMetadata | BytesStorageMetadata:
    """What an index says of an entry."""
    if not isinstance(value, Tensor):
        return BytesStorageMetadata()
    size = Size(value.shape)
    whole = ChunkStorageMetadata(Size([0] * len(size)), size)
    return TensorStorageMetadata(TensorProperties.create_from_tensor(value), size, [whole])


def _index_of(name: str, value: object) -> MetadataIndex:
    if isinstance(value, Tensor):
        return MetadataIndex(name, [0] * value.dim(), 0)
    return MetadataIndex(name)


class FileSystemWriter:
    """Writes a checkpoint to a folder, which is made if it is not there.

    overwrite: False for RuntimeError where the folder has a checkpoint. The other options choose
    how PyTorch's threads write; one writes here.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
    ) -> None:
        self.path = Path(path)
        self.single_file_per_rank, self.sync_files = single_file_per_rank, sync_files
        self.thread_count, self.per_thread_copy_ahead = thread_count, per_thread_copy_ahead
        self.overwrite = overwrite

    @property
    def checkpoint_id(self) -> str | os.PathLike[str]:
        """The folder."""
        return self.path

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin a new checkpoint, in this folder if one is given."""
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)

    def write(self, entries: Entries, places: dict[str, tuple[object, ...]]) -> Metadata:
        """Write entries by name, and the index, with where each is in the state."""
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / _INDEX).exists() and not self.overwrite:
            raise RuntimeError(f"Checkpoint already exists and {self.overwrite=}.")
        metadata = Metadata(
            {name: entry_metadata(value) for name, value in entries.items()},
            places,
            self._write_entries(entries),
            StorageMeta(self.path, str(uuid.uuid4())),
            _VERSION,
        )
        self._write_index(metadata)
        return metadata

    def _write_entries(self, entries: Entries) -> dict[MetadataIndex, _StorageInfo]:
        found = {}
        with open(self.path / _FILE, "wb") as file:
            for name, value in entries.items():
                begin = file.tell()
                held = value.detach().cpu() if isinstance(value, Tensor) else value
                one = io.BytesIO()
                serialization.save(held, one)
                file.write(one.getbuffer())
                info = _StorageInfo(_FILE, begin, file.tell() - begin)
                found[_index_of(name, value)] = info
            if self.sync_files:
                os.fsync(file.fileno())
        return found

    def _write_index(self, metadata: Metadata) -> None:
        # Under its name only when it is whole: a program that dies here leaves the last one.
        unfinished = self.path / f"{_INDEX}.tmp"
        with open(unfinished, "wb") as file:
            Pickler(file, protocol=2).dump(metadata)
        os.replace(unfinished, self.path / _INDEX)


class FileSystemReader:
    """Reads a checkpoint of a folder, that of several processes too."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def checkpoint_id(self) -> str | os.PathLike[str]:
        """The folder."""
        return self.path

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Read a checkpoint anew, from this folder if one is given."""
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)

    def read_metadata(self) -> Metadata:
        """The index; FileError for one that is damaged.

        It is a pickle: read no checkpoint that you do not trust.
        """
        file = self.path / _INDEX
        with open(file, "rb") as opened, serialization.named_errors(opened, anything=True):
            found = unpickle(
                opened,
                _no_storages,
                trusted=Unpickler,
                encoding="utf-8",
                nbytes=file.stat().st_size,
            )
        if not isinstance(found, Metadata):
            raise FileError(f"{str(file)!r}: this is no index of a checkpoint: {type(found)}")
        return found

    def read(self, metadata: Metadata, name: str) -> Iterator[tuple[MetadataIndex, Any]]:
        """The pieces of an entry; of what is no tensor, the one object."""
        for index, info in metadata.storage_data.items():
            if index.fqn != name:
                continue
            if info.transform_descriptors:
                raise NotImplementedError(
                    f"{self.path}: {name} was transformed ({info.transform_descriptors}), which "
                    f"maquette does not undo: load it with PyTorch and save it plainly"
                )
            with open(self.path / info.relative_path, "rb") as file:
                file.seek(info.offset)
                one = _Part(file.read(info.length), f"{name} in {file.name}")
            is_tensor = isinstance(metadata.state_dict_metadata[name], TensorStorageMetadata)
            yield index, serialization.load(one, map_location="cpu", weights_only=is_tensor)


class _Part(io.BytesIO):
    """The bytes of an entry; errors say whose."""

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(data)
        self.name = name


def _no_storages(reference: object) -> object:
    raise RuntimeError("the index of a checkpoint has no tensors")


__all__ = ["FileSystemReader", "FileSystemWriter"]
