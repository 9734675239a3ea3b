"""Operators on lists of tensors, `_foreach_*`: an operator of one tensor, for each member.

Each is derived from the page of its single operator: shape rule and kernel run it member by member
in one call, so that an optimizer's step is one dispatch; when something requires grad, the single
operators are called instead and recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType

import numpy as np

from maquette.aten.common.operators import aten
from maquette.aten.elementwise import (  # noqa: F401  # they define the single operators
    arithmetic,
    division,
    minimum_maximum,
    powers,
    rounding,
    special_functions,
    ternary,
    transcendental,
)
from maquette.core.dtype import dtype
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import ops
from maquette.dispatch.tags import Tag
from maquette.library.infer import lookup
from maquette.library.page import Cost, OperatorPage, define
from maquette.library.variants import inplace_shape, writing
from maquette.tensor.tensor import Tensor

Rows = Iterator[list[object]]
_NO_TENSOR = "Tensor list must have at least one tensor."


# --- from one to each -----------------------------------------------------------------


def rows(name: str, single: OpOverload, params: Sequence[object]) -> Rows:
    """The arguments of the single operator, member by member; what is no list goes to each."""
    lists = [p for p in params if isinstance(p, (tuple, list))]
    count = len(lists[0])
    numbers = [p for p in lists if p and not isinstance(p[0], Tensor | TensorMeta | np.ndarray)]
    check(any(lists) and (count > 0 or not numbers), lambda: f"{name}: {_NO_TENSOR}")
    # A second list that is empty counts as one of numbers: that form is the first to be tried.
    as_numbers = name.endswith(".List") and len(lists) == 2 and not lists[1]
    check(
        all(len(p) == count for p in numbers) and not as_numbers,
        lambda: f"{name}: Tensor list must have same number of elements as scalar list.",
    )
    check(
        all(len(p) == count for p in lists),
        lambda: (
            f"{name}: Tensor lists must have the same number of tensors, got "
            f"{' and '.join(str(len(p)) for p in lists)}"
        ),
    )
    rest = [a.default for a in single._schema.arguments[len(params) :]]
    for i in range(count):
        yield [p[i] if isinstance(p, (tuple, list)) else p for p in params] + rest


def each_cost(name: str, single: OpOverload, op: OpOverload) -> Callable[..., Cost]:
    """The cost of ``op`` on lists: that of the single operator, summed."""

    def cost(*metas: object) -> Cost:
        rule = single.facts.cost
        if rule is None:
            return Cost()
        params = metas[: len(op._schema.arguments)]
        each = [rule(*row, row[0]) for row in rows(name, single, params)]
        return Cost(flops=sum(c.flops for c in each if isinstance(c, Cost)))

    return cost


def each(name: str, arguments: str, single: OpOverload) -> OperatorPage:
    """Define the functional form: ``single`` for each member, a list of results."""
    op = define(f"aten::{name}({arguments}) -> Tensor[]").any_device()

    @op.shape
    def each_shape(*params: object) -> tuple[object, ...]:
        assert single.shape_rule is not None
        return tuple([single.shape_rule(*row) for row in rows(name, single, params)])

    @op.kernel
    def each_kernel(xp: ModuleType, *params: object) -> list[object]:
        assert single.array_kernel is not None
        return [single.array_kernel(xp, *row) for row in rows(name, single, params)]

    op.cost(each_cost(name, single, op.op))
    _refuse_nothing(op)
    recorded_singly(op, lambda *params: [_call(single, row) for row in rows(name, single, params)])
    return op


def each_in_place(name: str, arguments: str, single: OpOverload) -> OperatorPage:
    """Define the in-place form: each member gets the result of the functional ``single``."""
    written = arguments.replace("Tensor[] self", "Tensor(a!)[] self", 1)
    op = define(f"aten::{name}({written}) -> ()", tags=[Tag.inplace]).any_device()
    own, rule, write = _own_in_place(single), _refusing(single), _writing(single)

    @op.shape
    def each_shape(*params: object) -> None:
        for row in rows(name, single, params):
            rule(*row)

    @op.kernel
    def each_kernel(xp: ModuleType, *params: object) -> None:
        for row in rows(name, single, params):
            write(xp, *row)

    op.cost(each_cost(name, single, op.op))
    _refuse_nothing(op)

    def singly(*params: object) -> None:
        for row in rows(name, single, params):
            if own is not None:
                _call(own, row)
                continue
            target = row[0]
            assert isinstance(target, Tensor)
            target.copy_(_call(single, row))

    recorded_singly(op, singly)
    return op


def _own_in_place(single: OpOverload) -> OpOverload | None:
    """The operator's own in-place form, where one has its name."""
    packet = getattr(ops.aten, f"{single._opname}_", None)
    own = getattr(packet, single._overloadname or "default", None)
    return own if isinstance(own, OpOverload) else None


