"""The parameters of what nodes call, and arguments by the names of parameters.

Functions of the Python face are described by the schemas of their operators, Python functions and
modules by their own signatures.
"""

from __future__ import annotations

import enum
import inspect
import numbers
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from maquette.api.function_homes import own_module
from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout, memory_format
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import PACKETS, OpOverloadPacket, find_packet
from maquette.dispatch.schemas.schema import FunctionSchema
from maquette.dispatch.schemas.types import SchemaType
from maquette.fx.compatibility import compatibility
from maquette.fx.node import NORMALIZE, Argument, Node, Target
from maquette.tensor.streams.generator import Generator
from maquette.tensor.tensor import Tensor


@compatibility(is_backward_compatible=False)
class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


_NO_DEFAULT = inspect.Parameter.empty
_manual_overrides: dict[Callable[..., Any], list[inspect.Signature]] = {}

_TYPES: dict[str, Any] = {
    "tensor": Tensor,
    "int": int,
    "symint": int,
    "float": float,
    "symfloat": float,
    "bool": bool,
    "symbool": bool,
    "str": str,
    "scalar": numbers.Number,
    "complex": complex,
    "dtype": dtype,
    "layout": layout,
    "memory_format": memory_format,
    "device": device,
    "generator": Generator,
    "none": type(None),
}


def _python_type(kind: SchemaType) -> Any:
    """The Python type of a schema's."""
    if kind.is_optional:
        return typing.Optional[_python_type(kind.elem)]  # noqa: UP045  # tests look for Union
    if kind.is_list:
        return typing.List[_python_type(kind.elem)]  # type: ignore[misc]  # noqa: UP006
    if kind.kind in _CONTAINERS:
        return _CONTAINERS[kind.kind][tuple(map(_python_type, kind.params))]
    return _TYPES.get(kind.kind, Any)


_CONTAINERS: dict[str, Any] = {"tuple": typing.Tuple, "dict": typing.Dict}  # noqa: UP006
_torchscript_type_to_python_type = _python_type  # what PyTorch's helpers call it


def signature_of_schema(schema: FunctionSchema) -> inspect.Signature:
    """The Python signature of a schema: ``self`` is called ``input``."""
    parameters = []
    optional = False
    for argument in schema.arguments:
        default = argument.default_value if argument.has_default_value() else _NO_DEFAULT
        positional = not argument.kwarg_only
        if positional and optional and default is _NO_DEFAULT:
            default = None  # a list may follow without one, which Python does not have
        optional = optional or (positional and default is not _NO_DEFAULT)
        name = "input" if argument.name == "self" else argument.name
        if name == "from":
            name = "from_"
        kind = (
            inspect.Parameter.POSITIONAL_OR_KEYWORD
            if positional
            else inspect.Parameter.KEYWORD_ONLY
        )
        annotation = _python_type(argument.type)
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=annotation))
    returns: list[Any] = [_python_type(r.type) for r in schema.returns]
    result: Any
    if not returns:
        result = None
    elif len(returns) == 1:
        result = returns[0]
    else:
        result = tuple(returns)
    return inspect.Signature(parameters, return_annotation=result)


def _packet_of(op: Callable[..., Any]) -> OpOverloadPacket | None:
    """The operator of which a function is the Python face, or the one that it is."""
    if isinstance(op, OpOverloadPacket):
        return op
    face_of = getattr(op, "__wrapped_packet__", None)
    if face_of is not None:
        return cast(OpOverloadPacket, face_of)
    if not isinstance(op, types.FunctionType):
        return None
    if own_module(op) == "maquette":
        return PACKETS.get(f"aten::{op.__name__}")
    if own_module(op).startswith("maquette.nn.functional"):
        return _functional_packet(op)
    return None


def _functional_packet(op: types.FunctionType) -> OpOverloadPacket | None:
    """The operator of which a function of `nn.functional` is no more than the call."""
    packet = find_packet(f"aten::{_OTHER_NAMES.get(op.__name__, op.__name__)}")
    if packet is None:
        return None
    mine = [n for n in inspect.signature(op).parameters if n != "out"]
    for overload in packet.op_overloads():
        signature = signature_of_schema(overload._schema)
        if [n for n in signature.parameters if n != "out"] == mine:
            return packet
    return None


_OTHER_NAMES = {"logsigmoid": "log_sigmoid"}


@compatibility(is_backward_compatible=False)
def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """The signatures of a function of ours that is an operator's, or None.

    return_schemas: give the pair of them and the operator's schemas.
    """
    if isinstance(op, OpOverload):
        schemas = [op._schema]
    else:
        override = _manual_overrides.get(op)
        if override:
            return (override, None) if return_schemas else None
        packet = _packet_of(op)
        if packet is None:
            return (None, None) if return_schemas else None
        schemas = [o._schema for o in packet.op_overloads()]
    signatures = [signature_of_schema(s) for s in schemas]
    return (signatures, schemas) if return_schemas else signatures


