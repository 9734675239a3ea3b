"""Operators that say what kind of tensor one is: the questions that its methods answer, by name.

Programs ask the tensor itself; handlers and graphs that hold an operator ask by these.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from maquette.core.layout import contiguous_format
from maquette.library.page import define, describe

_QUERIES: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "dim": ("int", lambda self: self.meta.ndim, "How many dimensions there are."),
    "numel": ("int", lambda self: int(self.meta.numel), "How many elements there are."),
    "storage_offset": (
        "int", lambda self: int(self.meta.offset), "Where the first element is in the storage.",
    ),
    "is_complex": ("bool", lambda self: self.dtype.is_complex, "Whether the dtype is complex."),
    "is_floating_point": (
        "bool", lambda self: self.dtype.is_floating_point, "Whether the dtype is a float.",
    ),
    "is_signed": ("bool", lambda self: self.dtype.is_signed, "Whether the dtype has a sign."),
    "is_conj": ("bool", lambda self: self.is_conj(), "Whether reading conjugates."),
    "is_neg": ("bool", lambda self: self.is_neg(), "Whether reading negates."),
    "is_inference": (
        "bool", lambda self: self.is_inference(), "Whether it was made in inference mode.",
    ),
    "is_leaf": ("bool", lambda self: self.is_leaf, "Whether no recorded operator made it."),
    "output_nr": ("int", lambda self: self.output_nr, "Which result of its operator it is."),
    "retains_grad": ("bool", lambda self: self.retains_grad, "Whether it keeps its gradient."),
    "_version": ("int", lambda self: self._version, "How often it was written to."),
    "is_distributed": ("bool", lambda self: False, "Always False: there is one process."),
    "is_non_overlapping_and_dense": (
        "bool", lambda self: bool(self.meta.is_dense), "Whether the elements fill their part.",
    ),
}  # fmt: skip

for _name, (_kind, _ask, _text) in _QUERIES.items():
    define(f"aten::{_name}(Tensor self) -> {_kind}").composite(_ask)
    describe(_name, _text)

for _name, _kind in (("device", "Device"), ("layout", "Layout")):
    define(f"prim::{_name}(Tensor a) -> {_kind}").composite(operator.attrgetter(f"meta.{_name}"))

define(
    "aten::is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool"
).composite(lambda self, memory_format: self.meta.is_contiguous_in(memory_format))
define("aten::sym_is_contiguous(Tensor self, MemoryFormat memory_format=0) -> SymBool").composite(
    lambda self, memory_format=contiguous_format: self.meta.is_contiguous_in(memory_format)
)
define("aten::is_strides_like_format(Tensor self, MemoryFormat memory_format) -> bool").composite(
    lambda self, memory_format: self.meta.is_strides_like(memory_format)
)
describe(
    "is_strides_like_format",
    "Whether the strides are in the order of a channels-last format.",
)
describe("sym_is_contiguous", "Whether the elements lie in memory in the order of a format.")
