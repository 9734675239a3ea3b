"""`torch.distributed.checkpoint.metadata`: the index of a checkpoint, as its file has it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from maquette.core.dtype import dtype as Dtype
from maquette.core.dtype import get_default_dtype
from maquette.core.layout import (
    channels_last,
    contiguous_format,
    preserve_format,
    strided,
)
from maquette.core.layout import layout as Layout
from maquette.core.layout import memory_format as MemoryFormat
from maquette.core.size import Size
from maquette.tensor.tensor import Tensor


@dataclass
class ChunkStorageMetadata:
    """Where a piece of a tensor begins, and its size."""

    offsets: Size
    sizes: Size


class _MEM_FORMAT_ENCODING(Enum):  # PyTorch's name
    """Memory formats as files have them."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = dict(zip(_MEM_FORMAT_ENCODING, (contiguous_format, channels_last, preserve_format)))


@dataclass
class TensorProperties:
    """What a tensor is made with besides its size."""

    dtype: Dtype = field(default_factory=get_default_dtype)
    layout: Layout = strided
    requires_grad: bool = False
    memory_format: MemoryFormat = contiguous_format
    pin_memory: bool = False

    def __getstate__(self) -> tuple[object, ...]:
        encoded = next(code for code, known in _FORMATS.items() if known is self.memory_format)
        return (self.dtype, self.layout, self.requires_grad, encoded, self.pin_memory)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype, self.layout, self.requires_grad, encoded, self.pin_memory = state
        self.memory_format = _FORMATS[encoded]

    @staticmethod
    def create_from_tensor(tensor: Tensor) -> TensorProperties:
        """Those of a tensor."""
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad)


@dataclass
class TensorStorageMetadata:
    """A tensor of a checkpoint, in pieces."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """An object of a checkpoint that is no tensor."""


@dataclass
class StorageMeta:
    """Where a checkpoint was written, and when it was by a name of its own."""

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """The index of a checkpoint: its entries, their places in the states, and in the files."""

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """An entry of a checkpoint, or a piece of one: by where it begins, and by its number."""

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(
        self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None
    ) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "offset", None if offset is None else Size(offset))


__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]