@compatibility(is_backward_compatible=False)
def check_for_mutable_operation(
    target: Callable[..., Any], args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> None:
    """Refuse a call that writes to an argument: RuntimeError, which names the schema."""
    signatures, schemas = get_signature_for_torch_op(target, return_schemas=True)
    if not signatures or not schemas:
        return
    fitting = []
    for signature, schema in zip(signatures, schemas):
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        fitting.append(schema)
    mutable = [s for s in fitting if s.is_mutable]
    if fitting and len(mutable) == len(fitting):
        raise RuntimeError(
            f"Tried to trace mutable operation {mutable[0]}. FX only supports functional code, so "
            f"operations that mutate operands in-place (e.g. via `out` arguments) are not supported"
        )


@compatibility(is_backward_compatible=False)
def create_type_hint(x: Any) -> Any:
    """The type that a list or tuple of types stands for: ``[int, int]`` is ``List[int]``."""
    if not isinstance(x, list | tuple):
        return x
    wrap: Any = typing.List if isinstance(x, list) else typing.Tuple  # noqa: UP006
    if not x:
        return wrap[Any] if isinstance(x, list) else typing.Tuple[Any, ...]  # noqa: UP006
    base = x[0]
    for t in x:
        if issubclass(t, base):
            continue
        if issubclass(base, t):
            base = t
        else:
            base = Any
            break
    return wrap[base] if isinstance(x, list) else typing.Tuple[base, ...]  # noqa: UP006


@compatibility(is_backward_compatible=False)
def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether an argument of one type fits a parameter of another."""
    if signature_type is argument_type or signature_type is Any:
        return True
    origin = typing.get_origin(signature_type)
    if origin is typing.Union or origin is types.UnionType:
        return any(type_matches(t, argument_type) for t in typing.get_args(signature_type))
    if origin is list:
        inner = typing.get_args(signature_type)[0]
        given = typing.get_origin(argument_type)
        if given in (list, tuple):
            return all(t is ... or type_matches(inner, t) for t in typing.get_args(argument_type))
        return argument_type in (list, tuple) or (inner is int and argument_type is int)
    if signature_type is numbers.Number:
        return argument_type in (int, float, bool, complex)
    if (signature_type, argument_type) in ((float, int), (int, dtype)):  # schemas take ScalarType
        return True
    given_origin = typing.get_origin(argument_type) or argument_type
    return (
        inspect.isclass(given_origin)
        and inspect.isclass(signature_type)
        and issubclass(given_origin, signature_type)
    )


@compatibility(is_backward_compatible=False)
def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call by the names of the function's parameters.

    arg_types and kwarg_types choose among overloads; RuntimeError where several fit without them.
    None where the parameters are not known.
    """
    kwargs = {} if kwargs is None else kwargs
    signatures = get_signature_for_torch_op(target)
    if signatures is None:
        if not isinstance(target, types.FunctionType):
            return None
        return _normalized(inspect.signature(target), args, kwargs, normalize_to_only_use_kwargs)
    fitting = []
    for signature in signatures:
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        fitting.append(signature)
    if not fitting:
        return None
    if len(fitting) > 1:
        chosen = _by_types(fitting, args, kwargs, arg_types, kwarg_types)
        if chosen is None:
            if arg_types is None and kwarg_types is None:
                texts = "\n".join(map(str, fitting))
                raise RuntimeError(
                    f"Tried to normalize arguments to {target} but the schema match was ambiguous! "
                    f"Please provide argument types to the normalize_arguments() call. Available "
                    f"schemas:\n{texts}"
                )
            return None
        fitting = [chosen]
    return _normalized(fitting[0], args, kwargs, normalize_to_only_use_kwargs)


def _by_types(
    signatures: list[inspect.Signature],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    arg_types: tuple[Any, ...] | None,
    kwarg_types: dict[str, Any] | None,
) -> inspect.Signature | None:
    """The first signature whose parameters the types of the arguments fit."""
    if arg_types is None and kwarg_types is None:
        return None
    for signature in signatures:
        bound = signature.bind(*(arg_types or ()), **(kwarg_types or {}))
        if all(
            type_matches(signature.parameters[name].annotation, given)
            for name, given in bound.arguments.items()
        ):
            return signature
    return None


@compatibility(is_backward_compatible=False)
def normalize_module(
    root: Any,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a submodule by the names of its ``forward``'s parameters.

    None for a module that is no class of `nn`; RuntimeError where ``root`` has none at ``target``.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    if not type(module).__module__.startswith(("maquette.nn", "torch.nn")):
        return None
    signature = inspect.signature(module.forward)
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _normalized(
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    only_kwargs: bool,
) -> ArgsKwargsPair | None:
    """Arguments under a signature: positional where it has them so, or all by name."""
    kinds = {p.kind for p in signature.parameters.values()}
    if kinds - {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}:
        return None
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for i, name in enumerate(signature.parameters):
        if not only_kwargs and i < len(args):
            positional.append(bound.arguments[name])
        else:
            named[name] = bound.arguments[name]
    return ArgsKwargsPair(tuple(positional), named)


def _normalize_node(
    node: Node,
    root: Any,
    arg_types: tuple[Any, ...] | None,
    kwarg_types: dict[str, Any] | None,
    only_kwargs: bool,
) -> ArgsKwargsPair | None:
    """See `Node.normalized_arguments`."""
    target: Target = node.target
    if node.op == "call_function":
        assert callable(target)
        return normalize_function(
            target, node.args, node.kwargs, arg_types, kwarg_types, only_kwargs
        )
    if node.op == "call_module":
        assert isinstance(target, str)
        return normalize_module(root, target, node.args, node.kwargs, only_kwargs)
    return None


NORMALIZE[0] = _normalize_node
__all__ = ["ArgsKwargsPair", "enum", "normalize_function", "normalize_module"]
