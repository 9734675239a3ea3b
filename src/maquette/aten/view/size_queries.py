"""Operators that say what a tensor's geometry is, as numbers; and what dtypes become of dtypes.

Programs ask the tensor itself; traced graphs ask by these.
"""

from __future__ import annotations

from maquette.aten.common.axes import wrap_existing_dim
from maquette.core.dtype import can_cast, promote_types, result_type_of
from maquette.dispatch.tags import Tag
from maquette.library.page import define

sym_size = define("aten::sym_size(Tensor self) -> SymInt[]")
sym_size.explicit(lambda self: list(self.meta.shape))
sym_stride = define("aten::sym_stride(Tensor self) -> SymInt[]")
sym_stride.explicit(lambda self: list(self.meta.strides))
for _page in (sym_size, sym_stride):
    _page.nondifferentiable()

_SIZES = {"sym_size": "SymInt", "size": "int"}
_STRIDES = {"sym_stride": "SymInt", "stride": "int"}
for _name, _type in _SIZES.items():
    define(
        f"aten::{_name}.int(Tensor self, int dim) -> {_type}",
        tags=[Tag.core] if _type == "SymInt" else [],
    ).composite(lambda self, dim: self.meta.shape[wrap_existing_dim(dim, self.meta.ndim)])
for _name, _type in _STRIDES.items():
    define(
        f"aten::{_name}.int(Tensor self, int dim) -> {_type}",
        tags=[Tag.core] if _type == "SymInt" else [],
    ).composite(lambda self, dim: self.meta.strides[wrap_existing_dim(dim, self.meta.ndim)])

define("aten::sym_numel(Tensor self) -> SymInt", tags=[Tag.core]).composite(
    lambda self: self.meta.numel
)
define("aten::sym_storage_offset(Tensor self) -> SymInt", tags=[Tag.core]).composite(
    lambda self: self.meta.offset
)
define("aten::is_contiguous(Tensor self) -> bool").composite(lambda self: self.meta.is_contiguous)
define("aten::is_same_size(Tensor self, Tensor other) -> bool").composite(
    lambda self, other: self.meta.shape == other.meta.shape
)
define("aten::can_cast(ScalarType from_, ScalarType to) -> bool").composite(can_cast)
define("aten::promote_types(ScalarType type1, ScalarType type2) -> ScalarType").composite(
    promote_types
)
for _overload, _operands in (
    ("Tensor", "Tensor tensor, Tensor other"),
    ("Scalar", "Tensor tensor, Scalar other"),
    ("Scalar_Tensor", "Scalar scalar, Tensor tensor"),
    ("Scalar_Scalar", "Scalar scalar1, Scalar scalar2"),
):
    define(f"aten::result_type.{_overload}({_operands}) -> ScalarType").composite(
        lambda *operands: result_type_of([getattr(o, "meta", o) for o in operands])
    )
