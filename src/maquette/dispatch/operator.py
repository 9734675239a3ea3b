"""Operators: `OpOverload`, its kernels, and the table that resolved key sets are remembered in.

One idea: an operator resolves a *whole key set* (an int) to a callable once and remembers it in
``_table``; a call is or-ing the argument's key sets, one dict look-up, one call. The generated
entry functions that do so are in `call.py`, the rules of resolution in `resolution.py`, Python
overrides in `overrides.py`, packets and the registry in `registry.py`. What an operator's page says
(shape rule, derivative, cost ...) is the operator's `facts`, which its forms share (`facts.py`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from maquette.core.remembered import epoch, forget, remember
from maquette.dispatch import keysets as K
from maquette.dispatch.base import OperatorBase
from maquette.dispatch.call import (
    ASKED,
    LOCK,
    build_entry,
    new_entry,
    prepared,
)
from maquette.dispatch.facts import AutocastPolicy, OperatorFacts
from maquette.dispatch.forms import Form, FunctionalCall, form_of, functional_call
from maquette.dispatch.kernels import Boxed, Factory, Kernel, fall_through
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet, KeyLike
from maquette.dispatch.overrides import (
    PYTHON_DISPATCHER,
    compute_dispatch,
    enable_python_dispatcher,
    overridden_kernel,
    refuse_array_kernel,
)
from maquette.dispatch.resolution import FALLBACKS, fallback_kernel, serving_key
from maquette.dispatch.schemas.matching import bind, normalise
from maquette.dispatch.schemas.parser import parse_schema
from maquette.dispatch.schemas.schema import FunctionSchema
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import (
    NO_OVERRIDE,
    Overridden,
    call_torch_function,
    is_overridden,
)
from maquette.symbolic.numbers import SymNumber

if TYPE_CHECKING:
    from maquette.autograd.formulas import Derivatives
    from maquette.dispatch.registry import OpOverloadPacket

__all__ = [
    "FALLBACKS",
    "LOCK",
    "NO_OVERRIDE",
    "OpOverload",
    "OperatorBase",
    "OperatorHandle",
    "fall_through",
    "keys_of",
    "resolve_anew",
    "replace_fallback",
    "resolved_overloads",
    "set_fallback",
]

# The namespaces of PyTorch's own operators, of which almost all are compliant.
_SHIPPED = frozenset(("aten", "prims"))
_IMPLICIT = DispatchKey.CompositeImplicitAutograd
_RESOLVED: weakref.WeakSet[OpOverload] = weakref.WeakSet()


class OpOverload(OperatorBase):
    """One overload of an operator: ``ops.aten.add.Tensor``.

    Calling it matches the arguments with the schema (RuntimeError naming operator, parameter and
    schema otherwise), collects the key set and runs the kernel that serves it. There is one object
    per overload: copies and pickles give it back.
    """

    # Slots, since every call reads one: 20 ns of an attribute of 40.
    __slots__ = ("_call", "public_call")

    public_call: Callable[..., Any]
    """The entry for public functions over the operator, which tell handlers of themselves and of
    the arguments as they were written: it raises `Overridden` where some handler is to be asked.

    ``_call`` is the entry that pages hold: handlers of ``__torch_function__`` are told of the
    overload, and of the arguments without those that are defaults.
    """

    autocast_policies: Mapping[str, AutocastPolicy] = MappingProxyType({})
    """What autocast regions of a device do to the arguments (`OperatorPage.autocast`)."""

    dispatch_rules: Mapping[type, Callable[..., object]] = MappingProxyType({})
    """What answers in the place of the handlers of modes and tensor classes, by class."""

    alive = True
    _defined_in_python = False
    _parsed: FunctionSchema | None = None
    _registered: frozenset[DispatchKey] | None = None  # the keys that it has kernels at
    _resolves = False  # whether it is one of `_RESOLVED`

    def __init__(
        self,
        packet: OpOverloadPacket,
        schema_text: str,
        tags: Iterable[Tag],
        place: str,
        facts: OperatorFacts | None = None,
    ) -> None:
        super().__init__()
        qualified = schema_text.partition("(")[0].strip()
        self._qualified = qualified
        self.namespace, _, opname = qualified.partition("::")
        self._opname, _, self._overload = opname.partition(".")
        self.overloadpacket = packet
        self.__name__ = f"{self._opname}.{self._overload or 'default'}"
        self.__qualname__ = qualified
        self.__module__ = f"maquette.ops.{self.namespace}"
        self.tags: list[Tag] = list(tags)
        if self.namespace in _SHIPPED:
            self.tags.append(Tag.pt2_compliant_tag)
        self.place = place
        self._schema_text = schema_text
        self._kernels: dict[DispatchKey, list[Kernel]] = {}
        self._table: dict[int, Boxed] = {}
        self.facts = OperatorFacts() if facts is None else facts
        self.facts.overloads.append(self)
        self.infer_cache: dict[object, object] = {}
        self._call = new_entry(self, self._opname)
        self.public_call = self._first_public_call

    # --- calling ---------------------------------------------------------------------

    def __call__(self, /, *args: object, **kwargs: object) -> Any:  # as the schema says
        try:
            # An empty **kwargs would cost a dict a call.
            return self.public_call(*args, **kwargs) if kwargs else self.public_call(*args)
        except Overridden:
            pass
        except TypeError as error:
            if not failed_to_bind(error):
                raise
        return self.call_slow(args, kwargs)

    def call_as_public(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """`public_call` for arguments that may not bind to the schema's parameters."""
        try:
            return self.public_call(*args, **kwargs)
        except TypeError as error:
            if not failed_to_bind(error):
                raise
        return self._public_slow(args, kwargs)

    def entries(self) -> list[FunctionType]:
        """Its entry functions that are made so far."""
        both = (self._call, self.public_call)
        return [e for e in both if isinstance(e, FunctionType)]

    def public_entry(self) -> FunctionType:
        """`public_call` as the function that it stays, for who keeps it."""
        with LOCK:
            known = self.public_call
            if isinstance(known, FunctionType):
                return known
            entry = new_entry(self, self._opname, self._public_slow, self._public_resolve)
            self.public_call = entry
        return entry

    def _first_public_call(self, *args: object, **kwargs: object) -> object:
        return self._first_call(self.public_entry(), args, kwargs)

    def _public_slow(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        if is_overridden(args, kwargs):
            raise Overridden
        return self.call_slow(args, kwargs)

    def _public_resolve(self, ks: int) -> Boxed:
        if not ks & K.TORCH_FUNCTION:
            return self.resolve(ks)
        st = tls.st
        if st.function_modes:
            raise Overridden
        return self._run_unless_overridden if st.subclass_functions else self.run_unasked

    def _run_unless_overridden(self, ks: int, *params: object) -> object:
        # The bit says that a class may have a handler, not that it has one now.
        if is_overridden(params, {}):
            raise Overridden
        ks &= ~K.TORCH_FUNCTION
        return (self._table.get(ks) or self.resolve(ks))(ks, *params)

    def run_unasked(self, ks: int, *params: object) -> object:
        """Run the kernel below ``__torch_function__``."""
        return self.run(ks & ~K.TORCH_FUNCTION, params)

    def _first_call(
        self, entry: FunctionType, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Build an entry function at its second call: what is called once needs none."""
        if not self.alive:
            self._raise_stale()
        space = entry.__globals__
        if not is_overridden(args, kwargs):  # handlers are told what the entry would tell them
            if space.setdefault("_calls", 0) == 0:
                space["_calls"] = 1
                return space["_slow"](args, kwargs)
        with LOCK:
            build_entry(entry, self)
        try:
            return entry(*args, **kwargs)
        except TypeError as error:
            if not failed_to_bind(error):
                raise
        return space["_slow"](args, kwargs)

    def call_slow(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Match exactly (D38-D49), then dispatch. The plain version of the generated entry."""
        if not self.alive:
            self._raise_stale()
        if is_overridden(args, kwargs):
            answer = call_torch_function(self, args, kwargs)
            if answer is not NO_OVERRIDE:
                return answer
        params = bind(self._schema, args, kwargs, takes_numbers=self.takes_numbers)
        if ASKED:
            prepared(params)
        ks = tls.st.effective_keys(argument_keys(self, params)) & ~K.TORCH_FUNCTION
        return self.run(ks, params)

    def redispatch(self, keyset: DispatchKeySet, /, *args: object, **kwargs: object) -> object:
        """Run the highest kernel of exactly ``keyset``; thread-local sets are not consulted."""
        params = bind(self._schema, args, kwargs, takes_numbers=self.takes_numbers)
        return self.run(keyset.raw_repr() | self._hidden_bits(params), params)

    def run(self, ks: int, params: Iterable[object]) -> object:
        """Run the kernel that serves the effective key set ``ks`` on canonical parameters."""
        return (self._table.get(ks) or self.resolve(ks))(ks, *params)

    def resolved(self, ks: int) -> Boxed:
        """What `run` calls. A kernel may keep the one below it: registration forgets both."""
        return self._table.get(ks) or self.resolve(ks)

    def _op_dk(self, key: KeyLike, /, *args: object, **kwargs: object) -> object:
        """Run the kernel that serves one key, whatever lies above it (D76)."""
        key = K.as_key(key)
        params = bind(self._schema, args, kwargs, takes_numbers=self.takes_numbers)
        st = tls.st
        ks = st.effective_keys(argument_keys(self, params))
        ks &= K.keyset_full_after(key).raw_repr() & ~PYTHON_DISPATCHER
        ks |= key.bits | self._hidden_bits(params)
        kernel = self.kernel_at(key)
        built = None if kernel is None else kernel.factory(self, ks)
        if built is None:
            self._raise_no_kernel(key)
        return built(ks, *params)

    def _hidden_bits(self, params: Sequence[object]) -> int:
        """The hidden bits of a call with these parameters in this thread, overriding apart."""
        st = tls.st
        ks = st.effective_keys(argument_keys(self, params))
        return ks & ~K.VISIBLE & ~K.TORCH_FUNCTION

    def decompose(self, *args: object, **kwargs: object) -> object:
        """Run the definition by other operators, or give NotImplemented where there is none."""
        override = self.py_kernels.get(_IMPLICIT)
        if override is not None:
            return override(*args, **kwargs)
        return self._op_dk(_IMPLICIT, *args, **kwargs) if self._can_decompose() else NotImplemented

    def _can_decompose(self) -> bool:
        return self.has_kernel_for_dispatch_key(_IMPLICIT)

    # --- resolution ------------------------------------------------------------------

    def resolve(self, ks: int) -> Boxed:
        """The callable for a whole effective key set, found once and remembered (D62)."""
        with LOCK:
            kernel = self._find(ks)
            if not ks & K.TORCH_FUNCTION:  # which each entry function answers in its own way
                self._table[ks] = kernel
            if not self._resolves:
                self._resolves = True
                _RESOLVED.add(self)
            return kernel

    def _find(self, ks: int) -> Boxed:
        if not self.alive:
            self._raise_stale()
        if ks & K.TORCH_FUNCTION:
            return self._torch_function_kernel
        if ks & PYTHON_DISPATCHER:
            return overridden_kernel(self, ks)
        rest = ks
        while True:
            key = K.highest(rest)
            kernel = self.kernel_at(key)
            if kernel is None:
                self._raise_no_kernel(key)
            if not kernel.only_with_grad or ks & K.REQUIRES_GRAD:
                built = kernel.factory(self, ks)
                if built is not None:
                    return built
            if key is DispatchKey.Undefined:
                self._raise_no_kernel(key)
            rest &= ~K.functionality_bits(key)

    def _torch_function_kernel(self, ks: int, *params: object) -> object:
        """Offer the call of a page to function modes and classes (D38, D135)."""
        if not is_overridden(params, {}):
            return self.run_unasked(ks, *params)
        answer = call_torch_function(self, *normalise(self._schema, params))
        return self.run_unasked(ks, *params) if answer is NO_OVERRIDE else answer

    def kernel_at(self, key: DispatchKey) -> Kernel | None:
        """The registered kernel, or a key's fallback, that serves one key; None where none does."""
        found = self.find_key(key)
        return None if found is None else self.registered_kernel(found, key)

    def registered_kernel(self, found: DispatchKey, key: DispatchKey) -> Kernel:
        """The newest kernel at ``found``, or the fallback that serves ``key``."""
        stack = self._kernels.get(found)
        if stack:
            return stack[-1]
        return fallback_kernel(key)

    def find_key(self, key: DispatchKey) -> DispatchKey | None:
        """The key whose registered kernel, or fallback, serves ``key`` (D55-D60)."""
        if self._registered is None:
            self._registered = frozenset([k for k, stack in self._kernels.items() if stack])
        among = self._registered, key
        found = _SERVING.get(among, _UNKNOWN)
        if found is _UNKNOWN:
            found = serving_key(_Registered(self), key)
            remember(_SERVING, among, found, epoch())
        return key if found is None and key in FALLBACKS else found

    def _get_dispatch(self, key: KeyLike) -> DispatchKey | Callable[..., object]:
        """Find and cache what serves a key: a Python override, or the key of a kernel (D78)."""
        return compute_dispatch(self, K.as_key(key))

    def _uncache_dispatch(self, key: KeyLike) -> None:
        """Forget the cached answer for one key, if there is one."""
        self._dispatch_cache.pop(K.as_key(key), None)

    # --- registration ----------------------------------------------------------------

    def register(self, key: DispatchKey, kernel: Kernel) -> Callable[[], None]:
        """Put ``kernel`` on top of the stack at ``key``; the returned call withdraws it."""
        with LOCK:
            stack = self._kernels.setdefault(key, [])
            stack.append(kernel)
            self.invalidate()

        def withdraw() -> None:
            with LOCK:
                if kernel in stack:
                    stack.remove(kernel)
                    self.invalidate()

        return withdraw

    def register_for_good(self, keys: Iterable[DispatchKey], kernel: Kernel) -> None:
        """Put ``kernel`` on top of the stack at each of several keys, never to be withdrawn."""
        with LOCK:
            for key in keys:
                self._kernels.setdefault(key, []).append(kernel)
            self.invalidate()

    def invalidate(self) -> None:
        """Forget every resolved key set and every inferred result."""
        with LOCK:
            self._registered = None
            forget(self._table, self.infer_cache, self._dispatch_cache)

    def _forget_dispatch(self) -> None:
        self.invalidate()

    def retire(self) -> None:
        """The library that defined this overload is gone: later calls say so."""
        with LOCK:
            self.alive = False
            self._kernels.clear()
            if self in self.facts.overloads:
                self.facts.overloads.remove(self)
            self.invalidate()

    def has_kernel_for_dispatch_key(self, key: KeyLike) -> bool:
        """Whether a kernel, Python override included, is at exactly this key (D68)."""
        key = K.as_key(key)
        return bool(self._kernels.get(key)) or super().has_kernel_for_dispatch_key(key)

    def has_kernel_for_any_dispatch_key(self, keys: DispatchKeySet) -> bool:
        """Whether a kernel, Python override included, is at a runtime key of the set (D68)."""
        registered = _Registered(self).has_kernel_for_any_dispatch_key(keys)
        return registered or super().has_kernel_for_any_dispatch_key(keys)

    # --- facts -----------------------------------------------------------------------

    # What a form has for itself, where it differs from the facts that it shares.
    own_shape: Callable[..., object] | None = None
    own_kernel: Callable[..., object] | None = None
    own_derivatives: Derivatives | None = None
    own_free_devices: bool | Callable[..., bool] | None = None
    functional_link: OpOverload | None = None
    mutating_link: OpOverload | None = None
    own_node_name: str | None = None
    seldom: bool = False
    """Whether functions take its arguments only where no other overload does."""

    @property
    def shape_rule(self) -> Callable[..., object] | None:
        """This form's shape rule: its own, else the one that it shares."""
        return self.facts.shape if self.own_shape is None else self.own_shape

    @property
    def array_kernel(self) -> Callable[..., object] | None:
        """This form's array kernel: its own, else the one that it shares."""
        return self.facts.kernel if self.own_kernel is None else self.own_kernel

    @property
    def derivatives(self) -> Derivatives | None:
        """This form's derivatives: its own, else those that it shares."""
        return self.facts.derivatives if self.own_derivatives is None else self.own_derivatives

    @property
    def free_devices(self) -> bool | Callable[..., bool]:
        """Whether operands may be on different devices: True, or a rule that says when."""
        own = self.own_free_devices
        return self.facts.free_devices if own is None else own

    @property
    def takes_numbers(self) -> bool:
        """Whether Python numbers pass for its tensor arguments (D47)."""
        return self.facts.takes_numbers

    @property
    def form(self) -> Form:
        """How it gives its results: functional, view, in place, ``out=`` or mutable."""
        return form_of(self)

    @property
    def functional(self) -> OpOverload | None:
        """The overload that gives as new tensors what this one writes; itself if it writes nothing.

        None where there is none; ``facts.without_functional`` then says why.
        """
        if not self._schema.is_mutable:
            return self
        call = self.functional_call
        return None if call is None else call.twin

    @property
    def functional_call(self) -> FunctionalCall | None:
        """How to call the functional twin instead; None where nothing is written or none exists."""
        known = self._functional_call
        if known is None or not known.twin.alive:
            known = self._functional_call = functional_call(self)
        return known

    _functional_call: FunctionalCall | None = None

    @property
    def _schema(self) -> FunctionSchema:
        if self._parsed is None:
            self._parsed = parse_schema(self._schema_text)
        return self._parsed

    @property
    def form_facts(self) -> tuple[object, ...]:
        """What texts are written from that are generated of its schema, for `generated.Text`.

        The schema without its name, so that operators share them.
        """
        return self._schema_text.partition("(")[2], self.takes_numbers

    @property
    def is_view(self) -> bool:
        """Some argument has alias information and none of those is written (D73)."""
        schema = self._schema
        known = schema.memo.get("is_view")
        if known is None:
            aliased = [a for a in schema.arguments if a.alias_info is not None]
            is_view = bool(aliased) and not any(a.is_write for a in aliased)
            known = schema.memo["is_view"] = is_view
        return known is True

    @property
    def _nondeterministic_seeded(self) -> bool:
        return Tag.nondeterministic_seeded in self.tags

    @property
    def _overloadname(self) -> str:
        return self._overload or "default"

    @property
    def op(self) -> Boxed:
        """The underlying callable."""
        return self.__call__

    @property
    def _handle(self) -> OperatorHandle:
        return OperatorHandle(self)

    def name(self) -> str:
        """``aten::add.Tensor``; the unnamed overload is ``aten::mm``."""
        return self._qualified

    @property
    def _name(self) -> str:
        return self._qualified

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        packet = f"{self.namespace}.{self._opname}"
        return f"<OpOverload(op='{packet}', overload='{self._overloadname}')>"

    def __copy__(self) -> OpOverload:
        return self

    def __deepcopy__(self, memo: object) -> OpOverload:
        return self

    @property
    def _overloadpacket(self) -> OpOverloadPacket:
        """`overloadpacket` under PyTorch's private name, by which dispatch modes ask for it."""
        return self.overloadpacket

    def __reduce__(self) -> tuple[Callable[..., object], tuple[OpOverloadPacket, str]]:
        return getattr, (self.overloadpacket, self._overloadname)

    # --- errors ----------------------------------------------------------------------

    def _raise_stale(self) -> NoReturn:
        raise RuntimeError(
            f"{self.name()} was defined at {self.place} by a library that has since been "
            f"destroyed; look the operator up again in maquette.ops"
        )

    def _raise_no_kernel(self, key: DispatchKey) -> NoReturn:
        have = ", ".join(sorted(k.name for k, stack in self._kernels.items() if stack)) or "none"
        if key is DispatchKey.Undefined:
            why = "called with no tensor arguments (backend Undefined), which it has no kernel for"
        elif key in (DispatchKey.Meta, DispatchKey.Fake):
            why = (
                f"has no shape rule, which running on {key.name} tensors needs; "
                f"give it one with maquette.library.register_fake('{self.name()}')"
            )
        elif key.name.startswith("Sparse"):
            why = (
                f"Could not run '{self.name()}' with arguments from the '{key.name}' backend: it "
                f"has no kernel for that sparse layout; convert with to_dense()"
            )
        else:
            why = f"has no kernel for the backend {key.name}"
        raise NotImplementedError(
            f"{self.name()}: {why}. Kernels are registered for: {have}. Schema: {self._schema}"
        )


_UNKNOWN: Any = object()
_SERVING: dict[tuple[frozenset[DispatchKey], DispatchKey], DispatchKey | None] = {}
"""`serving_key` of the registered kernels' keys and a key: operators share few such sets."""


class _Registered:
    """An overload as its registered kernels alone make it: Python overrides do not count (D67)."""

    __slots__ = ("_op",)

    def __init__(self, op: OpOverload) -> None:
        self._op = op

    def name(self) -> str:
        return self._op.name()

    def has_kernel_for_dispatch_key(self, key: DispatchKey) -> bool:
        return bool(self._op._kernels.get(key))

    def has_kernel_for_any_dispatch_key(self, keys: DispatchKeySet) -> bool:
        stacks = self._op._kernels.items()
        return any(stack and not key.is_alias and keys.has(key) for key, stack in stacks)


class TorchBindOpOverload(OpOverload):
    """An overload with a script object, an optional one or a list of them as argument (D126).

    With real objects it is called as any other. With a fake one among its arguments Python
    overrides act, and keys that it has no kernel for are passed over (D130).
    """

    __slots__ = ()

    def call_slow(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Match exactly, then dispatch; there is no faster way with an object."""
        if not _any_fake_object((args, kwargs)):
            return super().call_slow(args, kwargs)
        with enable_python_dispatcher():
            params = bind(self._schema, args, kwargs, takes_numbers=self.takes_numbers)
            ks = tls.st.effective_keys(argument_keys(self, params)) & ~K.TORCH_FUNCTION
            refuse_array_kernel(self, ks)
            return super().call_slow(args, kwargs)


def _any_fake_object(values: object) -> bool:
    if isinstance(values, (tuple, list)):
        return any(_any_fake_object(v) for v in values)
    if isinstance(values, dict):
        return any(_any_fake_object(v) for v in values.values())
    return type(values).__name__ == "FakeScriptObject"


class OperatorHandle:
    """An overload as older programs hold it: its schema, and calls with a key set (D76)."""

    __slots__ = ("_op",)

    def __init__(self, op: OpOverload) -> None:
        self._op = op

    def schema(self) -> FunctionSchema:
        """The schema of the overload."""
        return self._op._schema

    def redispatch_boxed(
        self, keyset: DispatchKeySet, /, *args: object, **kwargs: object
    ) -> object:
        """`OpOverload.redispatch`."""
        return self._op.redispatch(keyset, *args, **kwargs)


def failed_to_bind(error: TypeError) -> bool:
    """Whether a call failed before the called function began: it has left no frame below ours."""
    frame = error.__traceback__
    return frame is not None and frame.tb_next is None


# --- key sets of parameters ------------------------------------------------------------------


def argument_keys(op: OpOverload, params: Sequence[object]) -> int:
    """The or of the key sets of canonical parameters that the schema calls tensors (D21).

    Symbolic numbers among the others add the hidden bit that symbolic tensors have.
    """
    schema = op._schema
    positions = schema.memo.get("tensors")
    if positions is None:
        kinds = [a.type.base.kind for a in schema.arguments]
        positions = schema.memo["tensors"] = [i for i, k in enumerate(kinds) if k == "tensor"]
    ks = keys_of([params[i] for i in cast(list[int], positions)])
    return ks | K.SYMBOLIC if any(isinstance(p, SymNumber) for p in params) else ks


def keys_of(params: Iterable[object]) -> int:
    """The or of the key sets of the tensors among canonical parameters."""
    ks = 0
    for p in params:
        cls = p.__class__
        if cls in _WITHOUT_KEYS:  # to ask for what is not there costs 60 ns (timeit)
            continue
        if cls is tuple:
            for item in cast(tuple[object, ...], p):
                if item.__class__ not in _WITHOUT_KEYS:
                    ks |= getattr(item, "_keys", 0)
        else:
            ks |= getattr(p, "_keys", 0)
    return ks


_WITHOUT_KEYS = frozenset((int, float, bool, str, type(None)))


def resolved_overloads() -> list[OpOverload]:
    """Every overload that has resolved some key set, and so may remember something."""
    with LOCK:
        return list(_RESOLVED)


def resolve_anew() -> None:
    """Forget which kernels serve which key sets: factories would make others now.

    What shape rules said stays remembered; what rests on kernels is of an epoch that is over.
    """
    with LOCK:
        for op in _RESOLVED:
            op._table.clear()
        forget()


def set_fallback(key: DispatchKey, factory: Factory) -> None:
    """Serve at ``key`` every operator without a kernel of its own there; one per key (D53)."""
    with LOCK:
        if key in FALLBACKS:
            raise RuntimeError(f"a backend fallback for {key.name} is registered already")
    replace_fallback(key, factory)


def replace_fallback(key: DispatchKey, factory: Factory) -> None:
    """Serve such operators by another factory: of what is loaded when it is first used."""
    with LOCK:
        FALLBACKS[key] = factory
        for op in list(_RESOLVED):
            op.invalidate()
