"""The key Functionalize and the transform `functionalize`: two owners of wrappers, one kernel.

At the key, a program gets its wrappers from `to_functional_tensor` and autograd records on them;
`enable_functionalization` has factories give wrappers too. The transform makes wrappers of its
inputs at a level of its own on the stack of interpreters, and at the end writes the new values of
mutated inputs back. Below either, no operator mutates a tensor of the program.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from maquette.core.pytree import tree_flatten
from maquette.dispatch import keysets as K
from maquette.dispatch.base import TransformType
from maquette.dispatch.guards import ExcludeDispatchKeyGuard
from maquette.dispatch.kernels import Boxed
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet
from maquette.dispatch.operator import OpOverload, keys_of, set_fallback
from maquette.dispatch.tls import tls
from maquette.tensor.keys import ADINPLACE, FAKE
from maquette.tensor.tensor import Tensor
from maquette.transforms.explaining import note_place
from maquette.transforms.functional.kernel import Handler, functionalized
from maquette.transforms.functional.wrapper import (
    FUNCTIONALIZE,
    FunctionalWrapper,
    each,
    is_functional,
    wrap,
)
from maquette.transforms.interpreter import GRAD_WRAPPER, PLAIN, TOP, Interpreter, pushed, run_below
from maquette.transforms.rules import operators
from maquette.transforms.wrappers import revived

_SKIPPED = FUNCTIONALIZE | K.AUTOGRAD | ADINPLACE
# Key sets whose kernels call no operators: these run without the thread's state being changed.
_QUIET = PLAIN | FAKE | K.SYMBOLIC
_SKIPPED_KEYS = DispatchKeySet.from_raw_repr(_SKIPPED)


# --- the key ----------------------------------------------------------------------------------


class _Settings(threading.local):
    reapply_views = False


_settings = _Settings()


def _rules_alone(op: OpOverload) -> bool:
    """Whether fakes of an operator come from its shape rule: no Meta kernel calls operators."""
    at_meta = op._kernels.get(DispatchKey.Meta)
    return not (at_meta and at_meta[-1].speaks_operators)


class KeyOwner:
    """Owns the wrappers of the key Functionalize, in all threads."""

    number = 0
    live = True
    wrapper_bits = FUNCTIONALIZE
    continued: tuple[Interpreter, ...] = ()

    @property
    def copies(self) -> bool:
        """Whether views become copies, in this thread."""
        return not _settings.reapply_views

    def beneath(self) -> AbstractContextManager[object]:
        """For a block: operators neither functionalize nor record."""
        return ExcludeDispatchKeyGuard(_SKIPPED_KEYS)

    def call(self, op: OpOverload, values: Sequence[object]) -> object:
        """Run an operator below the key."""
        st = tls.st
        ks = (keys_of(values) | st.include) & st.keep & ~_SKIPPED
        if not ks & ~_QUIET and op.facts.shape is not None:
            if not ks & FAKE or _rules_alone(op):
                return op.run(ks, values)
        before = st.exclude
        st.set_exclude(before | _SKIPPED)
        try:
            return op.run(st.effective_keys(keys_of(values)), values)
        finally:
            st.set_exclude(before)


KEY = KeyOwner()


def key_kernel(op: OpOverload, ks: int) -> Boxed:
    """The kernel at Functionalize."""
    handler = functionalized(op)

    def kernel(ks: int, *params: object) -> object:
        return handler(KEY, params)

    return kernel


set_fallback(DispatchKey.Functionalize, key_kernel)


def to_functional_tensor(t: Tensor) -> FunctionalWrapper:
    """A wrapper of ``t`` for the key Functionalize; it does not require grad."""
    if is_functional(t, KEY):
        raise RuntimeError("_to_functional_tensor: the tensor is functional already")
    return wrap(t, KEY)


def from_functional_tensor(t: Tensor) -> Tensor:
    """The value of a wrapper, as it is; `sync` brings it up to date first."""
    if not isinstance(t, FunctionalWrapper):
        raise RuntimeError(
            f"_from_functional_tensor: expected a functional tensor, got {type(t).__name__} "
            f"({t.meta})"
        )
    return t._value


def is_functional_tensor(t: object) -> bool:
    """Whether a tensor is a wrapper of the key Functionalize."""
    return is_functional(t, KEY)


def sync(t: object) -> None:
    """Bring a wrapper's value up to date with all writes to its memory."""
    if isinstance(t, FunctionalWrapper):
        t.sync()


def enable_functionalization(*, reapply_views: bool = False) -> None:
    """Have factories of this thread give wrappers; reapply_views: let values share memory."""
    if tls.st.include & FUNCTIONALIZE:
        raise RuntimeError(
            "multiple layers of mode-style functionalization nesting is not currently supported, "
            "outside of the functionalize() transform"
        )
    tls.st.add_include(FUNCTIONALIZE)
    _settings.reapply_views = reapply_views


def disable_functionalization() -> None:
    """Undo `enable_functionalization`."""
    tls.st.drop_include(FUNCTIONALIZE)
    _settings.reapply_views = False


def reapply_views(enabled: bool) -> bool:
    """Say whether values of this thread may share memory; what was said before."""
    before, _settings.reapply_views = _settings.reapply_views, enabled
    return before


