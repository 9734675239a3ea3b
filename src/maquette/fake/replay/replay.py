"""Block replay: equal modules called with equal metas are run once (FX4, FX5).

`FakeTensorMode.replaying` has a mode stand around the calls of modules. The modules that a program
has several of (the layers of a network) are its blocks. A call of one is read into a key
(`values.py`), or seen to be like one that was read (`pattern.py`); the first with a key runs, and
what it did is written down (`block.py`); the others do the same without running: results, histories
and, where somebody watches, events of memory and operators. Their backward is `node.py`. No kernel
knows of it.
"""

from __future__ import annotations

import random
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from maquette.core.promotion import defaults
from maquette.core.remembered import epoch
from maquette.dispatch import keysets as K
from maquette.dispatch.module_calls import HOOKS, Run, around_modules
from maquette.dispatch.tls import tls
from maquette.fake.replay.block import Block, record_block
from maquette.fake.replay.pattern import Pattern, pattern_of
from maquette.fake.replay.results import slots, stripped
from maquette.fake.replay.tape import Witness
from maquette.fake.replay.values import PLAIN, Reader, Unreadable
from maquette.tensor.storage import is_observed, observers_paused
from maquette.tensor.streams.generator import default_generator
from maquette.tensor.tensor import Tensor
from maquette.transforms.autocast import state as autocast

if TYPE_CHECKING:
    from maquette.fake.mode import FakeTensorMode
    from maquette.fake.tensor import FakeTensor

_MOST = 512  # readings of one mode
_MOST_BLOCKS = 16  # of one reading


@dataclass(frozen=True)
class ReplayInfo:
    """What block replay did in a mode.

    recorded, replayed: calls of blocks; backward_recorded, backward_replayed, expanded: their
    backwards, the last those that a tape did not fit. stopped: calls that could not be replayed, by
    the reason.
    """

    recorded: int
    replayed: int
    backward_recorded: int
    backward_replayed: int
    expanded: int
    stopped: dict[str, int]


class _Reading:
    """Calls that are read alike: the arguments as `stripped`, the blocks by what surrounds a call.

    A block's place may have the reason why there is none. pattern: made at the second such call.
    """

    __slots__ = ("args", "blocks", "kwargs", "pattern")

    def __init__(self, args: object, kwargs: object) -> None:
        self.args = args
        self.kwargs = kwargs
        self.blocks: dict[tuple[object, ...], Block | str] = {}
        self.pattern: Pattern | None = None


class _Known:
    """A module: whether it is a block, and as what its last call was read."""

    __slots__ = ("is_block", "module", "reading")

    def __init__(self, module: weakref.ref[Any], is_block: bool) -> None:
        self.module = module
        self.is_block = is_block
        self.reading: _Reading | None = None


class _Busy(threading.local):
    """Whether a thread is within a block, whose modules are not looked at."""

    def __init__(self) -> None:
        self.now = False


