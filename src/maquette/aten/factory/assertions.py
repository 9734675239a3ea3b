"""What a program takes for granted, as operators: a value is not zero, a tensor is laid out so.

Those of values read them when the program runs, so a fake run, which has none, passes them; what
can be told from metas or from a Python number is refused there as it is in an eager run.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from maquette import symbolic
from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import data_says
from maquette.aten.view.copies import clone
from maquette.core.device import canonical, device
from maquette.core.dtype import dtype
from maquette.core.errors import check, check_data
from maquette.core.layout import layout
from maquette.core.meta import TensorMeta
from maquette.core.promotion import Number
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

_assert_async = define("aten::_assert_async(Tensor self) -> ()")
_assert_async_msg = define("aten::_assert_async.msg(Tensor self, str assert_msg) -> ()")


def _check_single(self: TensorMeta) -> None:
    few = "no values" if self.numel == 0 else "more than one value"
    check(
        self.numel == 1,
        lambda: f"Boolean value of Tensor with {few} is ambiguous; _assert_async got {self}",
    )


@_assert_async.shape
def assert_async_shape(self: TensorMeta) -> None:
    _check_single(self)


@_assert_async_msg.shape
def assert_async_msg_shape(self: TensorMeta, assert_msg: str) -> None:
    _check_single(self)


@_assert_async.kernel
def assert_async_kernel(xp: ModuleType, self: Array) -> None:
    refused = data_says(lambda: not self.any())
    check_data(not refused, lambda: "Expected Tensor with single nonzero value, but got zero")


@_assert_async_msg.kernel
def assert_async_msg_kernel(xp: ModuleType, self: Array, assert_msg: str) -> None:
    check_data(not data_says(lambda: not self.any()), lambda: assert_msg)


_assert_scalar = define("aten::_assert_scalar(Scalar self, str assert_msg) -> ()")


@_assert_scalar.composite
def assert_scalar_composite(self: Number, assert_msg: str) -> None:
    check(self != 0, lambda: assert_msg)


# A number's range, which symbols keep; the functional forms give their token back as a copy, which
# keeps the call in a graph of values. `symbolic` is asked by name: its checks are imported then.
sym_constrain_range = define(
    "aten::sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()"
)
sym_constrain_range_for_size = define(
    "aten::sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()"
)
_functional_sym_constrain_range = define(
    "aten::_functional_sym_constrain_range(Scalar size, int? min, int? max, Tensor dep_token) "
    "-> Tensor"
)
_functional_sym_constrain_range_for_size = define(
    "aten::_functional_sym_constrain_range_for_size(Scalar size, int? min, int? max, "
    "Tensor dep_token) -> Tensor"
)


@sym_constrain_range.describe(
    "Hold a number in a range: RuntimeError outside it, and a symbol keeps it."
).composite
def sym_constrain_range_composite(size: Number, min: int | None, max: int | None) -> None:
    symbolic.sym_constrain_range(size, min, max)


@sym_constrain_range_for_size.describe(
    "`sym_constrain_range` of a size, which is 0 or more."
).composite
def sym_constrain_range_for_size_composite(size: Number, min: int | None, max: int | None) -> None:
    symbolic.sym_constrain_range_for_size(size, min, max)


@_functional_sym_constrain_range.describe(
    "`sym_constrain_range`; gives the token back as a copy."
).composite
def functional_sym_constrain_range_composite(
    size: Number, min: int | None, max: int | None, dep_token: Tensor
) -> Tensor:
    symbolic.sym_constrain_range(size, min, max)
    return clone(dep_token)


@_functional_sym_constrain_range_for_size.describe(
    "`sym_constrain_range_for_size`; gives the token back as a copy."
).composite
def functional_sym_constrain_range_for_size_composite(
    size: Number, min: int | None, max: int | None, dep_token: Tensor
) -> Tensor:
    symbolic.sym_constrain_range_for_size(size, min, max)
    return clone(dep_token)


_assert_tensor_metadata = define(
    "aten::_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, "
    "ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()"
)


@_assert_tensor_metadata.shape
def assert_tensor_metadata_shape(
    a: TensorMeta,
    size: Sequence[int] | None,
    stride: Sequence[int] | None,
    dtype: dtype | None,
    device: device | None,
    layout: layout | None,
) -> None:
    def agree(what: str, expected: object, got: object) -> None:
        check(
            expected is None or expected == got,
            lambda: f"Tensor {what} mismatch! Expected: {expected}, Got: {got}",
        )

    agree("sizes", None if size is None else list(size), list(a.shape))
    agree("strides", None if stride is None else list(stride), list(a.strides))
    agree("dtype", dtype, a.dtype)
    agree("device", None if device is None else canonical(device), canonical(a.device))
    agree("layout", layout, a.layout)


@_assert_tensor_metadata.kernel
def assert_tensor_metadata_kernel(xp: ModuleType, *arguments: object) -> None:
    """Nothing is left to do: the shape rule has checked all."""
