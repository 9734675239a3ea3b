"""Operators: `OpOverload`, its kernel table, and the resolution of key sets to kernels.

One idea: an operator resolves a *whole key set* (an int) to a callable once and remembers it in
``_table``; a call is or-ing the argument's key sets, one dict look-up, one call. The generated
entry functions that do so are in `call.py`; packets and namespaces in `registry.py`. What an
operator's page says (shape rule, derivative, cost ...) is kept here as plain attributes, set by the
registration calls of the library floor, so that whoever asks, asks the operator.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from maquette.dispatch import keysets as K
from maquette.dispatch.call import build_call
from maquette.dispatch.kernels import Boxed, Factory, Kernel
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet
from maquette.dispatch.matching import bind, normalise
from maquette.dispatch.schema import FunctionSchema
from maquette.dispatch.schema_parser import parse_schema
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls

if TYPE_CHECKING:
    from maquette.dispatch.registry import OpOverloadPacket

F = TypeVar("F", bound=Callable[..., object])

LOCK = threading.RLock()
FALLBACKS: dict[DispatchKey, Factory] = {}

# D47: the operators (and their in-place and out= forms) whose Tensor parameters take numbers.
_NUMBER_NAMES = frozenset(
    "add sub mul div divide multiply subtract true_divide floor_divide".split()
)
_NUMBER_EXACT = frozenset("to _to_copy copy copy_ _conj".split())


class OperatorBase:
    """What overloads and higher-order operators share: tables of Python overrides (D64)."""

    def __init__(self) -> None:
        self.py_kernels: dict[DispatchKey, Callable[..., object]] = {}
        self.python_key_table: dict[type, Callable[..., object]] = {}
        self.functorch_table: dict[object, Callable[..., object]] = {}
        self._dispatch_cache: dict[DispatchKey, object] = {}

    def __call__(self, /, *args: object, **kwargs: object) -> object:
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")

    def name(self) -> str:
        """The qualified name, ``ns::name.overload``."""
        raise NotImplementedError(f"{type(self).__name__} does not define name()")


class OpOverload(OperatorBase):
    """One overload of an operator: ``ops.aten.add.Tensor``.

    Calling it matches the arguments with the schema (RuntimeError naming operator, parameter and
    schema otherwise), collects the key set and runs the kernel that serves it.
    """

    def __init__(
        self, packet: OpOverloadPacket, schema_text: str, tags: Iterable[Tag], place: str
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
        self.place = place
        self.alive = True
        self._schema_text = schema_text
        self._parsed: FunctionSchema | None = None
        self._kernels: dict[DispatchKey, list[Kernel]] = {}
        self._table: dict[int, Boxed] = {}
        base = self._opname.rstrip("_") if self.namespace == "aten" else ""
        self.takes_numbers = base in _NUMBER_NAMES or (
            self.namespace == "aten" and self._opname in _NUMBER_EXACT
        )
        # The page (see maquette.library.page): facts that others ask this operator for.
        self.shape_rule: Callable[..., object] | None = None
        self.array_kernel: Callable[..., object] | None = None
        self.cost_rule: Callable[..., object] | None = None
        self.batching_rule: Callable[..., object] | None = None
        self.derivatives: object | None = None
        self.free_devices = False
        self.infer_cache: dict[object, object] = {}
        self._call: Boxed = self._first_call

    # --- calling ---------------------------------------------------------------------

    def __call__(self, /, *args: object, **kwargs: object) -> object:
        try:
            return self._call(*args, **kwargs)
        except TypeError as error:
            # Python's own binding of the generated function failed: no frame below ours. The slow
            # path then says what is wrong in the words of the schema.
            frame = error.__traceback__
            if frame is None or frame.tb_next is not None:
                raise
        return self.call_slow(args, kwargs)

    def _first_call(self, /, *args: object, **kwargs: object) -> object:
        """Compile the entry function at the first call: definitions must stay cheap to import."""
        if not self.alive:
            self._raise_stale()
        self._compile()
        return self(*args, **kwargs)

    def _compile(self) -> None:
        if self._call == self._first_call:
            self._call = build_call(self)

    def call_slow(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Match exactly (D38-D49), then dispatch. The plain version of the generated entry."""
        if not self.alive:
            self._raise_stale()
        handler = TORCH_FUNCTION_HANDLER[0]
        if handler is not None:
            answer = handler(self, args, kwargs)
            if answer is not NO_OVERRIDE:
                return answer
        params = bind(self._schema, args, kwargs, takes_numbers=self.takes_numbers)
        st = tls.st
        ks = (keys_of(params) | st.include) & st.keep & ~K.TORCH_FUNCTION
        return (self._table.get(ks) or self.resolve(ks))(ks, *params)

    def redispatch(self, keyset: DispatchKeySet, /, *args: object, **kwargs: object) -> object:
        """Run the highest kernel of exactly ``keyset``; thread-local sets are not consulted."""
        params = bind(self._schema, args, kwargs, takes_numbers=self.takes_numbers)
        ks = keyset.raw_repr() | (keys_of(params) & ~K.VISIBLE & tls.st.keep)
        return self.run(ks, params)

    def run(self, ks: int, params: Iterable[object]) -> object:
        """Run the kernel that serves the effective key set ``ks`` on canonical parameters."""
        return (self._table.get(ks) or self.resolve(ks))(ks, *params)

    def _op_dk(self, key: DispatchKey, /, *args: object, **kwargs: object) -> object:
        return self.redispatch(DispatchKeySet(key), *args, **kwargs)

    # --- resolution ------------------------------------------------------------------

    def resolve(self, ks: int) -> Boxed:
        """The callable for a whole effective key set, found once and remembered (D62)."""
        with LOCK:
            kernel = self._find(ks)
            self._table[ks] = kernel
            return kernel

    def _find(self, ks: int) -> Boxed:
        if not self.alive:
            self._raise_stale()
        if ks & K.TORCH_FUNCTION:
            return self._torch_function_kernel
        rest = ks
        while True:
            key = K.highest(rest)
            kernel = self.kernel_at(key)
            if kernel is None:
                self._raise_no_kernel(key)
            built = None
            if not kernel.only_with_grad or ks & K.REQUIRES_GRAD:
                built = kernel.factory(self, ks)
            if built is not None:
                return built
            if key is DispatchKey.Undefined:
                self._raise_no_kernel(key)
            rest &= ~K.functionality_bits(key)

    def _torch_function_kernel(self, ks: int, *params: object) -> object:
        from_schema = normalise(self._schema, params)
        handler = TORCH_FUNCTION_HANDLER[0]
        answer = NO_OVERRIDE if handler is None else handler(self, *from_schema)
        if answer is not NO_OVERRIDE:
            return answer
        return self.run(ks & ~K.TORCH_FUNCTION, params)

    def kernel_at(self, key: DispatchKey) -> Kernel | None:
        """The registered kernel, or a key's fallback, that serves one key; None where none does."""
        found = self.find_key(key)
        if found is None:
            return None
        stack = self._kernels.get(found)
        if stack:
            return stack[-1]
        return Kernel(FALLBACKS[key], only_with_grad=K.is_autograd_key(key))

    def find_key(self, key: DispatchKey) -> DispatchKey | None:
        """D55-D60: the key whose kernel serves ``key``."""
        own = self._kernels
        if own.get(key):
            return key
        undefined = key is DispatchKey.Undefined
        for alias in (
            DispatchKey.CompositeExplicitAutogradNonFunctional,
            DispatchKey.CompositeExplicitAutograd,
        ):
            if own.get(alias) and (undefined or K.is_included_in_alias(key, alias)):
                return alias
        backend = bool(own.get(DispatchKey.CompositeExplicitAutograd)) or self._has_backend(key)
        nested = DispatchKey.CompositeImplicitAutogradNestedTensor
        if own.get(nested) and not undefined and not backend:
            if K.is_included_in_alias(key, nested):
                return nested
        implicit = DispatchKey.CompositeImplicitAutograd
        if own.get(implicit) and not backend:
            if undefined or K.is_included_in_alias(key, implicit):
                self._check_not_ambiguous(key)
                return implicit
        for alias in (DispatchKey.Autograd, DispatchKey.FuncTorchBatchedDecomposition):
            if own.get(alias) and K.is_included_in_alias(key, alias):
                return alias
        return key if key in FALLBACKS else None

    def _has_backend(self, key: DispatchKey) -> bool:
        served = K.get_backend_keyset_from_autograd(key)
        return any(stack and not k.is_alias and served.has(k) for k, stack in self._kernels.items())

    def _check_not_ambiguous(self, key: DispatchKey) -> None:
        if key is not DispatchKey.AutogradOther:
            return
        others = K.autogradother_backends
        if any(stack and others.has(k) for k, stack in self._kernels.items()):
            raise RuntimeError(f"{self.name()}: ambiguous autogradother kernel")

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

    def invalidate(self) -> None:
        """Forget every resolved key set and every inferred result."""
        self._table.clear()
        self.infer_cache.clear()
        self._dispatch_cache.clear()

    def retire(self) -> None:
        """The library that defined this overload is gone: later calls say so."""
        with LOCK:
            self.alive = False
            self._kernels.clear()
            self.invalidate()
            self._call = self._raise_stale

    def has_kernel_for_dispatch_key(self, key: DispatchKey) -> bool:
        """Whether a kernel is registered at exactly this key (no alias expansion)."""
        return bool(self._kernels.get(key)) or key in self.py_kernels

    # --- facts -----------------------------------------------------------------------

    @property
    def _schema(self) -> FunctionSchema:
        if self._parsed is None:
            self._parsed = parse_schema(self._schema_text)
        return self._parsed

    @property
    def is_view(self) -> bool:
        """Some argument has alias information and none of those is written (D73)."""
        aliased = [a for a in self._schema.arguments if a.alias_info is not None]
        return bool(aliased) and not any(a.is_write for a in aliased)

    @property
    def _defined_in_python(self) -> bool:
        return True

    @property
    def _nondeterministic_seeded(self) -> bool:
        return Tag.nondeterministic_seeded in self.tags

    @property
    def _overloadname(self) -> str:
        return self._overload or "default"

    @property
    def op(self) -> Boxed:
        return self.__call__

    def name(self) -> str:
        return self._qualified

    @property
    def _name(self) -> str:
        return self._qualified

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return (
            f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"
        )

    def __copy__(self) -> OpOverload:
        return self

    def __deepcopy__(self, memo: object) -> OpOverload:
        return self

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str, str]]:
        return _find_overload, (self.namespace, self._opname, self._overloadname)

    # --- errors ----------------------------------------------------------------------

    def _raise_stale(self, *args: object, **kwargs: object) -> NoReturn:
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
        else:
            why = f"has no kernel for the backend {key.name}"
        raise NotImplementedError(
            f"{self.name()}: {why}. Kernels are registered for: {have}. Schema: {self._schema}"
        )


def keys_of(params: Iterable[object]) -> int:
    """The or of the key sets of the tensors among canonical parameters."""
    ks = 0
    for p in params:
        if p.__class__ is tuple:
            for item in p:  # type: ignore[attr-defined]  # a tuple, by the line above
                ks |= getattr(item, "_keys", 0)
        else:
            ks |= getattr(p, "_keys", 0)
    return ks


class _NoOverride:
    def __repr__(self) -> str:
        return "NO_OVERRIDE"


NO_OVERRIDE = _NoOverride()
TORCH_FUNCTION_HANDLER: list[Callable[..., object] | None] = [None]


def _find_overload(namespace: str, name: str, overload: str) -> object:
    from maquette.dispatch.registry import ops  # same floor; the two modules know each other

    return getattr(getattr(getattr(ops, namespace), name), overload)


def set_fallback(key: DispatchKey, factory: Factory) -> None:
    """Serve at ``key`` every operator without a kernel of its own there; one per key (D53)."""
    with LOCK:
        if key in FALLBACKS:
            raise RuntimeError(f"a backend fallback for {key.name} is registered already")
        FALLBACKS[key] = factory


def fall_through(op: OpOverload, ks: int) -> None:
    """The fallback that skips its key."""
    return None
