"""`torch.types`: names for annotations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeAlias

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout
from maquette.core.size import Size
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor

_int: TypeAlias = int
_float: TypeAlias = float
_bool: TypeAlias = bool
_complex: TypeAlias = complex
_dtype: TypeAlias = dtype
_device: TypeAlias = device
_layout: TypeAlias = layout
_size: TypeAlias = Size | list[int] | tuple[int, ...]

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str]
Storage: TypeAlias = UntypedStorage
TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]

__all__ = ["Device", "FileLike", "Number", "Storage", "TensorOrTensors"]
