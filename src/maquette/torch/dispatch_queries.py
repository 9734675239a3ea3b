"""``torch._C._dispatch_*``: which operators there are, which kernels they have, what serves a key.

Names are ``ns::name`` or ``ns::name.overload``. An operator that is unknown is RuntimeError, but
for `_dispatch_has_kernel`, which asks just that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet
from maquette.dispatch.operator import FALLBACKS, OperatorHandle, OpOverload
from maquette.dispatch.registry import all_overloads, find_packet
from maquette.dispatch.schemas.schema import FunctionSchema
from maquette.library.library import Library
from maquette.tensor.parameter import Parameter
from maquette.tensor.tensor import Tensor

Key = str | DispatchKey


def _operator(name: str) -> OpOverload:
    qualified, _, overload = name.partition(".")
    packet = find_packet(qualified)
    found = None if packet is None else packet.find(overload)
    if found is None:
        raise RuntimeError(f"operator {name} does not exist")
    return found


def _dispatch_has_kernel(name: str) -> bool:
    """Whether there is an operator of this name."""
    try:
        return bool(_operator(name))
    except RuntimeError:
        return False


def _dispatch_call_boxed(handle: OperatorHandle, *args: Any, **kwargs: Any) -> object:
    """Call the operator that `_dispatch_find_schema_or_throw` found."""
    return handle._op(*args, **kwargs)


def _jit_get_schemas_for_operator(name: str) -> list[FunctionSchema]:
    """The schemas of the overloads of ``ns::name``."""
    packet = find_packet(name)
    return [] if packet is None else [getattr(packet, name)._schema for name in packet.overloads()]


def _jit_get_all_schemas() -> list[FunctionSchema]:
    """The schemas of all overloads that there are."""
    return [op._schema for op in all_overloads()]


def _dispatch_has_kernel_for_dispatch_key(name: str, key: Key) -> bool:
    """Whether a kernel is registered at exactly this key.

    PyTorch's own operators have their formulas at Autograd, but for those defined by others; here
    formulas stand on an operator's page, and count as that kernel.
    """
    op = _operator(name)
    if K.as_key(key) is DispatchKey.Autograd and op.namespace in ("aten", "prims"):
        return not op._can_decompose()
    return op.has_kernel_for_dispatch_key(key)


def _dispatch_has_kernel_for_any_dispatch_key(name: str, keys: DispatchKeySet) -> bool:
    """Whether a kernel is registered at a runtime key of the set."""
    return _operator(name).has_kernel_for_any_dispatch_key(keys)


def _dispatch_has_computed_kernel_for_dispatch_key(name: str, key: Key) -> bool:
    """Whether anything serves a runtime key: a kernel, one of an alias, or a fallback."""
    key = K.as_key(key)
    if key.is_alias:
        raise RuntimeError(f"{key.name} is an alias: it has no computed kernel")
    return _operator(name).find_key(key) is not None


def _dispatch_get_all_op_names() -> list[str]:
    """The names of all operators, overloads written behind a point."""
    return [_qualified(op) for op in all_overloads()]


def _qualified(op: OpOverload) -> str:
    return op._schema.name + (f".{op._overloadname}" if op._schema.overload_name else "")


def _dispatch_get_registrations_for_dispatch_key(dispatch_key: Key = "") -> list[str]:
    """The names of operators with a kernel at exactly this key; all without one."""
    if not dispatch_key:
        return _dispatch_get_all_op_names()
    key = K.as_key(dispatch_key)
    return [_qualified(op) for op in all_overloads() if op.has_kernel_for_dispatch_key(key)]


def _dispatch_print_registrations_for_dispatch_key(dispatch_key: Key = "") -> None:
    """Print what `_dispatch_get_registrations_for_dispatch_key` gives, a line each."""
    print("\n".join(_dispatch_get_registrations_for_dispatch_key(dispatch_key)))  # noqa: T201  # its purpose


def _dispatch_dump(name: str) -> str:
    """An operator's schema and a line for each key that has a kernel of its own."""
    op = _operator(name)
    lines = [f"name: {name}", f"schema: {op._schema}", "alias analysis kind: FROM_SCHEMA"]
    for key in DispatchKey:
        if op.has_kernel_for_dispatch_key(key):
            lines.append(f"{key.name}{'[alias]' if key.is_alias else ''}: registered")
    return "\n".join(lines) + "\n"


