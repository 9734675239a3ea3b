"""Real data beside fakes: what fakes say is held to what kernels do (F97-F100).

In a mode with ``propagate_real_tensors`` a converted tensor keeps a copy of its data as
``real_tensor``, and each operator whose tensors all have one runs for real, too. The values answer
what unbacked symbols alone would not, and the fake results are compared with the real ones. An
operator that decomposes is followed by its parts, so that nothing is written twice.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from maquette.core.device import device
from maquette.core.layout import strided
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.dispatch.operator import OpOverload, resolve_anew
from maquette.dispatch.tls import tls
from maquette.fake.constants import running_for_real
from maquette.fake.exceptions import MetadataMismatchError, UnsupportedOperatorException
from maquette.fake.real.results import check_results, inferred_fakes
from maquette.fake.real.schema_check import SchemaCheckMode, states_of
from maquette.fake.tensor import FakeTensor, tensors_in
from maquette.symbolic.expr import Poly
from maquette.symbolic.numbers import SymNumber
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fake.mode import FakeTensorMode

Function = Callable[..., object]
BUILTIN = frozenset({"aten", "prims", "prim"})
ABSENT: Final = object()
"""In the place of what did not run for real."""

_modes: weakref.WeakSet[FakeTensorMode] = weakref.WeakSet()
_running = threading.local()
# Real storages that a write was not followed in, because something in the call had no data.
_stale: weakref.WeakSet[UntypedStorage] = weakref.WeakSet()


def note_propagation(mode: FakeTensorMode) -> None:
    """Have the kernels that serve Fake follow real data for ``mode``."""
    first = not _modes
    _modes.add(mode)
    if first:
        resolve_anew()


def propagating() -> bool:
    """Whether some mode keeps real data beside fakes."""
    return bool(_modes)


def with_real_data(op: OpOverload, kernel: Function, *, by_parts: object = None) -> Function:
    """``kernel``, followed by the real one where tensors have data; as it is where nobody asks.

    by_parts: not None where the operator is served by others, which are followed themselves.
    """
    if not _modes or by_parts is not None:
        return kernel

    def followed(ks: int, *params: object) -> object:
        mode = _mode_of(params)
        if mode is None or not mode.propagate_real_tensors or _is_running():
            return kernel(ks, *params)
        real = _Real(op, mode, params)
        real.run()
        try:
            with _alone():
                fake = kernel(ks, *params)
        except UnsupportedOperatorException:
            if real.result is ABSENT or op.namespace in BUILTIN or mode.shape_env is None:
                raise
            fake = real.inferred()
        return real.adopted(fake)

    return followed


def _mode_of(params: Sequence[object]) -> FakeTensorMode | None:
    modes = [t.fake_mode for t in tensors_in(params)]
    if None in modes:
        return None  # real tensors meet fakes: the kernel says what becomes of them
    return tls.st.fake_mode or next(iter(modes), None)  # type: ignore[return-value]  # lower layers name no mode


def _is_running() -> bool:
    return bool(getattr(_running, "depth", 0))


@contextmanager
def _alone() -> Iterator[None]:
    """For a block: follow no real data, which is followed outside of it."""
    _running.depth = getattr(_running, "depth", 0) + 1
    try:
        yield
    finally:
        _running.depth -= 1


class _Real:
    """One call, run on the data of its tensors."""

    def __init__(self, op: OpOverload, mode: FakeTensorMode, params: Sequence[object]) -> None:
        self.op, self.mode, self.params = op, mode, params
        self.result: object = ABSENT
        self.given: list[object] = []

    def run(self) -> None:
        """Run the operator, unless data or the value of a symbol is missing (F97)."""
        given = [_data_of(p, self.mode) for p in self.params]
        if ABSENT in given or any(ABSENT in g for g in given if isinstance(g, list)):
            self._forget_written()
            return
        self.given = given
        checked = self.op.namespace not in BUILTIN
        with running_for_real(), AutoDispatchBelowAutograd():
            before = states_of(given) if checked else []
            try:
                self.result = _called(self.op, given)
            except ZeroDivisionError:
                return
            if checked:
                SchemaCheckMode().check(self.op, self.op._schema.arguments, before, self.result)

    def _forget_written(self) -> None:
        pairs = zip(self.op._schema.arguments, self.params, strict=True)
        for t in tensors_in([p for a, p in pairs if a.is_write]):
            real = t.__dict__.pop("real_tensor", None)
            if real is not None:
                _stale.add(real._storage)

    def adopted(self, fake: object) -> object:
        """The fake results with their data, compared with the real ones (F98, F99)."""
        if self.result is ABSENT:
            return fake
        try:
            bind(self.mode, fake, self.result)
            check_results(self.op, (self.params, self.given), fake, self.result)
        except MetadataMismatchError:
            if not self._may_infer():
                raise
            fake = self.inferred()
            bind(self.mode, fake, self.result)
        _attach(fake, self.result)
        return fake

    def inferred(self) -> object:
        """Fakes made like the real results; an argument that was given back is itself (F100)."""
        pairs = zip(tensors_in(self.given), tensors_in(self.params), strict=True)
        known = {id(real): fake for real, fake in pairs}
        return inferred_fakes(self.op, self.mode, self.result, known)

    def _may_infer(self) -> bool:
        mode = self.mode
        return mode.generate_fake_kernels_from_real_mismatches and mode.shape_env is not None


def _called(op: OpOverload, given: Sequence[object]) -> object:
    pairs = list(zip(op._schema.arguments, given, strict=True))
    return op.call_slow(
        tuple([v for a, v in pairs if not a.kwarg_only]),
        {a.name: v for a, v in pairs if a.kwarg_only},
    )


def _data_of(p: object, mode: FakeTensorMode) -> object:
    """The real form of an argument; ABSENT where there is none."""
    if isinstance(p, Tensor):
        real = p.__dict__.get("real_tensor")
        return ABSENT if real is None or real._storage in _stale else real
    if isinstance(p, SymNumber):
        return _value_of(p)
    if isinstance(p, tuple):
        return [_data_of(i, mode) for i in p]
    if isinstance(p, device):
        return p if p.type == "cpu" else ABSENT
    return p


def _value_of(n: SymNumber) -> object:
    """The value that a number has for the data of this run."""
    env = n.node.shape_env
    value = None if env is None else env.value_in_real_run(n.node.current)
    return ABSENT if value is None else n.node.pytype(value)


def bind(mode: FakeTensorMode, fake: object, real: object) -> None:
    """Tell the environment the values that unbacked symbols of a result have (F98)."""
    if mode.shape_env is None:
        return
    for made, value in _numbers(fake, real):
        form = made.node.current
        alone = form.symbols if len(form.symbols) == 1 else ()
        for symbol in alone:
            if not symbol.is_unbacked:
                continue
            if isinstance(form, Poly) and form is symbol.poly:
                mode.shape_env.real_values.setdefault(symbol, value)
            elif isinstance(value, bool):
                mode.shape_env.real_values.setdefault(symbol, int(value))


def _numbers(fake: object, real: object) -> Iterator[tuple[SymNumber, Any]]:
    """Symbolic numbers of a result with what they are in the real one."""
    if isinstance(fake, Tensor) and isinstance(real, Tensor):
        if fake.meta.layout is strided and fake.meta.ndim == real.meta.ndim:
            for name in ("shape", "strides", "offset"):
                yield from _numbers(getattr(fake.meta, name), getattr(real.meta, name))
        return
    if isinstance(fake, SymNumber):
        yield fake, real
    elif isinstance(fake, (tuple, list)) and isinstance(real, (tuple, list)):
        for f, r in zip(fake, real, strict=False):
            yield from _numbers(f, r)


def _attach(fake: object, real: object) -> None:
    if isinstance(fake, FakeTensor) and isinstance(real, Tensor):
        fake.real_tensor = real
    elif isinstance(fake, Mapping) and isinstance(real, Mapping):
        _attach(tuple(fake.values()), tuple(real.values()))
    elif isinstance(fake, (tuple, list)) and isinstance(real, (tuple, list)):
        for f, r in zip(fake, real, strict=False):
            _attach(f, r)
