"""What a check must know of an operator: one overload, its schema and tags, where its parts stand.

The schema is read from its text by maquette's own parser, so that PyTorch's operators have one of
the same class.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.schemas.parser import parse_schema
from maquette.dispatch.schemas.schema import Argument, FunctionSchema
from maquette.opcheck.framework import Framework, framework_of
from maquette.opcheck.settings import restored, settings_of


@dataclass(frozen=True)
class CheckedOperator:
    """An operator under test, in its framework; calling it calls the operator."""

    overload: Any
    on: Framework
    opdef: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = settings_of(self.on)
        try:
            return self.overload(*args, **kwargs)
        finally:
            if settings_of(self.on) != before:
                restored(self.on, before)  # `Trial.real` tells of it

    @property
    def name(self) -> str:
        """``ns::name.overload``; the default overload without its name."""
        return str(self.overload.name())

    @functools.cached_property
    def schema(self) -> FunctionSchema:
        return parse_schema(str(self.overload._schema))

    @functools.cached_property
    def tags(self) -> frozenset[str]:
        """The names of the operator's tags."""
        return frozenset(t.name for t in self.overload.tags)

    @property
    def builtin(self) -> bool:
        """Whether the framework itself defines it."""
        return self.name.partition("::")[0] in ("aten", "prims", "prim", "quantized", "_c10d")

    @property
    def random(self) -> bool:
        return "nondeterministic_seeded" in self.tags

    @functools.cached_property
    def written(self) -> tuple[Argument, ...]:
        """The arguments that the schema says are written."""
        return tuple([a for a in self.schema.arguments if a.is_write])

    @functools.cached_property
    def views(self) -> bool:
        """Whether the schema says that a result shares memory with an argument it leaves alone."""
        return any(r.alias_info is not None and not r.alias_info.is_write for r in self.returns)

    @property
    def returns(self) -> Sequence[Argument]:
        return self.schema.returns

    def has_kernel(self, key: str) -> bool:
        """Whether a kernel is registered at the dispatch key of this name."""
        if self.on.name == "torch":
            return bool(
                self.on.torch._C._dispatch_has_kernel_for_dispatch_key(self.overload.name(), key)
            )
        return self.overload.has_kernel_for_dispatch_key(key)

    # --- functions of the author ---------------------------------------------------------

    def function(self, part: str) -> Callable[..., object] | None:
        """The author's function for "kernel", "fake", "backward", "batching" or "cost"."""
        found = self._registered(part)
        return None if found is None else inspect.unwrap(found)

    def _registered(self, part: str) -> Callable[..., object] | None:
        if self.on.name == "torch":
            return self._torch_function(part)
        if self.opdef is not None:
            found = _of_opdef(self.opdef, part)
            if found is not None:
                return found
        return _of_overload(self.overload, part)

    def _torch_function(self, part: str) -> Callable[..., object] | None:
        if self.opdef is None:
            return None
        d = self.opdef
        if part == "kernel":
            return next(iter(d._backend_fns.values()), d._init_fn)
        return {"fake": d._abstract_fn, "backward": d._backward_fn, "batching": d._vmap_fn}.get(
            part
        )


_KEYS = {
    "kernel": (
        DispatchKey.CPU,
        DispatchKey.CompositeExplicitAutograd,
        DispatchKey.CompositeImplicitAutograd,
    ),
    "fake": (DispatchKey.Fake, DispatchKey.Meta),
    "backward": (DispatchKey.Autograd, DispatchKey.AutogradCPU),
}


def _of_opdef(opdef: Any, part: str) -> Callable[..., object] | None:
    if part == "kernel":
        return opdef._functions.get("cpu") or opdef._functions.get("") or opdef._init_fn
    if part == "fake":
        return None if opdef._fake is None else opdef._fake[0]
    if part == "backward":
        return None if opdef._formula is None else opdef._formula.backward
    return None


def _of_overload(op: Any, part: str) -> Callable[..., object] | None:
    for key in _KEYS.get(part, ()):
        stack = op._kernels.get(key)
        if stack and stack[-1].python is not None:
            return stack[-1].python
    if part == "kernel":
        return op.array_kernel
    if part == "fake":
        return op.shape_rule
    return getattr(op.facts, part, None)


def checked(op: Any) -> CheckedOperator:
    """The operator as a check sees it.

    Raises ValueError for anything but an overload, a packet or an opdef, and RuntimeError for a
    packet of several overloads, which it lists.
    """
    on = framework_of(op)
    kind: Any = type(op)
    if issubclass(kind, on.opdef):
        return CheckedOperator(op._opoverload, on, op)
    if issubclass(kind, on.packet):
        names = op.overloads()
        if len(names) != 1:
            raise RuntimeError(
                f"opcheck can only test operators without overloads: {op} has several, "
                f"{', '.join(names)}; give one of them, such as {op}.{names[0]}"
            )
        return checked(getattr(op, names[0]))
    if issubclass(kind, on.op_overload):
        return CheckedOperator(op, on, _opdef_of(op, on))
    raise ValueError(
        f"opcheck(op, ...): expected op to be an OpOverload, an OpOverloadPacket of one overload, "
        f"or the result of custom_op, got {type(op).__name__}"
    )


def _opdef_of(op: Any, on: Framework) -> Any:
    name = op.name()
    if on.name == "maquette":
        from maquette.library.custom_op import find_opdef  # noqa: PLC0415

        return find_opdef(name)
    import importlib  # noqa: PLC0415

    return importlib.import_module("torch._library.custom_ops").OPDEFS.get(name)


def bound(
    op: CheckedOperator, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[Argument, Any]]:
    """The schema's arguments that a call gives, with their values, in order."""
    positional = [a for a in op.schema.arguments if not a.kwarg_only]
    if len(args) > len(positional):
        raise TypeError(
            f"{op.name} takes {len(positional)} positional arguments, got {len(args)}: {op.schema}"
        )
    given = dict(zip([a.name for a in positional], args)) | dict(kwargs)
    return [(a, given[a.name]) for a in op.schema.arguments if a.name in given]
