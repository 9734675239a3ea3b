"""`Library`: a handle on definitions and registrations, which all end with it.

`define` adds operators, `impl` kernels, `fallback` the kernels of operators that have none. What is
registered is kept in `registrations.py`; the functions that need no library are in `functions.py`.
The one idea: a library is a list of undo calls, run once, by `_destroy` or when it is collected.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence

from maquette.dispatch import keysets as K
from maquette.dispatch.kernels import Kernel, caller_place, fallthrough_kernel
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet, KeyLike
from maquette.dispatch.operator import (
    FALLBACKS,
    LOCK,
    OpOverload,
    fall_through,
    set_fallback,
)
from maquette.dispatch.registry import all_overloads
from maquette.dispatch.schemas.matching import check_result, normalise
from maquette.dispatch.tags import Tag
from maquette.library import registrations
from maquette.library.fakes import register_fake
from maquette.library.python_kernels import python_kernel
from maquette.library.registrations import Undo, canonical_name, find_overload
from maquette.library.special_kernels.dispatch_rules import add_dispatch_rule
from maquette.library.special_kernels.provided_kernels import ProvidedKernel, Provider

_KINDS = ("DEF", "IMPL", "FRAGMENT")
_ALIAS_ANALYSES = ("", "FROM_SCHEMA", "CONSERVATIVE")
# The place of the live DEF library of a namespace, and of the fallback of a key.
_DEFINED: dict[str, str] = {}
_FALLBACK_PLACES: dict[DispatchKey, str] = {}
_COMPOSITES = (DispatchKey.CompositeImplicitAutograd, DispatchKey.CompositeExplicitAutograd)


class Library:
    """A handle on what is defined and registered in a namespace; destroying it undoes all of that.

    kind: "DEF" (one live library a namespace), "FRAGMENT" (any number), both of which define
    operators, or "IMPL", which only registers kernels and may bind a ``dispatch_key`` for them.
    Raises ValueError for another kind or the reserved namespace ``prim``, RuntimeError otherwise.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in _KINDS:
            raise ValueError(
                f"Unsupported kind {kind!r} of library; use one of {', '.join(_KINDS)}"
            )
        if ns == "prim" and kind != "IMPL":
            raise ValueError(f"prim is a reserved namespace: a {kind} library on it is refused")
        self.ns = ns
        self.kind = kind
        self.place = caller_place()
        self._key = _bound_key(ns, kind, dispatch_key)
        self.dispatch_key = str(dispatch_key) if self._key is None else self._key.name
        self.alive = True
        self._undo: list[Undo] = []
        if kind == "DEF":
            self._undo.append(_claim(ns, self.place))
        self._finalizer = weakref.finalize(self, _undo_all, self._undo)
        self._finalizer.atexit = False

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    @property
    def m(self) -> Library:
        """The library: PyTorch's has its own part in here, and ``del lib.m`` ends it."""
        return self

    @m.deleter
    def m(self) -> None:
        self._destroy()

    # --- defining --------------------------------------------------------------------

    def define(
        self, schema: str, alias_analysis: str = "", *, tags: Tag | Sequence[Tag] = ()
    ) -> str:
        """Define one overload, ``name[.overload](args) -> returns``; its name without overload.

        alias_analysis: "", "FROM_SCHEMA" or "CONSERVATIVE" (any argument may alias any result).
        """
        op = self._define(schema, alias_analysis, tags)
        return op._opname

    def _define(self, schema: str, alias_analysis: str, tags: Tag | Sequence[Tag]) -> OpOverload:
        self._check_alive()
        if alias_analysis not in _ALIAS_ANALYSES:
            raise RuntimeError(
                f"invalid alias_analysis {alias_analysis!r}; use one of {_ALIAS_ANALYSES}"
            )
        text = self._qualified_schema(schema)
        if self.kind == "IMPL":
            raise RuntimeError(
                f"cannot define {text.partition('(')[0]} in the IMPL library made at {self.place}; "
                f"use a DEF or FRAGMENT library of {self.ns}"
            )
        listed = [tags] if isinstance(tags, Tag) else list(tags)
        op, undo = registrations.define(text, listed, caller_place())
        self._undo.append(undo)
        return op

    def _qualified_schema(self, schema: str) -> str:
        registrations.check_text(schema)
        name = schema.partition("(")[0].strip()
        namespace, separator, _ = name.partition("::")
        if not separator:
            return f"{self.ns}::{schema.strip()}"
        if namespace != self.ns:
            raise RuntimeError(
                f"{name} is not of the namespace {self.ns} of the library made at {self.place}"
            )
        return schema.strip()

    # --- kernels ---------------------------------------------------------------------

    def impl(
        self,
        op_name: str | OpOverload,
        fn: Callable[..., object],
        dispatch_key: KeyLike = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Register ``fn`` as the kernel of an operator, which may be defined later, at a key.

        The key is ``dispatch_key``, else the library's, else CompositeImplicitAutograd.
        with_keyset: ``fn`` takes the current key set first. allow_override: whether another
        library's kernel at the same key may be overridden.
        """
        self._check_alive()
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable, got {type(fn).__name__}: {fn!r}"
            )
        key = self._kernel_key(dispatch_key)
        qualname = self._qualified_name(op_name)
        if key is DispatchKey.Meta:
            _check_meta(qualname)
        if fn is fallthrough_kernel:
            kernel = Kernel(fall_through, place=caller_place())
        else:
            kernel = Kernel(
                python_kernel(fn, with_keyset=with_keyset),
                python=fn,
                speaks_operators=key in _COMPOSITES or key is DispatchKey.Meta,
                place=caller_place(),
            )
        self.register(qualname, key, kernel, allow_override=allow_override)

    def register(
        self, qualname: str, key: DispatchKey, kernel: Kernel, *, allow_override: bool = True
    ) -> None:
        """Register a kernel as the dispatcher holds it; undone with the library."""
        self._check_alive()
        undo = registrations.register(qualname, key, kernel, self.ns, allow_override=allow_override)
        self._undo.append(undo)

    def _register_fake(
        self,
        op_name: str | OpOverload,
        fn: Callable[..., object],
        *,
        allow_override: bool = False,
    ) -> None:
        """Register what serves an operator on fake and meta tensors, as `register_fake` does."""
        self._check_alive()
        name = self._qualified_name(op_name)
        register_fake(self, name, fn, caller_place(), allow_override=allow_override)

    def _register_torch_dispatch_rule(
        self, op_name: str | OpOverload, torch_dispatch_class: type, fn: Callable[..., object]
    ) -> None:
        """Register what answers an operator under a mode or for a tensor class of one class."""
        self._check_alive()
        name = self._qualified_name(op_name)
        op = find_overload(name)
        if op is None:
            raise RuntimeError(
                f"register_torch_dispatch: the operator {name} does not exist; define it first"
            )
        self._undo.append(add_dispatch_rule(op, torch_dispatch_class, fn))

    def _impl_with_aoti_compile(
        self,
        op_name: str | OpOverload,
        dispatch_key: KeyLike = "",
        provider: Provider | None = None,
    ) -> Callable[[Provider], Provider] | None:
        """Have compiled kernels serve an operator at a backend's key; without provider, decorates.

        ``provider(op, args, kwargs)`` is asked once for each signature of inputs and gives the
        function that is called with inputs of that signature. AssertionError for a key of no
        backend, RuntimeError where a library has a kernel there. PyTorch's has one provider, its
        own compiler.
        """
        self._check_alive()
        name, key = self._qualified_name(op_name), self._kernel_key(dispatch_key)
        provided = ProvidedKernel(name, key)
        registrations.check_free(name, key, self.ns)
        self.register(name, key, provided.kernel(caller_place()))

        def provide(function: Provider) -> Provider:
            provided.provider = function
            return function

        if provider is None:
            return provide
        provide(provider)
        return None

    def register_symm_mem_args(self, op_name: str | OpOverload, arg_names: Iterable[str]) -> None:
        """Note which arguments of an operator want symmetric memory (`symm_mem`)."""
        from maquette.library.symm_mem import note_symm_mem_args  # noqa: PLC0415  # few need it

        self._check_alive()
        self.on_destroy(note_symm_mem_args(self._qualified_name(op_name), arg_names))

    def on_destroy(self, undo: Undo) -> None:
        """Have ``undo`` called when the library ends."""
        self._check_alive()
        self._undo.append(undo)

    def _kernel_key(self, given: KeyLike) -> DispatchKey:
        if not given:
            return self._key or DispatchKey.CompositeImplicitAutograd
        key = K.as_key(given)
        if self._key is not None and key is not self._key:
            raise RuntimeError(
                f"impl: the kernel is for {key.name}, inconsistent with the dispatch key of the "
                f"library made at {self.place}, {self._key.name}"
            )
        return key

    def _qualified_name(self, op_name: str | OpOverload) -> str:
        if isinstance(op_name, OpOverload):
            name = op_name.name()
        elif isinstance(op_name, str):
            name = op_name
        else:
            raise RuntimeError(
                f"impl: op_name must be a name or an OpOverload, got {type(op_name).__name__}"
            )
        namespace, separator, _ = name.partition("::")
        if self.ns == "_":
            raise RuntimeError(f"the namespace _ carries only fallbacks, not a kernel of {name}")
        if not separator:
            return canonical_name(f"{self.ns}::{name}")
        if namespace != self.ns:
            raise RuntimeError(
                f"{name} is not of the namespace {self.ns} of the library made at {self.place}; "
                f"override operators of {namespace} with Library('{namespace}', 'IMPL')"
            )
        return canonical_name(name)

    # --- fallbacks -------------------------------------------------------------------

    def fallback(
        self,
        fn: Callable[..., object],
        dispatch_key: KeyLike = "",
        *,
        with_keyset: bool = False,
    ) -> None:
        """Serve at a key every operator without a kernel there; only in the namespace ``_``.

        ``fn`` is called as ``fn([keyset,] op, *args, **kwargs)``. An alias key stands for its
        members.
        """
        self._check_alive()
        key = K.as_key(dispatch_key) if dispatch_key else self._key
        assert key is not None, "fallback: a dispatch key is required"
        if self.ns != "_":
            raise RuntimeError(
                "fallbacks serve all namespaces: register them in Library('_', 'IMPL'), not in "
                f"one of {self.ns}"
            )
        place = caller_place()
        factory = fall_through if fn is fallthrough_kernel else _fallback_factory(fn, with_keyset)
        for runtime in K.get_runtime_keyset(key):
            with LOCK:
                _check_no_fallback(runtime, place)
                set_fallback(runtime, factory)
                _FALLBACK_PLACES[runtime] = place
            self._undo.append(_fallback_undo(runtime))
        _forget_resolutions()

    # --- the end ---------------------------------------------------------------------

    def _destroy(self) -> None:
        """Undo every definition and registration; doing it twice does nothing."""
        self.alive = False
        self._finalizer()

    def _check_alive(self) -> None:
        assert self.alive, f"the library of {self.ns} made at {self.place} has been destroyed"


def _bound_key(ns: str, kind: str, dispatch_key: KeyLike) -> DispatchKey | None:
    key = K.as_key(dispatch_key) if dispatch_key else None
    if kind != "IMPL" and key is not None:
        raise RuntimeError(
            f"only IMPL libraries bind a dispatch key; this {kind} library of {ns} was given "
            f"{key.name}"
        )
    if ns == "_" and kind != "IMPL":
        raise RuntimeError(f"the namespace _ stands for all: only IMPL libraries on it, not {kind}")
    return key


def _claim(ns: str, place: str) -> Undo:
    with LOCK:
        if ns in _DEFINED:
            raise RuntimeError(
                f"the namespace {ns} has a DEF library already, made at {_DEFINED[ns]}; the second "
                f"is at {place}. Use FRAGMENT for further ones"
            )
        _DEFINED[ns] = place

    def undo() -> None:
        _DEFINED.pop(ns, None)

    return undo


def _undo_all(undo: list[Undo]) -> None:
    with LOCK:
        while undo:
            undo.pop()()


def _check_meta(qualname: str) -> None:
    op = find_overload(qualname)
    if op is None:
        raise RuntimeError(
            f"{qualname} is not defined; define it before it is given a kernel for Meta"
        )
    if op.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd):
        raise RuntimeError(
            f"{qualname} has a CompositeImplicitAutograd kernel: on Meta it decomposes into other "
            f"operators, so a kernel for Meta is refused"
        )


def _check_no_fallback(key: DispatchKey, place: str) -> None:
    if key in FALLBACKS:
        raise RuntimeError(
            f"{key.name} has a fallback already, from {_FALLBACK_PLACES.get(key, 'maquette')}; the "
            f"second is at {place}"
        )


def _fallback_factory(
    fn: Callable[..., object], with_keyset: bool
) -> Callable[[OpOverload, int], Callable[..., object]]:
    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        schema = op._schema

        def kernel(ks: int, *params: object) -> object:
            args, kwargs = normalise(schema, params)
            first = (DispatchKeySet.from_raw_repr(ks), op) if with_keyset else (op,)
            return check_result(schema, fn(*first, *args, **kwargs))

        return kernel

    return factory


def _fallback_undo(key: DispatchKey) -> Undo:
    def undo() -> None:
        FALLBACKS.pop(key, None)
        _FALLBACK_PLACES.pop(key, None)
        _forget_resolutions()

    return undo


def _forget_resolutions() -> None:
    with LOCK:
        for op in all_overloads():
            op.invalidate()


class _scoped_library:  # PyTorch's name
    """A `Library` for a ``with`` block, destroyed at its end."""

    def __init__(self, *args: str, **kwargs: str) -> None:
        self._args, self._kwargs = args, kwargs

    def __enter__(self) -> Library:
        self._lib = Library(*self._args, **self._kwargs)
        return self._lib

    def __exit__(self, *exc: object) -> None:
        self._lib._destroy()