def _dispatch_dump_table(name: str) -> str:
    """A line for each runtime key: the key whose kernel serves it, or that a fallback does."""
    op = _operator(name)
    lines = []
    for key in K.runtime_keys(K.VISIBLE):
        found = op.find_key(key)
        if found is not None:
            own = op.has_kernel_for_dispatch_key(found)
            how = "kernel" if found is key else f"{found.name} kernel"
            lines.append(f"{key.name}: [{how if own else 'backend fallback'}]")
    return "\n".join(lines) + "\n"


def _dispatch_check_invariants(name: str) -> None:
    """RuntimeError where two kernels claim one runtime key of an operator."""
    op = _operator(name)
    for key in K.runtime_keys(K.VISIBLE):
        if key is not DispatchKey.AutogradOther:  # that one is told when it is called
            op.find_key(key)


def _dispatch_check_all_invariants() -> None:
    """`_dispatch_check_invariants` of every operator."""
    for name in _dispatch_get_all_op_names():
        _dispatch_check_invariants(name)


def _dispatch_find_dangling_impls() -> list[str]:
    """Operators with kernels and no schema: none, as a kernel is registered on an operator."""
    return []


def _dispatch_num_backends() -> int:
    """How many backends key sets have bits for."""
    return 16


def _dispatch_keyset_to_string(keyset: DispatchKeySet) -> str:
    """A key set as text."""
    return repr(keyset)


def _dispatch_isTensorSubclassLike(t: Tensor) -> bool:
    """Whether a tensor's class, or what it stands for, changes what operators do."""
    return type(t) not in (Tensor, Parameter)


def _dispatch_is_main_interpreter() -> bool:
    """True: there is one interpreter."""
    return True


def _dispatch_has_backend_fallback(key: Key) -> bool:
    """Whether a fallback serves operators without a kernel at this key."""
    return K.as_key(key) in FALLBACKS


class _DispatchModule:
    """A library as C++ registrations see it: operators defined, kernels given, all taken back."""

    def __init__(self, kind: str, ns: str, key: str) -> None:
        self._made: list[str] = [kind, ns, key]
        self._library = Library(ns, kind, key)

    def define(self, schema: str, alias: str = "") -> str:
        """Define an operator by its schema; its name."""
        return self._library.define(schema, alias)

    def def_(self, schema: str, dispatch: str = "", alias: str = "") -> _DispatchModule:
        """Define an operator whose kernel gives back its first argument."""
        name = self.define(schema, alias)
        self._library.impl(name.partition("::")[2] or name, lambda *args: args[0], dispatch)
        return self

    def impl(self, name: str, dispatch: str, func: Callable[..., object]) -> None:
        """Give an operator a kernel at a key."""
        self._library.impl(name, func, dispatch)

    def fallback(self, dispatch: str, func: Callable[..., object]) -> None:
        """Serve every operator without a kernel at a key."""
        self._library.fallback(func, dispatch)

    def reset(self) -> None:
        """Take back everything that was registered here."""
        self._library._destroy()


def _dispatch_library(
    kind: str, name: str, dispatch: str, file: str = "", linenum: int = 0
) -> _DispatchModule:
    """A library of operators or kernels; ``kind`` is DEF, IMPL or FRAGMENT."""
    return _DispatchModule(kind, name, dispatch)


__all__ = [name for name in dir() if name.startswith(("_dispatch_", "_jit_get_"))]
