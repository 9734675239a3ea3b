"""`torch.distributed.checkpoint._hf_utils`: how Hugging Face's folders name their files.

A folder has safetensors files, ``model-00001-of-00002.safetensors``, and an index that says which
tensor is in which. Files of several processes begin with ``shard-00001-``; each says under
``DCP_SHARDING_INFO`` where in the tensors its pieces are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from maquette.core.dtype import dtype as Dtype
from maquette.core.size import Size

_metadata_fn = "model.safetensors.index.json"
SUFFIX = ".safetensors"
SHARDED_DIR_NAME = "sharded"
CUSTOM_METADATA_KEY = "DCP_SHARDING_INFO"
SAVED_OFFSETS_KEY = "saved_offsets"
DCP_VERSION_KEY = "DCP_VERSION"
HF_DCP_VERSION = 1.0
FORMAT_KEY = "format"
FORMAT_VALUE = "pt"


@dataclass
class _HFStorageInfo:
    """Which file a piece of a tensor is in, and what it is."""

    relative_path: str
    shape: Size
    dtype: Dtype


def _gen_file_name(index: int, largest_index: int, shard_index: int | None = None) -> str:
    """The name of a file, by its number and the largest; of a process's, by that one's too."""
    shard = "" if shard_index is None else f"shard-{shard_index:05}-"
    return f"{shard}model-{index:05}-of-{largest_index:05}{SUFFIX}"


def write_index(folder: Path, files: Mapping[str, str], nbytes: int) -> None:
    """Write which tensor is in which file, and the bytes of all."""
    index = {"metadata": {"total_size": nbytes}, "weight_map": dict(files)}
    (folder / _metadata_fn).write_text(json.dumps(index, indent=2))
