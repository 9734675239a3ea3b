"""The stack of interpreters: one for each function transform in force, the outermost first.

An `Interpreter` is a level. While it is on top of the stack, the key FuncTorchDynamicLayerFrontMode
is included (for vmap, FuncTorchVmapMode too), so that every operator call comes to it
(`levels.py`); `lower` takes it off for a block, which is how a level calls the one below. The stack
is a tuple in the thread's dispatcher state: a program that uses no transform has the empty one and
pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, cast

from maquette.dispatch import keysets as K
from maquette.dispatch.abstract import TensorBase
from maquette.dispatch.base import TransformType
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload, keys_of
from maquette.dispatch.tls import Sets, tls
from maquette.tensor.keys import ADINPLACE

FRONT = K.functionality_bits(DispatchKey.FuncTorchDynamicLayerFrontMode)
VMAP_MODE = K.functionality_bits(DispatchKey.FuncTorchVmapMode)
BATCHED = K.functionality_bits(DispatchKey.FuncTorchBatched)
GRAD_WRAPPER = K.functionality_bits(DispatchKey.FuncTorchGradWrapper)
BACK = K.functionality_bits(DispatchKey.FuncTorchDynamicLayerBackMode)
TOP = FRONT | VMAP_MODE
# Key sets that lead to nothing but recording and a backend's kernel, neither of which calls
# operators: such a call runs without the thread's state being changed (0.9 us less).
PLAIN = (
    K.BACKENDS
    | K.AUTOGRAD
    | K.REQUIRES_GRAD
    | K.functionality_bits(DispatchKey.CPU)
    | K.functionality_bits(DispatchKey.ADInplaceOrView)
    | K.functionality_bits(DispatchKey.BackendSelect)
    | K.AUTOCAST
)
RANDOMNESS = ("error", "different", "same")


class Interpreter:
    """One level: what a transform does with a call of an operator.

    ``number`` is its level, from 1; ``below`` the stack under it; ``live`` whether the transform is
    still running. ``grad_below`` is grad mode for the calls on the level below: None where it is
    that of the program, whose `no_grad` holds on all levels, as in PyTorch; off where a level that
    records was pushed with grad mode off. ``entered`` is the table of effective key sets in force
    once a level that records is pushed, by which calls see that the state is still that one, and
    ``under`` the table on the level below; None where grad mode or inference mode change there.
    """

    __slots__ = (
        "below", "entered", "exclude", "grad_below", "include_below", "live", "number", "under",
    )  # fmt: skip

    transform: ClassVar[TransformType]
    bits: ClassVar[int] = FRONT
    explicit: ClassVar[bool] = True  # a function's transform, in which backward() is refused
    records: ClassVar[bool] = False  # whether it switches grad mode on, whatever it is outside
    leaves_inference: ClassVar[bool] = False  # whether inference mode is off inside

    number: int
    below: tuple[Interpreter, ...]
    grad_below: bool | None
    exclude: int
    include_below: int
    entered: dict[int, int] | None
    under: dict[int, int]
    live: bool

    def level(self) -> int:
        """The number of the level: 1 for the outermost transform."""
        return self.number

    def key(self) -> TransformType:
        """Which transform this is."""
        return self.transform

    def process(self, op: OpOverload, params: Sequence[object]) -> object:
        """Run one operator call at this level, which is on top of the stack."""
        raise NotImplementedError(type(self).__name__)

    @classmethod
    def call_of(cls, op: OpOverload) -> Callable[..., object]:
        """``call(level, params)`` that processes calls of one operator; kernels keep it."""
        return lambda level, params: level.process(op, params)

    def get_state(self) -> tuple[object, ...]:
        """What makes two interpreters do the same: transform, level and settings."""
        return (self.transform, self.number)

    def check_state(self, state: object) -> bool:
        """Whether the interpreter is in a state that `get_state` gave."""
        return self.get_state() == state

    def lifted(self, t: Any) -> Any:
        """A tensor, of a live level, as this level takes it from a higher-order operator."""
        return t

    def lower(self) -> _Lowered:
        """For a ``with`` block: the stack without this level and what is above it."""
        return _Lowered(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} level {self.number}>"


class _Lowered:
    """The thread's state as the level below sees it, for a block."""

    __slots__ = ("_interpreter", "_saved")

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter

    def __enter__(self) -> None:
        st = tls.st
        level = self._interpreter
        self._saved = (st.transforms, st.sets())
        st.transforms = level.below
        grad = st.grad_enabled if level.grad_below is None else level.grad_below
        include = st.include & ~TOP | level.include_below
        st.set_sets(include, level.exclude, grad_enabled=grad)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        st = tls.st
        st.transforms, sets = self._saved
        st.put_back(sets)


