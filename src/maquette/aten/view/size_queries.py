"""Operators that say what a tensor's geometry is, as numbers; and what dtypes become of dtypes.

Programs ask the tensor itself; traced graphs ask by these.
"""

from __future__ import annotations

from maquette.aten.common.axes import wrap_existing_dim
from maquette.core.dtype import can_cast, promote_types, result_type_of
from maquette.dispatch.tags import Tag
from maquette.library.page import define, describe

sym_size = define("aten::sym_size(Tensor self) -> SymInt[]")
sym_size.describe("The size of a dimension, a symbol where it is one.")
sym_size.composite(lambda self: list(self.meta.shape))
sym_stride = define("aten::sym_stride(Tensor self) -> SymInt[]")
sym_stride.describe("The stride of a dimension, a symbol where it is one.")
sym_stride.composite(lambda self: list(self.meta.strides))
# The lists are of plain ints: symbols among them specialize.
define("aten::size(Tensor self) -> int[]").composite(lambda self: [int(n) for n in self.meta.shape])
define("aten::stride(Tensor self) -> int[]").composite(
    lambda self: [int(n) for n in self.meta.strides]
)

_SIZES = {"sym_size": "SymInt", "size": "int"}
_STRIDES = {"sym_stride": "SymInt", "stride": "int"}
for _name, _type in _SIZES.items():
    define(
        f"aten::{_name}.int(Tensor self, int dim) -> {_type}",
        tags=[Tag.core] if _type == "SymInt" else [],
    ).composite(lambda self, dim: self.meta.shape[wrap_existing_dim(dim, self.meta.ndim)])
describe("size", "The size of a dimension.")
for _name, _type in _STRIDES.items():
    define(
        f"aten::{_name}.int(Tensor self, int dim) -> {_type}",
        tags=[Tag.core] if _type == "SymInt" else [],
    ).composite(lambda self, dim: self.meta.strides[wrap_existing_dim(dim, self.meta.ndim)])
describe("stride", "The stride of a dimension, in elements.")

define("aten::sym_numel(Tensor self) -> SymInt", tags=[Tag.core]).composite(
    lambda self: self.meta.numel
)
describe("sym_numel", "How many elements there are, a symbol where it is one.")
define("aten::sym_storage_offset(Tensor self) -> SymInt", tags=[Tag.core]).composite(
    lambda self: self.meta.offset
)
describe(
    "sym_storage_offset",
    "Where the first element is in the storage, a symbol where it is one.",
)
define("aten::is_contiguous(Tensor self) -> bool").composite(lambda self: self.meta.is_contiguous)
describe("is_contiguous", "Whether the elements lie in memory in row-major order without gaps.")
is_same_size = define("aten::is_same_size(Tensor self, Tensor other) -> bool")
is_same_size.explicit(lambda self, other: self.meta.shape == other.meta.shape)
is_same_size.nondifferentiable()
is_same_size.describe("Whether two tensors have the same shape.")
define("aten::can_cast(ScalarType from_, ScalarType to) -> bool").composite(can_cast)
describe("can_cast", "Whether a dtype may be converted to another without losing its category.")
define("aten::promote_types(ScalarType type1, ScalarType type2) -> ScalarType").composite(
    promote_types
)
describe("promote_types", "The dtype that two dtypes promote to.")
for _overload, _operands in (
    ("Tensor", "Tensor tensor, Tensor other"),
    ("Scalar", "Tensor tensor, Scalar other"),
    ("Scalar_Tensor", "Scalar scalar, Tensor tensor"),
    ("Scalar_Scalar", "Scalar scalar1, Scalar scalar2"),
):
    define(f"aten::result_type.{_overload}({_operands}) -> ScalarType").composite(
        lambda *operands: result_type_of([getattr(o, "meta", o) for o in operands])
    )
describe("result_type", "The dtype of a result of two operands, tensors or numbers.")