def _refusing(single: OpOverload) -> Callable[..., object]:
    """The shape rule of the operator's own in-place form, which may refuse more (``abs_``)."""
    own = _own_in_place(single)
    return inplace_shape(single) if own is None or own.shape_rule is None else own.shape_rule


def _writing(single: OpOverload) -> Callable[..., object]:
    """The kernel of the operator's own in-place form, where one has its name."""
    own = _own_in_place(single)
    return (own.own_kernel if own is not None else None) or writing(single)


def _call(single: OpOverload, row: Sequence[object]) -> object:
    """Call an operator with all its parameters."""
    arguments = single._schema.arguments
    positional = [value for value, a in zip(row, arguments) if not a.kwarg_only]
    return single(*positional, **{a.name: v for v, a in zip(row, arguments) if a.kwarg_only})


def _refuse_nothing(op: OperatorPage) -> None:
    """Lists without a tensor, which no device's kernel is asked for, are refused."""

    def refused(*params: object) -> object:
        raise RuntimeError(f"{op.op}: {_NO_TENSOR}")

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        return lambda ks, *params: refused()

    op.op.register(DispatchKey.Undefined, Kernel(factory, python=refused))


def recorded_singly(op: OperatorPage, function: Callable[..., object]) -> None:
    """Where an argument requires grad, record what ``function`` does instead of the operator."""

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        return lambda ks, *params: function(*params)

    op.op.register(
        DispatchKey.Autograd,
        Kernel(factory, python=function, only_with_grad=True, speaks_operators=True),
    )


# --- the operators --------------------------------------------------------------------


def overload(name: str) -> OpOverload:
    """The overload of a name such as ``add.Tensor``."""
    packet, _, own = name.partition(".")
    found = getattr(getattr(ops.aten, packet), own or "default")
    assert isinstance(found, OpOverload)
    return found


def both(name: str, arguments: str, single: str) -> None:
    """Define the functional and the in-place form of a name such as ``_foreach_add.List``."""
    base, dot, own = name.partition(".")
    each(name, arguments, overload(single))
    each_in_place(f"{base}_{dot}{own}", arguments, overload(single))


_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 "
    "neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
for _name in _UNARY:
    both(f"_foreach_{_name}", "Tensor[] self", _name)


def _arithmetic(name: str, alpha: str) -> None:
    """Define the forms of a sum or product: by a number, numbers, tensors, and one tensor."""
    both(f"_foreach_{name}.Scalar", "Tensor[] self, Scalar scalar", f"{name}.Scalar")
    both(f"_foreach_{name}.List", f"Tensor[] self, Tensor[] other{alpha}", f"{name}.Tensor")
    both(f"_foreach_{name}.ScalarList", "Tensor[] self, Scalar[] scalars", f"{name}.Scalar")
    if name != "sub":
        both(f"_foreach_{name}.Tensor", f"Tensor[] self, Tensor other{alpha}", f"{name}.Tensor")


_arithmetic("add", ", *, Scalar alpha=1")
_arithmetic("sub", ", *, Scalar alpha=1")
_arithmetic("mul", "")
_arithmetic("div", "")


def _bounds(name: str, by_number: str, by_tensor: str) -> None:
    """Define the forms of the larger or smaller of two."""
    both(f"_foreach_{name}.Scalar", "Tensor[] self, Scalar scalar", by_number)
    both(f"_foreach_{name}.List", "Tensor[] self, Tensor[] other", by_tensor)
    both(f"_foreach_{name}.ScalarList", "Tensor[] self, Scalar[] scalars", by_number)


_bounds("clamp_min", "clamp_min", "clamp_min.Tensor")
_bounds("clamp_max", "clamp_max", "clamp_max.Tensor")
_bounds("maximum", "clamp_min", "maximum")
_bounds("minimum", "clamp_max", "minimum")

