"""What overloads and higher-order operators share: tables of Python overrides (spec D64-D68).

`OperatorBase` holds kernels that users give an operator in Python with `py_impl`, by dispatch key,
by class of mode or tensor, or by transform. Kernels that libraries register are not here but in
`operator.py`. The one idea: the type of what `py_impl` gets says which table is meant.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeVar

from maquette.dispatch.abstract import TensorBase
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet
from maquette.dispatch.modes import TorchDispatchMode

F = TypeVar("F", bound=Callable[..., object])


class TransformType(enum.Enum):
    """The function transforms that an operator may have a rule for (D123)."""

    Torch = 0
    Vmap = 1
    Grad = 2
    Jvp = 3
    Functionalize = 4


Overridable = DispatchKey | type | TransformType
"""What `OperatorBase.py_impl` takes."""


FUNCTIONALIZE_IMPLS: list[Callable[[OperatorBase, Callable[..., object]], None]] = []
"""What registers a functionalization rule of an operator: a layer above gives it."""


class OperatorBase:
    """An operator: something with a name that can be called and given Python kernels."""

    def __init__(self) -> None:
        self.py_kernels: dict[DispatchKey, Callable[..., object]] = {}
        self.python_key_table: dict[type, Callable[..., object]] = {}
        self.functorch_table: dict[TransformType, Callable[..., object]] = {}
        self._dispatch_cache: dict[DispatchKey, DispatchKey | Callable[..., object]] = {}

    def __call__(self, /, *args: object, **kwargs: object) -> object:
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")

    def name(self) -> str:
        """The qualified name, ``ns::name.overload``."""
        raise NotImplementedError(f"{type(self).__name__} does not define name()")

    def has_kernel_for_dispatch_key(self, key: DispatchKey) -> bool:
        """Whether there is a kernel at exactly this key; no alias is expanded (D68)."""
        return key in self.py_kernels

    def has_kernel_for_any_dispatch_key(self, keys: DispatchKeySet) -> bool:
        """Whether there is a kernel at a runtime key of the set (D68)."""
        return any(not key.is_alias and keys.has(key) for key in self.py_kernels)

    def py_impl(self, kind: Overridable) -> Callable[[F], F]:
        """Decorate the Python kernel for a key, a mode or tensor class, or a transform (D65).

        Raises RuntimeError for a key that has one already, AssertionError for a class or transform
        that has, for `DispatchKey.Python` and for anything else.
        """

        def register(function: F) -> F:
            self._register_python(kind, function)
            return function

        return register

    def py_functionalize_impl(self, fn: F) -> F:
        """Register ``fn(ctx, *args, **kwargs)`` for functionalization in its three forms (D69).

        They are the key Functionalize, `FunctionalTensorMode` and the transform `functionalize`;
        ``ctx`` says which by what it does (D70).
        """
        FUNCTIONALIZE_IMPLS[0](self, fn)
        return fn

    def _register_python(self, kind: Overridable, function: Callable[..., object]) -> None:
        if isinstance(kind, TransformType):
            assert kind not in self.functorch_table, f"{self.name()} has a rule for {kind} already"
            self.functorch_table[kind] = function
        elif isinstance(kind, type) and (
            issubclass(kind, TorchDispatchMode | TensorBase) or hasattr(kind, "_mode_key")
        ):
            assert kind not in self.python_key_table, f"{self.name()} has a rule for {kind} already"
            self.python_key_table[kind] = function
            self._forget_dispatch()
        elif isinstance(kind, DispatchKey):
            self._register_at_key(kind, function)
        else:
            raise AssertionError(
                f"{self.name()}: py_impl takes a DispatchKey, a subclass of TorchDispatchMode or "
                f"Tensor, or a TransformType; got a {type(kind).__name__}: {kind!r}"
            )

    def _register_at_key(self, key: DispatchKey, function: Callable[..., object]) -> None:
        assert key is not DispatchKey.Python, (
            f"{self.name()}: a kernel at Python itself would take over every mode and subclass; "
            f"register it for a mode: py_impl(TheModeClass)"
        )
        if key in self.py_kernels:
            raise RuntimeError(f"{self.name()} has a Python kernel for {key} already")
        self.py_kernels[key] = function
        self._forget_dispatch()

    def _forget_dispatch(self) -> None:
        """Something that decides about kernels has changed."""
        self._dispatch_cache.clear()
