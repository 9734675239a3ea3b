"""`torch._custom_ops`: functions that define an operator and register for it, by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from maquette.dispatch.tags import Tag
from maquette.library import get_ctx, infer_schema, register_fake
from maquette.torch._custom_op.checks import check_function, check_namespace, parse_qualname
from maquette.torch._custom_op.impl import _find_custom_op, defined

F = TypeVar("F", bound=Callable[..., Any])


def custom_op(qualname: str, func_or_schema: Any = None) -> Any:
    """Define a functional operator by a schema, or by a function that shows the signature.

    A decorator without either. Raises ValueError for names and schemas that are not supported.
    """
    namespace, name = parse_qualname(qualname)
    check_namespace(namespace)

    def define(schema: str) -> None:
        defined(namespace, name, schema, [Tag.needs_fixed_stride_order])

    def decorate(function: F) -> F:
        check_function(function, name)
        define(infer_schema(function, mutates_args=()))
        return function

    if isinstance(func_or_schema, str):
        define(func_or_schema)
        return None
    return decorate if func_or_schema is None else decorate(func_or_schema)


def _registered(register: Callable[[F], F], func: F | None) -> Any:
    return register if func is None else register(func)


def impl(
    qualname: str, *, device_types: str | Iterable[str] = ("cpu", "cuda"), func: Any = None
) -> Any:
    """Register an implementation for device types; a decorator without ``func``."""

    def register(function: F) -> F:
        return _find(qualname).impl(device_types)(function)

    return _registered(register, func)


def impl_abstract(qualname: str, *, func: Any = None) -> Any:
    """`torch.library.register_fake`, as it was called."""
    return register_fake(qualname, func)


def impl_save_for_backward(qualname: str, *, func: Any = None) -> Any:
    """Register what says what backward needs; a decorator without ``func``."""

    def register(function: F) -> F:
        return _find(qualname).impl_save_for_backward()(function)

    return _registered(register, func)


def impl_backward(
    qualname: str, output_differentiability: list[bool] | None = None, *, func: Any = None
) -> Any:
    """Register the backward function; a decorator without ``func``."""

    def register(function: F) -> F:
        return _find(qualname).impl_backward(output_differentiability)(function)

    return _registered(register, func)


def _find(qualname: str) -> Any:
    return _find_custom_op(qualname, also_check_torch_library=True)


def _destroy(qualname: str) -> None:
    """Take an operator away that was made here."""
    _find_custom_op(qualname)._destroy()


__all__ = [
    "custom_op",
    "get_ctx",
    "impl",
    "impl_abstract",
    "impl_backward",
    "impl_save_for_backward",
]