def run_below(level: Interpreter, op: OpOverload, values: Sequence[object]) -> object:
    """Call an operator on the level below, with canonical parameters."""
    st = tls.st
    keys = 0
    for v in values:
        if isinstance(v, TensorBase):
            keys |= v._keys
        elif v.__class__ is tuple or v.__class__ is list:
            keys |= keys_of(v)
    if st.exclude == level.exclude and op.facts.shape is not None:
        if level.grad_below is None or level.grad_below is st.grad_enabled:
            ks = (keys | st.include & ~TOP | level.include_below) & st.keep
            if not ks & ~PLAIN:
                return (op._table.get(ks) or op.resolve(ks))(ks, *values)
    with _Lowered(level):
        return op.run(tls.st.effective_keys(keys), values)


def stack() -> tuple[Interpreter, ...]:
    """The interpreters in force in this thread, the outermost first."""
    return cast(tuple[Interpreter, ...], tls.st.transforms)


def top() -> Interpreter | None:
    """The interpreter of the innermost transform, or None."""
    found = tls.st.transforms
    return cast(Interpreter, found[-1]) if found else None


Below = tuple[tuple[object, ...], Sets, bool, bool]


def push(level: Interpreter) -> Below:
    """Put a new level on top of the stack; what `pop` needs to take it off again."""
    st = tls.st
    transforms = st.transforms
    below = (transforms, sets := st.sets(), st.forward_enabled, st.inference)
    include, exclude, grad = sets[:3]
    if st.inference and level.leaves_inference:
        st.inference = False
        include, exclude = include & ~K.INFERENCE | ADINPLACE, exclude & ~K.AUTOGRAD
    level.below = cast(tuple[Interpreter, ...], transforms)
    level.number = len(transforms) + 1
    level.include_below = include & TOP
    level.exclude = exclude
    level.grad_below = False if level.records and not grad else None
    level.live = True
    st.forward_enabled = st.forward_enabled or level.explicit
    st.transforms = (*transforms, level)
    st.set_sets(include & ~TOP | level.bits, exclude, grad_enabled=grad or level.records)
    level.entered = st.effective if level.records and grad and not below[3] else None
    level.under = sets[4]
    return below


def pop(level: Interpreter, below: Below) -> None:
    """Take a level off the stack: it is dead from now on."""
    level.live = False
    st = tls.st
    st.transforms, sets, st.forward_enabled, st.inference = below
    st.put_back(sets)


class pushed:  # named as the block that it opens
    """For a ``with`` block: a new level on top of the stack; it is dead afterwards."""

    __slots__ = ("_below", "_interpreter")

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter

    def __enter__(self) -> Interpreter:
        self._below = push(self._interpreter)
        return self._interpreter

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pop(self._interpreter, self._below)


@contextmanager
def at_level(level: Interpreter) -> Iterator[None]:
    """For a block: the stack with ``level``, a live one, on top."""
    st = tls.st
    saved = (st.transforms, st.include, st.exclude, st.grad_enabled)
    above = cast(Interpreter, st.transforms[level.number])
    with above.lower():
        yield
    assert (st.transforms, st.include, st.exclude, st.grad_enabled) == saved


@contextmanager
def temporarily_clear_interpreter_stack() -> Iterator[list[Interpreter]]:
    """For a block: no transforms at all; yields those that were in force, the outermost first."""
    st = tls.st
    levels_before, sets = st.transforms, st.sets()
    st.transforms = ()
    st.set_include(st.include & ~TOP)
    try:
        yield list(cast(tuple[Interpreter, ...], levels_before))
    finally:
        st.transforms = levels_before
        st.put_back(sets)


@contextmanager
def temporarily_restore_interpreter_stack(levels: Sequence[Interpreter]) -> Iterator[None]:
    """For a block: the transforms that `temporarily_clear_interpreter_stack` took away."""
    st = tls.st
    before, sets = st.transforms, st.sets()
    st.transforms = tuple(levels)
    st.set_include(st.include & ~TOP | (levels[-1].bits if levels else 0))
    try:
        yield
    finally:
        st.transforms = before
        st.put_back(sets)


@contextmanager
def temporarily_pop_interpreter_stack() -> Iterator[Interpreter]:
    """For a block: the stack without its top, which is yielded."""
    level = top()
    if level is None:
        raise RuntimeError("temporarily_pop_interpreter_stack: no function transform is in force")
    with level.lower():
        yield level


def compare_functorch_state(states: Sequence[tuple[Interpreter, object]]) -> bool:
    """Whether the stack is as deep as a list of (interpreter, state), every state as then."""
    levels = stack()
    if len(levels) != len(states):
        return False
    return all(level.check_state(state) for level, (_, state) in zip(levels, states))


def lookup_of(op: OpOverload) -> Callable[..., object]:
    """An operator as a function of canonical parameters, in order."""

    def call(*params: object) -> object:
        return op.run(tls.st.effective_keys(keys_of(params)), params)

    return call


__all__ = [
    "Interpreter",
    "TransformType",
    "at_level",
    "compare_functorch_state",
    "pop",
    "push",
    "pushed",
    "run_below",
    "stack",
    "temporarily_clear_interpreter_stack",
    "temporarily_pop_interpreter_stack",
    "temporarily_restore_interpreter_stack",
    "top",
]
