"""`torch._custom_op.impl`: `CustomOp`, a functional operator that functions are registered for."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from maquette.dispatch.kernels import caller_place
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.parser import parse_schema
from maquette.dispatch.schemas.schema import FunctionSchema
from maquette.dispatch.tags import Tag
from maquette.library import Library, get_ctx, infer_schema
from maquette.library.registrations import find_overload
from maquette.torch._custom_op.autograd import autograd_kernel
from maquette.torch._custom_op.checks import (
    RESERVED_NS,
    SUPPORTED_DEVICE_TYPE_TO_KEY,
    check_differentiable,
    check_function,
    check_functional,
    check_namespace,
    check_no_autograd,
    check_no_fake,
    check_no_kernel,
    check_signature,
    device_keys,
    parse_qualname,
)

F = TypeVar("F", bound=Callable[..., Any])

global_registry: Final[dict[str, CustomOp]] = {}
"""The `CustomOp` of each qualified name; it lives until its ``_destroy``."""


class FuncAndLocation(NamedTuple):
    """A function, and the line that registered it."""

    func: Callable[..., Any]
    location: str


class CustomOp:
    """An operator and what is registered for it. Made by `custom_op`, replaced by torch.library's.

    kinds of what is registered: "cpu", "cuda", "factory", "abstract", "save_for_backward",
    "backward".
    """

    def __init__(
        self,
        lib: Library,
        cpp_ns: str,
        schema: FunctionSchema,
        operator_name: str,
        ophandle: OpOverload,
        *,
        _private_access: bool = False,
    ) -> None:
        if not _private_access:
            raise RuntimeError("the CustomOp constructor is private: call custom_op(...) for one")
        self._lib = lib
        self._schema = schema
        self._opname = self.__name__ = operator_name
        self._qualname = f"{cpp_ns}::{operator_name}"
        self._overload = ophandle
        self._impls: dict[str, FuncAndLocation] = {}
        self._output_differentiability: list[bool] | None = None
        self._has_autograd = False
        global_registry[self._qualname] = self

    def __repr__(self) -> str:
        return f'<CustomOp(op="{self._qualname}")>'

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._overload(*args, **kwargs)

    # --- what there is ---------------------------------------------------------------

    def _has_impl(self, kind: str) -> bool:
        return kind in self._impls

    def _get_impl(self, kind: str) -> FuncAndLocation:
        return self._impls[kind]

    def _register_impl(self, kind: str, func: Callable[..., Any]) -> None:
        if kind in self._impls:
            raise RuntimeError(
                f"{self} already has a {kind} impl, registered at {self._impls[kind].location}"
            )
        self._impls[kind] = FuncAndLocation(func, caller_place())

    def _destroy(self) -> None:
        """Take the operator away."""
        self._lib._destroy()
        global_registry.pop(self._qualname, None)

    # --- registering -----------------------------------------------------------------

    def impl(self, device_types: str | Iterable[str], _stacklevel: int = 2) -> Callable[[F], F]:
        """Register the implementation for device types, "cpu" and "cuda".

        Raises ValueError for another one, RuntimeError where there is an implementation already.
        """
        keys = device_keys(device_types)

        def register(function: F) -> F:
            for kind, key in keys.items():
                if not self._has_impl(kind):
                    check_no_kernel(self._overload, key, f"impl(device_types={kind!r})")
                self._register_impl(kind, function)
                self._lib.impl(self._opname, function, key)
            return function

        return register

    def impl_factory(self) -> Callable[[F], F]:
        """Register the implementation of an operator that takes no tensors."""

        def register(function: F) -> F:
            self._register_impl("factory", function)
            self._lib.impl(self._opname, function, "BackendSelect")
            return function

        return register

    def impl_abstract(self, _stacklevel: int = 2) -> Callable[[F], F]:
        """Register what answers for tensors without data; RuntimeError where something does."""

        def register(function: F) -> F:
            if not self._has_impl("abstract"):
                check_no_fake(self._overload)
            self._register_impl("abstract", function)
            self._lib.impl(self._opname, function, "Meta")
            return function

        return register

    def impl_save_for_backward(self, _stacklevel: int = 2) -> Callable[[F], F]:
        """Register ``save(inputs, output)``, which gives what backward needs."""

        def register(function: F) -> F:
            self._register_half("save_for_backward", function)
            return function

        return register

    def impl_backward(
        self, output_differentiability: list[bool] | None = None, _stacklevel: int = 2
    ) -> Callable[[F], F]:
        """Register ``backward(ctx, saved, *grads)``, which gives gradients by the inputs' names.

        output_differentiability: for each output whether it has a gradient. RuntimeError for
        anything else, and for an operator that cannot have a formula or has one.
        """
        said = output_differentiability
        if said is not None and not (
            isinstance(said, list)
            and all(isinstance(d, bool) for d in said)
            and len(said) == len(self._schema.returns)
        ):
            raise RuntimeError(
                f"impl_backward: expected output_differentiability to be a list of "
                f"{len(self._schema.returns)} bools, one for each output, got {said}"
            )

        def register(function: F) -> F:
            self._register_half("backward", function)
            self._output_differentiability = said
            return function

        return register

    def _register_half(self, kind: str, function: Callable[..., Any]) -> None:
        check_differentiable(self._schema, self._qualname)
        if not self._has_autograd:
            check_no_autograd(self._overload)
            self._register_autograd()
        self._register_impl(kind, function)

    def _register_autograd(self) -> None:
        itself: Any = weakref.proxy(self)  # the library, which is its own, holds the kernel
        self._lib.impl(self._opname, autograd_kernel(itself), "Autograd")
        self._has_autograd = True


def custom_op(qualname: str, manual_schema: str | None = None) -> Callable[[Any], CustomOp]:
    """Decorate a function that only shows the signature; the `CustomOp` with its name.

    manual_schema: the schema, where it is not to be read off annotations. Raises ValueError for
    what is no functional operator, or a function that does not fit.
    """
    warnings.warn(
        "torch._custom_op was replaced by torch.library.custom_op",
        DeprecationWarning,
        stacklevel=2,
    )

    def decorate(function: Any) -> CustomOp:
        namespace, name = parse_qualname(qualname)
        check_namespace(namespace)
        check_function(function, name)
        schema = manual_schema or infer_schema(function, mutates_args=())
        parsed = _parsed(f"{namespace}::{name}{schema}")
        check_functional(parsed)
        if manual_schema is not None:
            check_signature(parsed, function)
        made = defined(namespace, name, schema)
        made.__module__, made.__doc__ = function.__module__, function.__doc__
        return made

    return decorate


def _parsed(schema: str) -> FunctionSchema:
    try:
        return parse_schema(schema)
    except RuntimeError as error:
        said = schema.partition("::")[2]
        raise AssertionError(f"Invalid function schema: {said}: {error}") from error


def defined(namespace: str, name: str, schema: str, tags: Iterable[Tag] = ()) -> CustomOp:
    """A new operator, whose gradient is refused until it is registered."""
    check_functional(_parsed(f"{namespace}::{name}{schema}"))
    lib = Library(namespace, "FRAGMENT")
    lib.define(f"{name}{schema}", tags=list(tags))
    op = get_op(f"{namespace}::{name}")
    made = CustomOp(lib, namespace, op._schema, name, op, _private_access=True)
    made._register_autograd()
    return made


def get_op(qualname: str) -> OpOverload:
    """The default overload of ``ns::name``; ValueError if there is none."""
    parse_qualname(qualname)
    found = find_overload(qualname)
    if found is None:
        raise ValueError(f"there is no operator {qualname}; define it, or import what does")
    return found


def _find_custom_op(qualname: str, also_check_torch_library: bool = False) -> CustomOp:
    """The `CustomOp` of a name; of an operator of torch.library a new one, if that is asked for."""
    if qualname in global_registry:
        return global_registry[qualname]
    if not also_check_torch_library:
        raise RuntimeError(f"there is no custom op {qualname!r} made by torch._custom_ops")
    op = get_op(qualname)
    namespace, name = parse_qualname(qualname)
    lib = Library(namespace, "FRAGMENT")
    return CustomOp(lib, namespace, op._schema, name, op, _private_access=True)


def get_abstract_impl(qualname: str) -> Callable[..., Any] | None:
    """What answers for tensors without data, as registered with `CustomOp.impl_abstract`."""
    op = global_registry.get(qualname)
    return op._get_impl("abstract").func if op is not None and op._has_impl("abstract") else None


__all__ = [
    "CustomOp",
    "DispatchKey",
    "RESERVED_NS",
    "SUPPORTED_DEVICE_TYPE_TO_KEY",
    "custom_op",
    "get_abstract_impl",
    "get_ctx",
    "get_op",
    "global_registry",
    "infer_schema",
]
