"""What `torch._custom_op` refuses: names, schemas, signatures, devices."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from maquette.dispatch.keysets import DispatchKey, key_parse
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.schema import FunctionSchema
from maquette.torch._library.utils import is_functional_schema

SUPPORTED_DEVICE_TYPE_TO_KEY = {"cpu": "CPU", "cuda": "CUDA"}
RESERVED_NS = {"aten", "at", "prim", "prims", "torch", "pytorch"}

_RETURNED = ("Tensor", "Tensor[]", "int", "SymInt", "bool", "float")
_PASSED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def parse_qualname(qualname: str) -> tuple[str, str]:
    """The namespace and the name of ``ns::name``; ValueError for anything else."""
    namespace, separator, name = qualname.partition("::")
    if not separator:
        raise ValueError(f"expected the name of an operator with its namespace, got {qualname!r}")
    if "." in name:
        raise ValueError(f"expected a name without an overload, ns::name, got {qualname!r}")
    return namespace, name


def check_namespace(namespace: str) -> None:
    """ValueError for a namespace with dots, or of PyTorch's own."""
    if "." in namespace:
        raise ValueError(f"expected a namespace without dots, got {namespace!r}")
    if namespace in RESERVED_NS:
        raise ValueError(f"{namespace!r} is a reserved namespace; choose another one")


def check_function(function: Any, name: str) -> None:
    """ValueError unless it is a Python function of that name."""
    if not inspect.isfunction(function):
        raise ValueError(f"custom_op: expected a Python function, got a {type(function).__name__}")
    if function.__name__ != name:
        raise ValueError(
            f"custom_op: expected the function to have name {name!r}, as the operator, got "
            f"{function.__name__!r}"
        )


def check_functional(schema: FunctionSchema) -> None:
    """ValueError unless the operator is functional, and no argument of it is called self."""
    if not is_functional_schema(schema):
        raise ValueError(
            f"custom_op only supports functional operators, which give something and neither "
            f"mutate nor alias their inputs, got {schema}"
        )
    if any(a.name == "self" for a in schema.arguments):
        raise ValueError(f"custom_op does not support an argument called self, got {schema}")


def check_signature(schema: FunctionSchema, function: Callable[..., object]) -> None:
    """ValueError unless the function's parameters are those of the schema, without more."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if not all(p.kind in _PASSED for p in parameters):
        raise ValueError(
            f"custom_op: positional-only parameters, *args and **kwargs are not supported, got "
            f"{signature}"
        )
    empty = inspect.Parameter.empty
    annotated = [p.annotation for p in parameters] + [signature.return_annotation]
    if any(annotation is not empty for annotation in annotated):
        raise ValueError(
            f"custom_op: a function whose schema is given is to have no type annotations, got "
            f"{signature}"
        )
    named = [(p.name, p.kind is inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    if named != [(a.name, a.kwarg_only) for a in schema.arguments]:
        raise ValueError(
            f"custom_op: expected the function's signature to match the schema, got {signature} "
            f"and {schema}"
        )
    if any(p.default is not empty for p in parameters) or any(
        a.has_default_value() for a in schema.arguments
    ):
        raise ValueError(
            f"custom_op: neither the function nor its schema may have default arguments, got "
            f"{signature} and {schema}"
        )


def device_keys(device_types: str | Iterable[str]) -> dict[str, str]:
    """The dispatch key of each device type; ValueError for other devices than cpu and cuda."""
    types = [device_types] if isinstance(device_types, str) else list(device_types)
    for device_type in types:
        if device_type not in SUPPORTED_DEVICE_TYPE_TO_KEY:
            raise ValueError(
                f"impl(device_types={types}): we only support device_type in "
                f"{list(SUPPORTED_DEVICE_TYPE_TO_KEY)}"
            )
    return {device_type: SUPPORTED_DEVICE_TYPE_TO_KEY[device_type] for device_type in types}


def check_no_kernel(op: OpOverload, key: str, what: str) -> None:
    """RuntimeError where a call at the key is served by a kernel of a library."""
    if op.has_kernel_for_dispatch_key(key_parse(key)) or any(
        op.has_kernel_for_dispatch_key(key_parse(composite)) for composite in _COMPOSITES
    ):
        raise RuntimeError(
            f"{what}: the operator {op} already has an implementation for {key}, registered by "
            f"torch.library"
        )


_COMPOSITES = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")


def check_no_fake(op: OpOverload) -> None:
    """RuntimeError where a library answers for tensors without data."""
    if op.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd):
        raise RuntimeError(
            f"impl_abstract: the operator {op} already has an implementation at "
            f"CompositeImplicitAutograd: what it calls answers for tensors without data"
        )
    if op.has_kernel_for_dispatch_key(DispatchKey.Meta):
        raise RuntimeError(
            f"impl_abstract: the operator {op} already has a DispatchKey::Meta implementation, "
            f"registered by torch.library"
        )


def check_no_autograd(op: OpOverload) -> None:
    """RuntimeError where a library says how the operator is differentiated."""
    for key in ("CompositeImplicitAutograd", "Autograd", "AutogradCPU", "AutogradCUDA"):
        if op.has_kernel_for_dispatch_key(key_parse(key)):
            raise RuntimeError(
                f"impl_backward, impl_save_for_backward: the operator {op} already has an "
                f"implementation at DispatchKey::{key}, registered by torch.library"
            )


def check_differentiable(schema: FunctionSchema, name: str) -> None:
    """RuntimeError unless a formula can be registered for an operator with this schema."""

    def refuse(what: str) -> None:
        raise RuntimeError(
            f"torch._custom_ops cannot register a backward formula for {what}: {name} has the "
            f"schema {schema}"
        )

    if schema.is_mutable:
        refuse("a non-functional operator")
    if not schema.returns:
        refuse("an operator with no returns")
    if any(r.alias_info is not None for r in schema.returns):
        refuse("an operator that returns views")
    for r in schema.returns:
        if r.type.written not in _RETURNED:
            refuse(f"an operator with return not in {list(_RETURNED)} (got {r.type.written})")
