"""Copies that older programs ask for by a name of their own: pinned, cast to one dtype, of a shape.

All are definitions by other operators.
"""

from __future__ import annotations

from maquette.aten.common.operators import aten
from maquette.core.device import device as Device
from maquette.core.dtype import (
    dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from maquette.library.page import define
from maquette.tensor.storage_methods import mark_pinned
from maquette.tensor.tensor import Tensor

_pin_memory = define("aten::_pin_memory(Tensor self, Device? device=None) -> Tensor")
_pin_memory.describe("A copy in pinned memory, which here is a mark.")


@_pin_memory.composite
def _pin_memory_composite(self: Tensor, device: Device | None) -> Tensor:
    copied: Tensor = self.clone()
    mark_pinned(copied._storage)
    return copied


_shape_as_tensor = define("aten::_shape_as_tensor(Tensor self) -> Tensor")
_shape_as_tensor.describe("The sizes as a tensor of int64, on the cpu.")


@_shape_as_tensor.composite
def _shape_as_tensor_composite(self: Tensor) -> Tensor:
    sizes = [aten.scalar_tensor(n, dtype=int64) for n in self.shape]
    made: Tensor = aten.stack(sizes) if sizes else aten.empty([0], dtype=int64)
    return made


def _cast(name: str, kind: dtype) -> None:
    page = define(f"aten::_cast_{name}(Tensor self, bool non_blocking=False) -> Tensor")
    page.describe(f"The tensor as {kind}; itself where it is.")
    page.composite(lambda self, non_blocking: self.to(kind))


for _name, _kind in {
    "Byte": uint8,
    "Char": int8,
    "Double": float64,
    "Float": float32,
    "Half": float16,
    "Int": int32,
    "Long": int64,
    "Short": int16,
}.items():
    _cast(_name, _kind)
