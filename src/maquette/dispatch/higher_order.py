"""Higher-order operators: operators whose arguments are functions, in any nesting (spec D112-D122).

`HigherOrderOperator` has a name and Python kernels, by key, by mode, by tensor class and by
transform, and no schema: keys are those of every tensor in its arguments, however deep. Nothing is
registered for it implicitly. What the transforms do with one is registered from above
(`AT_TRANSFORM`); its namespace is ``ops.higher_order``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

from maquette.core.pytree import tree_flatten
from maquette.dispatch import keysets as K
from maquette.dispatch import pre_dispatch
from maquette.dispatch.abstract import TensorBase, disabled_torch_dispatch
from maquette.dispatch.base import OperatorBase, Overridable
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet, KeyLike
from maquette.dispatch.modes import PYTHON, pop_mode_temporarily
from maquette.dispatch.pre_dispatch import TorchDispatchModeKey
from maquette.dispatch.resolution import resolve_key
from maquette.dispatch.schemas.schema import FunctionSchema
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import (
    NO_OVERRIDE,
    call_torch_function,
    overriding_arguments,
)

F = TypeVar("F", bound=Callable[..., Any])
Kernel = Callable[..., Any]

FRONT = DispatchKey.FuncTorchDynamicLayerFrontMode
_LEFT_BEHIND = (DispatchKey.FuncTorchGradWrapper, DispatchKey.FuncTorchBatched)
_FIRST_FALLTHROUGH = (
    "PythonDispatcher", "PythonTLSSnapshot", "ADInplaceOrView", "BackendSelect", "AutocastCPU",
    "AutocastCUDA", "AutocastXPU",
)  # fmt: skip

REGISTERED: dict[str, HigherOrderOperator] = {}
"""The newest higher-order operator of each name."""
AT_TRANSFORM: list[Callable[[HigherOrderOperator, tuple[Any, ...], dict[str, Any]], Any]] = []
"""What calls an operator under the top function transform; the transforms fill it in."""
REVIVE: list[Callable[[Any], Any]] = []
"""What gives the arguments with tensors of transforms that are over replaced by their values."""


EFFECTS: list[Callable[[Any, OperatorBase, Any, Any], Any]] = []
"""What threads the tokens of effects through calls that a functional mode sees; NotImplemented for
an operator without effect. Layers above fill it in."""


class HigherOrderOperator(OperatorBase):
    """An operator that takes functions: subclass it and define ``__call__``.

    ``__call__`` states the parameters and ends with ``return super().__call__(...)``, which
    dispatches. cacheable: whether calls of it may be remembered by compilers.
    supports_training_input_mutation: whether its functions may mutate inputs under autograd.
    """

    namespace: ClassVar[str] = "higher_order"

    def __init__(
        self, name: str, *, cacheable: bool = False, supports_training_input_mutation: bool = False
    ) -> None:
        super().__init__()
        cls = type(self)
        if cls is HigherOrderOperator or cls.__call__ is HigherOrderOperator.__call__:
            raise TypeError(
                f"{cls.__name__} cannot be instantiated: subclass HigherOrderOperator and define "
                f"__call__, which states the parameters and returns super().__call__(...)"
            )
        self._name = self.__name__ = name
        self._ns = self.namespace
        self.__module__ = "maquette.ops.higher_order"  # where generated code finds it
        self._cacheable = cacheable
        self.supports_training_input_mutation = supports_training_input_mutation
        skipped = DispatchKeySet.from_raw_repr(
            functools.reduce(
                int.__or__, [K.functionality_bits(K.key_parse(k)) for k in _FIRST_FALLTHROUGH]
            )
        )
        self.non_fallthrough_keys: DispatchKeySet = K.keyset_full() - skipped
        REGISTERED[name] = self

    # --- what it is ------------------------------------------------------------------

    def name(self) -> str:
        """The name, without its namespace."""
        return self._name

    def cacheable(self) -> bool:
        """Whether calls may be remembered by compilers; final."""
        return self._cacheable

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<HigherOrderOperator {self._name}>"

    def __deepcopy__(self, memo: object) -> HigherOrderOperator:
        return self

    def __copy__(self) -> HigherOrderOperator:
        return self

    def gen_schema(self, *args: Any, **kwargs: Any) -> FunctionSchema:
        """The schema of one call: flat inputs, a tuple of outputs, mutated inputs marked.

        NotImplementedError unless the operator says it, which is fine for a functional one.
        """
        raise NotImplementedError(
            f"HigherOrderOperator {self._name} does not define gen_schema; that is fine if it is "
            f"functional: it then mutates no input and aliases none"
        )

    # --- registration ----------------------------------------------------------------

    def py_impl(self, key: Overridable, /) -> Callable[[F], F]:
        """Decorate a kernel: for a dispatch key, a mode class, a tensor class or a transform."""
        register = super().py_impl(key)
        if isinstance(key, DispatchKey):
            self.non_fallthrough_keys = self.non_fallthrough_keys.add(key)
        return register

    def fallthrough(self, key: KeyLike, /) -> None:
        """Have calls skip a key, and all that share its functionality; an alias: its members."""
        self.non_fallthrough_keys = self.non_fallthrough_keys.remove(K.as_key(key))
        self._dispatch_cache.clear()

    def py_autograd_impl(self, fn: F, /) -> F:
        """Register ``fn`` at Autograd for calls that record: grad mode is on and a leaf needs it.

        Other calls go below autograd. RuntimeError where the operator says by its schema that it
        mutates an input and does not support that in training.
        """

        @functools.wraps(fn)
        def autograd(*args: Any, **kwargs: Any) -> Any:
            leaves = tree_flatten((args, kwargs))[0]
            if not tls.st.grad_enabled or not any(
                isinstance(t, TensorBase) and getattr(t, "requires_grad", False) for t in leaves
            ):
                with AutoDispatchBelowAutograd():
                    return self(*args, **kwargs)
            self._refuse_mutation(args, kwargs)
            return fn(*args, **kwargs)

        self.py_impl(DispatchKey.Autograd)(autograd)
        return fn

    def _refuse_mutation(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if type(self).gen_schema is HigherOrderOperator.gen_schema:
            return
        if self.supports_training_input_mutation:
            return
        schema = self.gen_schema(*args, **kwargs)
        written = [a.name for a in schema.arguments if a.is_write]
        if written:
            raise RuntimeError(
                f"{self._name}: in-place mutation of inputs ({', '.join(written)}) is not "
                f"supported while autograd records; mutate a clone, or return the new value"
            )

    # --- calling ---------------------------------------------------------------------

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        leaves = tree_flatten((args, kwargs))[0]
        st = tls.st
        among = overriding_arguments(leaves, {})
        if st.function_modes or among:
            answer = call_torch_function(self, args, kwargs, among)
            if answer is not NO_OVERRIDE:
                return answer
        return self._run(_keys_of(leaves), args, kwargs)

    def call_unasked(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call it without an offer to ``__torch_function__``: for what is a plain function there.

        What the functions given do is offered as ever.
        """
        return self._run(_keys_of(tree_flatten((args, kwargs))[0]), args, kwargs)

    def _run(self, ks: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        ks &= self.non_fallthrough_keys.raw_repr()
        key = K.highest(ks)
        while (key is DispatchKey.PreDispatch and not _pre_dispatch_acts()) or (
            key is DispatchKey.Python and not self._python_acts(args, kwargs)
        ):
            ks &= ~K.functionality_bits(key)
            key = K.highest(ks)
        return self.dispatch(key, *args, **kwargs)

    def dispatch(self, dispatch_key: DispatchKey, /, *args: Any, **kwargs: Any) -> Any:
        """Run what serves one key (D114)."""
        cached = self._dispatch_cache.get(dispatch_key)
        if cached is not None:
            assert not isinstance(cached, DispatchKey)
            return cached(*args, **kwargs)
        if dispatch_key is FRONT and AT_TRANSFORM:
            return AT_TRANSFORM[0](self, args, kwargs)
        if dispatch_key in _LEFT_BEHIND and dispatch_key not in self.py_kernels and REVIVE:
            args, kwargs = REVIVE[0]((args, kwargs))
            return self(*args, **kwargs)
        if dispatch_key is DispatchKey.Python:
            return self._at_python(args, kwargs)
        if dispatch_key is DispatchKey.PreDispatch and _pre_dispatch_acts():
            return self._at_pre_dispatch(args, kwargs)
        if dispatch_key is DispatchKey.Fake and dispatch_key not in self.py_kernels:
            return self._at_fake(args, kwargs)
        return self._at_kernel(dispatch_key)(*args, **kwargs)

    def _at_kernel(self, key: DispatchKey) -> Kernel:
        try:
            final = resolve_key(self, key)
        except NotImplementedError:
            final = key
        kernel = self.py_kernels.get(final)
        if kernel is None:
            raise NotImplementedError(
                f"could not find a kernel of the HigherOrderOperator {self._name} at the dispatch "
                f"key {key} (resolved to {final}); register one with {self._name}.py_impl, or let "
                f"calls skip the key with {self._name}.fallthrough"
            )
        if key is not DispatchKey.PreDispatch:
            self._dispatch_cache[key] = kernel
        return kernel

    # --- modes and subclasses --------------------------------------------------------

    def _get_overloaded_args(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[TensorBase, ...]:
        """The arguments whose class answers calls, in order; one list or tuple deep."""
        found: list[TensorBase] = []
        for value in (*args, *kwargs.values()):
            members = value if isinstance(value, (list, tuple)) else (value,)
            found += [m for m in members if isinstance(m, TensorBase) and _answers(type(m))]
        return tuple(found)

    def _python_acts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether there is a mode, or a tensor of a class that answers calls."""
        if tls.st.dispatch_modes:
            return True
        leaves = tree_flatten((args, kwargs))[0]
        return any(isinstance(t, TensorBase) and _answers(type(t)) for t in leaves)

    def _at_python(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        modes = tls.st.dispatch_modes
        mode = modes[-1] if modes else None
        if mode is not None:
            result = self._ask_mode(mode, args, kwargs)
            if result is not NotImplemented:
                return result
        overloaded = self._get_overloaded_args(args, kwargs)
        for t in overloaded:
            rule = self.python_key_table.get(type(t))
            if rule is None:
                raise NotImplementedError(
                    f"There was no rule registered for HigherOrderOperator {self._name} and the "
                    f"subclass {type(t).__name__}: register one with "
                    f"{self._name}.py_impl({type(t).__name__})"
                )
            result = rule(*args, **kwargs)
            if result is not NotImplemented:
                return result
        self._raise_declined(mode, overloaded)

    def _ask_mode(self, mode: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        rule = self.python_key_table.get(type(mode))
        if rule is not None:
            with pop_mode_temporarily():
                return rule(mode, *args, **kwargs)
        if getattr(mode, "supports_higher_order_operators", False):
            with pop_mode_temporarily():
                result = mode.__torch_dispatch__(self, [], args, kwargs)
            if result is NotImplemented:
                self._raise_declined(mode, self._get_overloaded_args(args, kwargs))
            return result
        raise NotImplementedError(
            f"There was no rule registered for HigherOrderOperator {self._name} and mode {mode}. "
            f"Hint: set {type(mode).__name__}'s supports_higher_order_operators to True; this "
            f"causes all higher order operators to be handed to its __torch_dispatch__, or "
            f"register a rule with {self._name}.py_impl({type(mode).__name__})"
        )

    def _raise_declined(self, mode: Any, overloaded: Sequence[TensorBase]) -> NoReturn:
        raise TypeError(
            f"HigherOrderOperator '{self._name}' is not supported for the given input types: every "
            f"rule gave NotImplemented. The current mode is {mode}; tensor subclasses are "
            f"{[type(t).__name__ for t in overloaded]}. Handle '{self._name}' in one of them: a "
            f"rule with py_impl that gives something else"
        )

    def _at_fake(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The rule for the class of the fake mode, which is not active meanwhile (D119)."""
        active = tls.st.fake_mode
        mode = active if active is not None else _fake_mode_of(args, kwargs)
        rule = next(
            (self.python_key_table[c] for c in type(mode).__mro__ if c in self.python_key_table),
            None,
        )
        if rule is None:
            raise NotImplementedError(
                f"There was no rule registered for HigherOrderOperator {self._name} and "
                f"FakeTensorMode: register one with {self._name}.py_impl(FakeTensorMode), which "
                f"gives its results on fake tensors"
            )
        if active is None:
            return rule(mode, *args, **kwargs)
        with pop_mode_temporarily(TorchDispatchModeKey.FAKE):
            return rule(mode, *args, **kwargs)

    def _at_pre_dispatch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mode = pre_dispatch.listed()[-1]
        rule = self.python_key_table.get(type(mode))
        assert rule is not None, (
            f"HigherOrderOperator {self._name} has no rule for the mode {mode} at PreDispatch: "
            f"register one with {self._name}.py_impl({type(mode).__name__})"
        )
        with pop_mode_temporarily(DispatchKey.PreDispatch):
            return rule(mode, *args, **kwargs)


def _keys_of(leaves: Sequence[object]) -> int:
    """The effective key set of a call with these leaves, as this thread has it."""
    keys = 0
    for leaf in leaves:
        if isinstance(leaf, TensorBase):
            keys |= leaf._keys
    return tls.st.effective_keys(keys) & K.VISIBLE


def _pre_dispatch_acts() -> bool:
    return bool(pre_dispatch.listed()) and not tls.st.exclude & PYTHON


def _answers(cls: type) -> bool:
    handler: Any = getattr(cls, "__torch_dispatch__", disabled_torch_dispatch)
    return getattr(handler, "__func__", handler) is not disabled_torch_dispatch


def _fake_mode_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    leaves = tree_flatten((args, kwargs))[0]
    modes = (getattr(t, "fake_mode", None) for t in leaves if isinstance(t, TensorBase))
    return next((mode for mode in modes if mode is not None), None)