both("_foreach_pow.List", "Tensor[] self, Tensor[] exponent", "pow.Tensor_Tensor")
both("_foreach_pow.Scalar", "Tensor[] self, Scalar exponent", "pow.Tensor_Scalar")
both("_foreach_pow.ScalarList", "Tensor[] self, Scalar[] exponent", "pow.Tensor_Scalar")
each("_foreach_pow.ScalarAndTensor", "Scalar self, Tensor[] exponent", overload("pow.Scalar"))

_ENDS = "Tensor[] self, Tensor[] tensors1"
both("_foreach_lerp.List", f"{_ENDS}, Tensor[] weights", "lerp.Tensor")
both("_foreach_lerp.Scalar", f"{_ENDS}, Scalar weight", "lerp.Scalar")
both("_foreach_lerp.ScalarList", f"{_ENDS}, Scalar[] weight", "lerp.Scalar")

_FACTORS = "Tensor[] self, Tensor[] tensor1, Tensor[] tensor2"
for _name in ("addcmul", "addcdiv"):
    both(f"_foreach_{_name}.Scalar", f"{_FACTORS}, Scalar value=1", _name)
    both(f"_foreach_{_name}.ScalarList", f"{_FACTORS}, Scalar[] scalars", _name)

each("_foreach_clone", "Tensor[] self, *, MemoryFormat? memory_format=None", overload("clone"))
each("_foreach_max", "Tensor[] self", overload("max"))
each("_foreach_mm", "Tensor[] self, Tensor[] mat2", overload("mm"))


# --- those of no single page ----------------------------------------------------------


def _by_parts(schema: str, function: Callable[..., object], tags: Sequence[Tag] = ()) -> None:
    """Define an operator on lists by calls of the single one."""
    op = define(schema, tags=tags)
    op.explicit(function)
    recorded_singly(op, function)


def zero_each(self: Sequence[Tensor]) -> None:
    for t in self:
        t.zero_()


def copy_each(self: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool) -> None:
    pairs = list(zip(self, src, strict=True))
    for target, source in pairs:  # all are checked before any is written
        lookup(aten.copy_.default, (target, source, non_blocking))
    for target, source in pairs:
        target.copy_(source, non_blocking)


def norm_each(self: Sequence[Tensor], ord: float, dtype: dtype | None) -> list[Tensor]:
    return [aten.linalg_vector_norm(t, ord, dtype=dtype) for t in self]


def powsum_each(self: Sequence[Tensor], ord: float, dtype: dtype | None) -> list[Tensor]:
    return [aten.linalg__powsum(t, ord, dtype=dtype) for t in self]


def _packed(scalars: Tensor, count: int) -> list[float]:
    """The numbers of a vector, one for each member."""
    check(
        scalars.meta.ndim == 1,
        lambda: f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.ndim} instead.",
    )
    check(
        scalars.device.type == "cpu",
        lambda: f"Expected scalars to be on CPU, got {scalars.device} instead.",
    )
    check(scalars.is_contiguous(), lambda: "Expected scalars to be contiguous.")
    check(
        scalars.numel() == count,
        lambda: (
            f"Expected length of scalars to match input of length {count} but got "
            f"{scalars.numel()} instead."
        ),
    )
    numbers: list[float] = scalars.tolist()
    return numbers


def _by_packed(name: str) -> None:
    """Define the forms whose factors are the elements of a vector."""
    for form in ("", "_"):
        arguments = f"{_FACTORS}, Tensor scalars"
        if form:
            arguments = arguments.replace("Tensor[] self", "Tensor(a!)[] self", 1)
        listed = overload(f"{name}{form}.ScalarList")
        result = "()" if form else "Tensor[]"
        define(
            f"aten::{name}{form}.Tensor({arguments}) -> {result}",
            tags=[Tag.inplace] if form else [],
        ).composite(
            lambda self, tensor1, tensor2, scalars, listed=listed: listed(
                self, tensor1, tensor2, _packed(scalars, len(self))
            )
        )


_by_packed("_foreach_addcmul")
_by_packed("_foreach_addcdiv")
_by_parts(
    "aten::_foreach_powsum.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]",
    powsum_each,
)
_by_parts("aten::_foreach_zero_(Tensor(a!)[] self) -> ()", zero_each, [Tag.inplace])
_by_parts(
    "aten::_foreach_copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False) -> ()",
    copy_each,
    [Tag.inplace],
)
_by_parts(
    "aten::_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]",
    norm_each,
)
