"""What the array API namespace says of itself: dtypes, devices, capabilities."""

from __future__ import annotations

from typing import Any

from maquette.array_api.data_types import KINDS, DType, isdtype
from maquette.core.device import device as Device
from maquette.core.dtype import (
    bool_,
    complex64,
    complex128,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

_NAMES: dict[str, DType] = {
    "bool": bool_,
    "int8": int8,
    "int16": int16,
    "int32": int32,
    "int64": int64,
    "uint8": uint8,
    "uint16": uint16,
    "uint32": uint32,
    "uint64": uint64,
    "float32": float32,
    "float64": float64,
    "complex64": complex64,
    "complex128": complex128,
}


class __array_namespace_info__:
    """The standard's inspection functions."""

    def capabilities(self) -> dict[str, Any]:
        """What the namespace can do: masks as indexes, sizes that data decide, any dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Device:
        """Where arrays are made unless told."""
        return Device("cpu")

    def default_dtypes(self, *, device: Device | None = None) -> dict[str, DType]:
        """The dtypes that functions take unless told."""
        real = get_default_dtype()
        return {
            "real floating": real,
            "complex floating": complex128 if real is float64 else complex64,
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(
        self, *, device: Device | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The dtypes by name, all or those of some kinds."""
        wanted = tuple(KINDS) if kind is None else kind
        return {name: dtype for name, dtype in _NAMES.items() if isdtype(dtype, wanted)}

    def devices(self) -> list[Device]:
        """The devices that hold arrays of data."""
        return [Device("cpu")]