def freeze_functional_tensor(t: Tensor) -> None:
    """Refuse writes to the memory of a wrapper from now on."""
    assert isinstance(t, FunctionalWrapper)
    t._storage.frozen = True


def mirror_autograd_meta_to(source: Tensor, target: Tensor) -> None:
    """Have ``target`` require grad where ``source`` does, as a leaf or as the result of a node."""
    target._ag = None
    if source.requires_grad:
        target._require_grad(True)
        if source.grad_fn is not None:
            ag = target._autograd()
            ag.requires_grad = False
            ag.grad_fn, ag.output_nr = source.grad_fn, source.output_nr


# --- the transform ------------------------------------------------------------------------------

_REMOVABLE = ("mutations", "mutations_and_views")


class FunctionalizeInterpreter(Interpreter):
    """The level of one `functionalize`.

    ``continued``: levels that wait for the function that runs on this one, a function which a
    higher-order operator was given there; it reads what it captures of theirs by value.
    """

    __slots__ = ("continued", "copies")

    transform = TransformType.Functionalize
    wrapper_bits = FUNCTIONALIZE | GRAD_WRAPPER

    def __init__(self, *, copies: bool, continued: tuple[Interpreter, ...] = ()) -> None:
        self.copies = copies
        self.continued = continued

    def functionalize_add_back_views(self) -> bool:
        """Whether views stay views."""
        return not self.copies

    def get_state(self) -> tuple[object, ...]:
        """What makes two interpreters do the same."""
        return (*super().get_state(), self.functionalize_add_back_views())

    def process(self, op: OpOverload, params: Sequence[object]) -> object:
        """Run one operator call at this level."""
        handler = _handlers.get(op)
        if handler is None or not op.alive:
            handler = _handlers[op] = functionalized(op)
        return handler(self, tuple(params))

    @classmethod
    def call_of(cls, op: OpOverload) -> Callable[..., object]:
        """``call(level, params)`` that processes calls of one operator; kernels keep it."""
        return functionalized(op)

    def beneath(self) -> AbstractContextManager[object]:
        """For a block: the level below."""
        return self.lower()

    def call(self, op: OpOverload, values: Sequence[object]) -> object:
        """Run an operator on the level below."""
        st = tls.st
        if st.exclude == self.exclude and op.facts.shape is not None:
            ks = (keys_of(values) | st.include & ~TOP | self.include_below) & st.keep
            if not ks & ~_QUIET and (not ks & FAKE or _rules_alone(op)):
                return (op._table.get(ks) or op.resolve(ks))(ks, *values)
        return run_below(self, op, values)


_handlers: dict[OpOverload, Handler] = {}


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function that computes what ``func`` does by operators that mutate nothing.

    remove: "mutations", or "mutations_and_views" to make views copies as well. Inputs that ``func``
    mutates have their new values at the end. Raises RuntimeError for another ``remove``, and
    where ``func`` mutates a tensor that is no input by one that is.

    >>> import maquette as mq
    >>> functionalize(lambda x: x.add_(1))(mq.ones(2))
    tensor([2., 2.])
    """
    if remove not in _REMOVABLE:
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. "
            f"Valid options are:\n     remove='mutations': all inplace and out= operators will be "
            f"removed from the program, and replaced with their out-of-place equivalents.\n     "
            f"remove='mutations_and_views': In addition to the above, all aliasing operators "
            f"{{view}} will be replaced with their non-aliasing counterparts, {{view}}_copy.\n"
        )

    return on_level(func, copies=remove == "mutations_and_views")


def on_level(
    func: Callable[..., Any], *, copies: bool, continued: tuple[Interpreter, ...] = ()
) -> Callable[..., Any]:
    """A function that calls ``func`` on a new level, with the options of that."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        level = FunctionalizeInterpreter(copies=copies, continued=continued)
        with pushed(level):
            made: dict[int, FunctionalWrapper] = {}

            def into(t: Any) -> Any:
                if id(t) not in made:
                    made[id(t)] = wrap(revived(t), level)
                return made[id(t)]

            inner: Any = each(Tensor, into, (args, kwargs))
            try:
                out = func(*inner[0], **inner[1])
            except Exception as error:
                note_place(error, "functionalize", func)
                raise
            given = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, Tensor)]
            with level.lower():
                for t in given:
                    write_back(t, made[id(t)])
            return each(Tensor, lambda t: t.sync() if is_functional(t, level) else t, out)

    return wrapped


def write_back(t: Tensor, wrapper: FunctionalWrapper) -> None:
    """Give an input the new value of its memory, if that was mutated; on the level below.

    Its sizes and strides stay, though the function may have changed them for itself.
    """
    wrapper.sync()
    storage = wrapper._storage
    if storage.mutations and not wrapper._storage_changed and storage.base is not t:
        if storage.base.meta.shape == t.meta.shape:
            operators.copy_(t, storage.base)


__all__ = [
    "FunctionalizeInterpreter",
    "KEY",
    "disable_functionalization",
    "enable_functionalization",
    "freeze_functional_tensor",
    "from_functional_tensor",
    "functionalize",
    "is_functional_tensor",
    "on_level",
    "mirror_autograd_meta_to",
    "reapply_views",
    "sync",
    "to_functional_tensor",
    "write_back",
]
