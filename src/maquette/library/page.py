"""The operator page: one operator's schema, shape rule, kernel, derivative, batching rule, cost.

`define` opens a page; its methods are decorators that fill it in. Each is the public registration
call bound to one operator, so a user's page looks as a built-in one does. In-place and ``out=``
variants are derived from the page, never written again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar, cast

from maquette.autograd.formulas import Derivatives, parameter_names
from maquette.core.meta import TensorMeta
from maquette.dispatch.call import compiled
from maquette.dispatch.kernels import Kernel, caller_place
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import define_overload
from maquette.dispatch.tags import Tag
from maquette.library.arrays import backend_kernel
from maquette.library.python_kernels import python_kernel
from maquette.library.variants import (
    check_same_dtype,
    inplace_schema,
    inplace_shape,
    out_schema,
    out_shape,
    writing,
    writing_out,
)
from maquette.tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., object])


class Variant(enum.Enum):
    """Forms of an operator that are derived from its functional page."""

    INPLACE = "inplace"
    OUT = "out"


class Cost(NamedTuple):
    """What one call costs: floating point operations; bytes default to every operand once."""

    flops: int = 0
    bytes_read: int | None = None
    bytes_written: int | None = None


class OperatorPage:
    """The page of one overload; calling it calls the operator.

    What `define` gives is, to the interpreter, the operator's entry function with the methods of
    this class as attributes: operators that call others pay for a function call and no more.
    """

    __slots__ = ("op", "variants")

    def __init__(self, op: OpOverload) -> None:
        self.op = op
        self.variants: list[OpOverload] = []

    def __call__(self, /, *args: object, **kwargs: object) -> Any:  # as the schema says
        return self.op(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OperatorPage({self.op})>"

    def shape(self, rule: F) -> F:
        """Register the shape rule: metas and plain arguments, all positional, to metas.

        It runs every check of the operator; eager, meta and fake calls all run it.
        """
        set_shape_rule(self.op, rule)
        return rule

    def kernel(self, function: F) -> F:
        """Register the kernel ``function(xp, *parameters)``, on arrays of the namespace ``xp``."""
        self.op.array_kernel = function
        self.op.invalidate()
        return function

    def composite(self, function: F) -> F:
        """Register a definition by other operators (CompositeImplicitAutograd)."""
        key = DispatchKey.CompositeImplicitAutograd
        self.op.register(key, Kernel(_positional(function), python=function, speaks_operators=True))
        return function

    def explicit(self, function: F) -> F:
        """Register a definition by other operators, differentiated by the page's own formula."""
        key = DispatchKey.CompositeExplicitAutograd
        self.op.register(key, Kernel(_positional(function), python=function, speaks_operators=True))
        return function

    def derivative(
        self, /, *joint: str, **formulas: Callable[..., object]
    ) -> Callable[[F], F]:
        """Register derivatives: one formula an argument by keyword, or a decorator for several."""
        derivatives = derivatives_of(self.op)
        for name, formula in formulas.items():
            derivatives.add((name,), formula, joint=False)
        for variant in self.variants:
            variant.derivatives = derivatives

        def decorate(function: F) -> F:
            derivatives.add(joint, function, joint=True)
            return function

        return decorate

    def diagonal(self, /, **slopes: Callable[..., Tensor | complex]) -> None:
        """Register elementwise derivatives d out / d argument, by the arguments or ``result``."""
        for name, slope in slopes.items():
            needs = ("grad", *parameter_names(slope))
            derivatives_of(self.op).add((name,), _diagonal(slope), joint=False, needs=needs)
        for variant in self.variants:
            variant.derivatives = self.op.derivatives

    def nondifferentiable(self, *outputs: int) -> None:
        """Say that outputs (all, if none is given) never require grad."""
        derivatives_of(self.op).nondifferentiable = outputs or tuple(range(16))
        for variant in self.variants:
            variant.derivatives = self.op.derivatives

    def batching(self, rule: F) -> F:
        """Register the batching rule ``(info, in_dims, *args) -> (output, out_dims)``."""
        self.op.batching_rule = rule
        return rule

    def cost(self, rule: F) -> F:
        """Register the cost: metas of arguments, then of the result, to a `Cost`."""
        self.op.cost_rule = rule
        for variant in self.variants:
            variant.cost_rule = rule
        return rule

    def exact_out(self) -> OperatorPage:
        """Let the ``out=`` forms refuse outputs of another dtype than the result's."""
        for variant in self.variants:
            count = 0
            if Tag.out in variant.tags:
                count = variant._schema_text.rpartition("->")[2].count("!")
            if count:
                set_shape_rule(variant, out_shape(self.op, count, check_same_dtype))
        return _as_function(self)

    def any_device(self, *, when: Callable[..., bool] | None = None) -> OperatorPage:
        """Let operands be on different devices; the shape rule checks them itself.

        when: asked with the shape rule's arguments whether they may be this time; it may refuse
        them in its own words. Results are then where the shape rule says.
        """
        for op in (self.op, *self.variants):
            op.free_devices = when or True
        return _as_function(self)


