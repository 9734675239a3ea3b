"""`torch._library.utils`: questions about operators and their schemas."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.parser import parse_schema
from maquette.dispatch.schemas.schema import Argument, FunctionSchema
from maquette.dispatch.schemas.types import SchemaType
from maquette.dispatch.tags import Tag
from maquette.library.registrations import Undo, find_overload
from maquette.tensor.tensor import Tensor

_BUILT_IN = frozenset(("aten", "prim", "prims", "symm_mem"))


class RegistrationHandle:
    """Undoes a registration."""

    def __init__(self, on_destroy: Undo) -> None:
        self._on_destroy = on_destroy

    def destroy(self) -> None:
        """Undo it."""
        self._on_destroy()


# --- names ---------------------------------------------------------------------------


def parse_namespace(qualname: str) -> tuple[str, str]:
    """The namespace and the name of ``ns::name``; ValueError for anything else."""
    namespace, separator, name = qualname.partition("::")
    if not separator or "::" in name:
        raise ValueError(f"expected the name of an operator as ns::name, got {qualname!r}")
    return namespace, name


def lookup_op(qualname: str) -> OpOverload:
    """The overload of ``ns::name`` or ``ns::name.overload``; AttributeError if there is none."""
    parse_namespace(qualname)
    found = find_overload(qualname)
    if found is None:
        raise AttributeError(f"there is no operator {qualname}")
    return found


def is_builtin(op: OpOverload) -> bool:
    """Whether the operator is PyTorch's own."""
    return op.namespace in _BUILT_IN


def is_out(op: OpOverload) -> bool:
    """Whether the operator is tagged as one that writes to ``out=``."""
    return Tag.out in op.tags


def is_inplace(op: OpOverload) -> bool:
    """Whether the operator is tagged as one that writes to its first argument."""
    return Tag.inplace in op.tags


# --- schemas -------------------------------------------------------------------------


def is_functional_schema(schema: object, *, allow_valid_view: bool = False) -> bool:
    """Whether an operator gives something, writes nothing and gives no view of its inputs.

    schema: a schema or its text. allow_valid_view: take one view of the first argument.
    """
    parsed = schema if isinstance(schema, FunctionSchema) else parse_schema(str(schema))
    if parsed.is_mutable or not parsed.returns:
        return False
    views = [r for r in parsed.returns if r.alias_info is not None]
    if not allow_valid_view:
        return not views
    return not views or (len(parsed.returns) == 1 and parsed.arguments[0].alias_info is not None)


def is_tensorlist_like_type(typ: SchemaType) -> bool:
    """Whether values are lists of tensors, which may be None as may be their elements."""
    return typ.written.startswith("Tensor") and "[" in typ.written


def is_tensor_like_type(typ: SchemaType) -> bool:
    """Whether values are tensors, or None."""
    return typ.written in ("Tensor", "Tensor?")


def mutates_and_returns_first_arg(op: OpOverload) -> bool:
    """Whether the operator writes to its first argument alone and gives it back."""
    schema = op._schema
    if len(schema.returns) != 1 or not schema.arguments:
        return False
    first, *others = schema.arguments
    given = schema.returns[0].alias_info
    own = first.alias_info
    if own is None or not own.is_write or given is None or own.before_set != given.before_set:
        return False
    return not any(a.alias_info is not None for a in others)


def has_kwarg_only_args(schema: FunctionSchema) -> bool:
    """Whether an argument is given by keyword only."""
    return any(a.kwarg_only for a in schema.arguments)


def has_kwarg_only_tensors(schema: FunctionSchema) -> bool:
    """Whether a tensor, or a list of them, is given by keyword only."""
    return any(a.kwarg_only and _has_tensors(a) for a in schema.arguments)


def has_tensor_arg(schema: FunctionSchema) -> bool:
    """Whether the operator takes a tensor, or a list of them."""
    return any(_has_tensors(a) for a in schema.arguments)


def _has_tensors(a: Argument) -> bool:
    return is_tensor_like_type(a.type) or is_tensorlist_like_type(a.type)


def get_device_arg_index(schema: FunctionSchema) -> int | None:
    """Where the argument ``device`` stands; None if there is none."""
    names = [a.name for a in schema.arguments]
    return names.index("device") if "device" in names else None


def mutated_args_kwargs(schema: FunctionSchema) -> tuple[list[int], list[str]]:
    """What is written: positions of arguments, and names of those given by keyword only."""
    written = [(i, a) for i, a in enumerate(schema.arguments) if a.is_write]
    by_position = [i for i, a in written if not a.kwarg_only]
    return by_position, [a.name for _, a in written if a.kwarg_only]


# --- calls ---------------------------------------------------------------------------


def fill_defaults(
    schema: FunctionSchema, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with the defaults of those left out."""
    positional = [a for a in schema.arguments if not a.kwarg_only]
    filled = [
        args[i] if i < len(args) else kwargs.get(a.name, a.default_value)
        for i, a in enumerate(positional)
    ]
    named = {a.name: kwargs.get(a.name, a.default_value) for a in schema.arguments if a.kwarg_only}
    return tuple(filled), named


def zip_schema(
    schema: FunctionSchema, args: Sequence[Any], kwargs: dict[str, Any]
) -> Iterator[tuple[Argument, Any]]:
    """Each argument of the schema that a call gives, with its value."""
    for i, a in enumerate(schema.arguments):
        if a.name in kwargs:
            yield a, kwargs[a.name]
        elif i < len(args) and not a.kwarg_only:
            yield a, args[i]


def iter_tensors(
    args: Sequence[Any], kwargs: dict[str, Any], allowed_nesting: int = 1
) -> Iterator[Tensor]:
    """The tensors among arguments, and in lists as deep as allowed."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            yield value
        elif allowed_nesting > 0 and isinstance(value, (tuple, list)):
            yield from iter_tensors(tuple(value), {}, allowed_nesting - 1)


def has_fake_kernel(op: OpOverload) -> bool:
    """Whether calls on fake tensors are answered."""
    keys = (DispatchKey.Fake, DispatchKey.Meta, DispatchKey.CompositeImplicitAutograd)
    return op.facts.shape is not None or any(op.has_kernel_for_dispatch_key(k) for k in keys)


def get_source(stacklevel: int) -> str:
    """The file and line of the caller so many frames up."""
    frame = sys._getframe(stacklevel)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
