"""`torch.distributed.checkpoint` of one process: states saved in a folder, in PyTorch's form.

`save` and `load` are here, the folder's files and their index with them, and folders as Hugging
Face's libraries have them; what plans for more processes, or writes elsewhere than to a folder, is
absent by name.
"""

from __future__ import annotations

from maquette.torch.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
)
from maquette.torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from maquette.torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from maquette.torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorStorageMetadata,
)
from maquette.torch.distributed.checkpoint.stateful import Stateful
from maquette.torch.distributed.checkpoint.states import (
    CheckpointException,
    async_save,
    load,
    load_state_dict,
    save,
    save_state_dict,
)
from maquette.torch.face.forwarding import forward

__all__ = [
    "BytesStorageMetadata",
    "CheckpointException",
    "ChunkStorageMetadata",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "HuggingFaceStorageReader",
    "HuggingFaceStorageWriter",
    "Metadata",
    "MetadataIndex",
    "Stateful",
    "TensorStorageMetadata",
    "async_save",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
]
__getattr__ = forward(__name__)