class BlockReplay:
    """The blocks of one mode, and what was done with them."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = weakref.ref(mode)
        self._readings: dict[tuple[object, ...], _Reading] = {}
        self._last: dict[type, _Reading] = {}  # by the class of module
        self._known: dict[int, _Known] = {}
        self._counts: Counter[str] = Counter()
        self._stopped: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._busy = _Busy()
        self._uses = 0

    @property
    def mode(self) -> FakeTensorMode:
        """The mode whose blocks these are."""
        mode = self._mode()
        assert mode is not None
        return mode

    @contextmanager
    def around(self) -> Iterator[None]:
        """Replay blocks in this block; once is enough where blocks nest."""
        if self._uses:
            yield
            return
        self._uses += 1
        try:
            with around_modules(self._call):
                yield
        finally:
            self._uses -= 1

    def info(self) -> ReplayInfo:
        """The counts so far."""
        with self._lock:
            c = self._counts
            return ReplayInfo(
                c["recorded"],
                c["replayed"],
                c["backward_recorded"],
                c["backward_replayed"],
                c["expanded"],
                dict(self._stopped),
            )

    def count(self, what: str) -> None:
        """Count one more."""
        with self._lock:
            self._counts[what] += 1

    # --- a call ----------------------------------------------------------------------

    def _call(
        self, module: object, run: Run, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        busy, mode = self._busy, self._mode()
        if busy.now or mode is None or tls.st.fake_mode is not mode:
            return run(*args, **kwargs)
        known = self._known_of(module)
        if not known.is_block:
            return run(*args, **kwargs)
        reader = None
        try:
            self._check_surroundings()
            surroundings = self._surroundings()
            reading = known.reading or self._last.get(module.__class__)
            pattern = None if reading is None else reading.pattern
            fitting = None if pattern is None else pattern.fit(mode, module, args, kwargs)
            if fitting is None:
                reader = self._read(module, args, kwargs)
                reading, fitting = self._reading_of(reader, module, args, kwargs)
            assert reading is not None
            block = reading.blocks.get(surroundings)
        except (Unreadable, TypeError) as why:
            return self._stop(str(why), run, args, kwargs)
        known.reading = reading
        tensors, modules = fitting
        if isinstance(block, Block):
            self.count("replayed")
            return block.replay_for(tensors, (module, reading.args, reading.kwargs, modules))
        if block is not None:
            return self._stop(block, run, args, kwargs)
        if reader is None:
            reader = self._read(module, args, kwargs)
        busy.now = True
        try:
            result, made = record_block(
                self,
                module,
                lambda: self._read(module, args, kwargs),
                reader,
                [*slots(reading.args), *slots(reading.kwargs)],
                lambda: run(*args, **kwargs),
            )
        finally:
            busy.now = False
        self._remember(reading, surroundings, made)
        return result

    def _reading_of(
        self, reader: Reader, module: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[_Reading, tuple[list[FakeTensor], list[object]]]:
        """What a call was read as, a new one where there was none like it; its tensors, modules."""
        modules: list[object] = []
        shapes = [stripped(part, reader.index, modules) for part in (args, kwargs)]
        key = (*reader.key, *reader.facts)
        with self._lock:
            reading = self._readings.get(key)
            if reading is None:
                while len(self._readings) >= _MOST:
                    del self._readings[next(iter(self._readings))]
                reading = self._readings[key] = _Reading(*shapes)
            elif reading.pattern is None:
                reading.pattern = pattern_of(reader, module, args, kwargs)
            self._last[module.__class__] = reading
        return reading, (reader.tensors, modules)

    def _stop(
        self, reason: str, run: Run, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        with self._lock:
            self._stopped[reason] += 1
        return run(*args, **kwargs)

    def _remember(
        self, reading: _Reading, surroundings: tuple[object, ...], made: Block | str
    ) -> None:
        with self._lock:
            if isinstance(made, str):
                self._stopped[made] += 1
            else:
                self._counts["recorded"] += 1
            while len(reading.blocks) >= _MOST_BLOCKS:
                del reading.blocks[next(iter(reading.blocks))]
            reading.blocks[surroundings] = made

    def _read(self, module: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Reader:
        reader = Reader(self.mode)
        reader.read(args)
        reader.read(kwargs)
        reader.read(module)
        return reader

    # --- what surrounds a call -------------------------------------------------------

    def _check_surroundings(self) -> None:
        st = tls.st
        if HOOKS:
            raise Unreadable("hooks")
        if len(st.dispatch_modes) > 1 or (st.dispatch_modes and self.witness() is None):
            raise Unreadable("a mode sees the operators")
        if st.function_modes or any(st.pre_dispatch_modes):
            raise Unreadable("a mode sees the operators")
        if st.transforms:
            raise Unreadable("a function transform")
        if st.include & K.WATCHED:
            raise Unreadable("autograd is watched")
        if autocast.remembers and (st.exclude & K.AUTOCAST) != K.AUTOCAST:
            raise Unreadable("autocast remembers casts")

    def _surroundings(self) -> tuple[object, ...]:
        """What a call depends on beside its values."""
        st = tls.st
        return (
            st.include, st.exclude, st.grad_enabled, st.inference, st.default_device,
            defaults["float"], *autocast.dtypes.values(), epoch(), *self.audience(),
        )  # fmt: skip

    def audience(self) -> tuple[object, ...]:
        """Who watches this thread: tapes are made for one audience."""
        modes = tls.st.dispatch_modes
        return is_observed(), type(modes[-1]) if modes else None

    def outer_facts(self) -> dict[str, object]:
        """What a run must leave as it was, by the reason why it is not replayed otherwise."""
        env = self.mode.shape_env
        drawn, witness = default_generator._drawn, self.witness()
        return {
            "a guard": 0 if env is None else len(env.guards),
            "an unbacked symbol": 0 if env is None else env.counter["create_unbacked_symbol"],
            "a loop or branch": 0 if witness is None else witness.unrepeatable(),
            "random state": (random.getstate(), None if drawn is None else drawn.state()),
        }

    def is_observed(self) -> bool:
        """Whether somebody watches the allocations of this thread."""
        return is_observed()

    def witness(self) -> Witness | None:
        """The mode that records this thread's operators and can record them again, if there is."""
        modes = tls.st.dispatch_modes
        mode = modes[-1] if modes else None
        return cast(Witness, mode) if getattr(mode, "repeats_blocks", False) else None

    @contextmanager
    def unseen(self, block: Block, shadow: object | None) -> Iterator[None]:
        """As it was when the block was called, but unseen by observers and modes but ``shadow``."""
        st = tls.st
        include, exclude, grad = st.include, st.exclude, st.grad_enabled
        modes, fake, context, busy = st.dispatch_modes, st.fake_mode, st.node_context, self._busy
        was_busy = busy.now
        st.dispatch_modes = [] if shadow is None else [shadow]
        st.fake_mode = self.mode
        st.set_sets(*block.sets, grad_enabled=True)
        busy.now = True
        try:
            with observers_paused():
                yield
        finally:
            busy.now = was_busy
            st.set_sets(include, exclude, grad_enabled=grad)
            st.dispatch_modes, st.fake_mode, st.node_context = modes, fake, context

    # --- which modules are blocks ----------------------------------------------------

    def _known_of(self, module: object) -> _Known:
        known = self._known.get(id(module))
        if known is None or known.module() is not module:
            self._look_at(module)
            known = self._known[id(module)]
        return known

    def _look_at(self, root: Any) -> None:
        """Say of each module in a tree whether it is a block: outermost of several alike.

        Where nothing in the tree is, its root is one: programs may call layers themselves.
        """
        kind_of: dict[int, int] = {}
        counts: Counter[int] = Counter()
        _kinds_below(root, {}, kind_of, counts)
        alone = max(counts.values()) == 1
        stack = [(root, False)]
        while stack:
            module, below = stack.pop()
            alike = not below and (alone or counts[kind_of[id(module)]] > 1)
            self._known[id(module)] = _Known(weakref.ref(module, self._forget(id(module))), alike)
            stack += [(child, below or alike) for child in _children(module)]

    def _forget(self, key: int) -> Callable[[object], None]:
        known = self._known  # not the mode: modules outlive it

        def forget(_: object) -> None:
            known.pop(key, None)

        return forget


def _children(module: Any) -> list[Any]:
    attributes = module._mq_attributes
    return [attributes[n] for n in attributes["_mq_module_names"] if attributes[n] is not None]


def _kinds_below(
    module: Any, kinds: dict[object, int], kind_of: dict[int, int], counts: Counter[int]
) -> int:
    """A number for the kind of a module: class, plain attributes, metas, kinds of children."""
    known = kind_of.get(id(module))
    if known is not None:
        return known
    kind_of[id(module)] = -1  # of a module within itself
    parts: list[object] = [module.__class__]
    for name, value in module._mq_attributes.items():
        if isinstance(value, Tensor):
            parts += (name, value.meta)
        elif value.__class__ in PLAIN:
            parts += (name, value)
    parts += [_kinds_below(child, kinds, kind_of, counts) for child in _children(module)]
    number = kind_of[id(module)] = kinds.setdefault(tuple(parts), len(kinds))
    counts[number] += 1
    return number