def define(
    schema: str, *, tags: Iterable[Tag] = (), variants: Iterable[Variant | str] = ()
) -> OperatorPage:
    """Open the page of a new operator.

    variants: `Variant.INPLACE`, or ``pow_.Scalar`` where its overload has another name;
    `Variant.OUT`, or the name of the out= overload where it is not the overload's own name followed
    by ``_out``, or its whole schema where it has several outputs.
    """
    place = caller_place()
    page = OperatorPage(define_overload(schema, tags, place))
    for variant in variants:
        page.variants.append(_derive(page.op, variant, list(tags), place))
    return _as_function(page)


def _as_function(page: OperatorPage) -> OperatorPage:
    """The entry function of a page's operator, dressed as the page."""
    entry = page.op._call
    entry.__doc__ = page.op._schema_text
    # Spelled out, for there are 1,500 pages: a loop over names would take 2 ms of the import.
    entry.__dict__ |= {
        "any_device": page.any_device,
        "batching": page.batching,
        "composite": page.composite,
        "cost": page.cost,
        "derivative": page.derivative,
        "diagonal": page.diagonal,
        "exact_out": page.exact_out,
        "explicit": page.explicit,
        "kernel": page.kernel,
        "nondifferentiable": page.nondifferentiable,
        "op": page.op,
        "shape": page.shape,
        "variants": page.variants,
    }
    return cast(OperatorPage, entry)


def set_shape_rule(op: OpOverload, rule: Callable[..., object]) -> None:
    """Give ``op`` its shape rule and, by it, kernels for data, meta and fake tensors."""
    op.shape_rule = rule
    if op.has_kernel_for_dispatch_key(DispatchKey.Meta):
        op.invalidate()
    else:
        op.register_for_good(_BACKENDS_OR_NONE if op.takes_numbers else _BACKENDS, _BY_BACKEND)


_BY_BACKEND = Kernel(backend_kernel)
_BACKENDS = (DispatchKey.CPU, DispatchKey.CUDA, DispatchKey.Meta)
# Numbers alone, as in add(1, 2): no argument names a backend, the result is on cpu.
_BACKENDS_OR_NONE = (*_BACKENDS, DispatchKey.Undefined)


def derivatives_of(op: OpOverload) -> Derivatives:
    """The operator's derivatives, made when first asked for."""
    known = op.derivatives
    if not isinstance(known, Derivatives):
        known = op.derivatives = Derivatives()
    return known


def _derive(base: OpOverload, variant: Variant | str, tags: list[Tag], place: str) -> OpOverload:
    tags = [tag for tag in tags if tag is not Tag.core]
    if variant is Variant.INPLACE or _names_in_place(variant):
        schema = inplace_schema(base._schema_text, variant if isinstance(variant, str) else None)
        op = define_overload(schema, [*tags, Tag.inplace], place)
        set_shape_rule(op, inplace_shape(base))
        op.array_kernel = writing(base)
    else:
        schema = _out_schema(base, variant)
        op = define_overload(schema, [*tags, Tag.out], place)
        # By the text: parsing all schemas here would be a tenth of `import maquette`.
        count = schema.rpartition("->")[2].count("!")
        set_shape_rule(op, out_shape(base, count))
        op.array_kernel = writing_out(base, count)
    op.derivatives = base.derivatives
    return op


def _names_in_place(variant: Variant | str) -> bool:
    """Whether a variant is named as in-place forms are: ``pow_.Scalar``, ``ldexp_``."""
    return isinstance(variant, str) and variant.partition(".")[0].endswith("_")


def _out_schema(base: OpOverload, variant: Variant | str) -> str:
    if isinstance(variant, str) and "(" in variant:
        return variant
    return out_schema(base._schema_text, variant if isinstance(variant, str) else None)


def _positional(function: Callable[..., object]) -> Callable[..., Callable[..., object]]:
    """The factory of a kernel that leaves out the key set: spelled out, it packs no tuple."""

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        names = ", ".join(f"p{i}" for i in range(len(op._schema.arguments)))
        space: dict[str, object] = {"_function": function}
        source = f"def _kernel(_ks, {names}):\n    return _function({names})\n"
        exec(compiled(source, "composite"), space)
        kernel = space["_kernel"]
        assert callable(kernel)
        return kernel

    return factory


def _diagonal(slope: Callable[..., Tensor | complex]) -> Callable[..., Tensor]:
    """The reverse formula ``grad * conj(slope)`` of what the slope asks for."""

    def formula(grad: Tensor, *values: object) -> Tensor:
        return _times(grad, slope(*values))

    return formula


def _times(grad: Tensor, slope: Tensor | complex) -> Tensor:
    if isinstance(slope, Tensor) and slope.is_complex():
        slope = slope.conj()
    return grad * slope


__all__ = [
    "Cost",
    "OperatorPage",
    "TensorMeta",
    "Variant",
    "define",
    "derivatives_of",
    "python_kernel",
    "set_shape_rule",
]
