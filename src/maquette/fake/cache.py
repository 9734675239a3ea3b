"""What may be asked of the dispatch cache: its counts, that its answers be checked, or not used.

The cache is the one in which eager, meta and fake kernels remember what shape rules said
(`maquette.library.infer`): one for the process, by operator. The kernels that serve Fake count
nothing. Once somebody asks for counts, or a mode has cache options of its own, `watched` kernels
take their place: key sets are resolved anew, and a call that nobody watches pays nothing.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from maquette.core.layout import layout as Layout
from maquette.core.layout import sparse_coo, strided
from maquette.core.remembered import (
    epoch,
    evictions,
    forget_answers,
    remember,
    zero_evictions,
)
from maquette.dispatch.operator import OpOverload, resolve_anew, resolved_overloads
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.fake.call_sites import rendered_call
from maquette.fake.tensor import tensors_in
from maquette.library.infer import Outcome, infer, key_function, known, shape_env_of
from maquette.symbolic import SymBool, SymFloat
from maquette.tensor.sparse import COMPRESSED

if TYPE_CHECKING:
    from maquette.fake.mode import FakeTensorMode

Function = Callable[..., object]


class DispatchCacheInfo(NamedTuple):
    """Counts since `cache_clear`: calls answered from the cache, added to it, passing it by.

    bypasses: calls by the reason why the cache was not asked. size: answers held now. evictions:
    answers that gave way to newer ones.
    """

    hits: int
    misses: int
    bypasses: dict[str, int]
    size: int = 0
    evictions: int = 0


class _Counts:
    """The counts of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.zero()

    def zero(self) -> None:
        self.hits = self.misses = 0
        self.bypasses: dict[str, int] = {}

    def bypass(self, reason: str) -> None:
        with self._lock:
            self.bypasses[reason] = self.bypasses.get(reason, 0) + 1

    def answered(self, *, from_cache: bool) -> None:
        with self._lock:
            if from_cache:
                self.hits += 1
            else:
                self.misses += 1


_counts = _Counts()
_counting = [False]
# Modes whose cache is off or cross-checked, or whose results may not be meta tensors.
_particular: weakref.WeakSet[FakeTensorMode] = weakref.WeakSet()


def watching() -> bool:
    """Whether kernels that are resolved now have to be watched ones."""
    return _counting[0] or bool(_particular)


def note_options(mode: FakeTensorMode) -> None:
    """Have the kernels that serve Fake heed the cache options of ``mode``."""
    before = watching()
    if mode.cache_enabled and not mode.cache_crosscheck_enabled and mode.allow_meta:
        _particular.discard(mode)
    else:
        _particular.add(mode)
    if before != watching():
        resolve_anew()


def cache_info() -> DispatchCacheInfo:
    """The counts since `cache_clear`.

    Counting begins with the first call of this function or of `cache_clear`: hits before it are not
    known. An answer that an eager call put there counts as any other.
    """
    _count_from_now()
    size = sum(len(op.infer_cache) for op in resolved_overloads()) + len(_refusals)
    return DispatchCacheInfo(
        _counts.hits, _counts.misses, dict(_counts.bypasses), size, evictions()
    )


def cache_clear() -> None:
    """Forget all answers and set all counts to 0."""
    tables = [op.infer_cache for op in resolved_overloads()]
    derivatives = (REMEMBERED_STEPS, REMEMBERED_SUMS, REMEMBERED_RUNS)
    forget_answers(_refusals, *derivatives, REMEMBERED_COMPOSITES, *tables)
    _counts.zero()
    zero_evictions()
    _count_from_now()


def _count_from_now() -> None:
    if not _counting[0]:
        before = watching()
        _counting[0] = True
        if not before:
            resolve_anew()


@contextmanager
def disable_fake_tensor_cache(mode: FakeTensorMode) -> Iterator[None]:
    """Let ``mode`` ask every shape rule anew in the block."""
    before = mode.cache_enabled
    mode.cache_enabled = False
    try:
        yield
    finally:
        mode.cache_enabled = before


# --- kernels that are watched --------------------------------------------------------


REMEMBERED_STEPS: dict[Hashable, object] = {}
"""How gradients are made of a node's, by what they depend on (`derivatives/`). Not counted."""
REMEMBERED_SUMS: dict[Hashable, bool] = {}
"""Whether a gradient is added to another in place without an operator. Not counted."""
REMEMBERED_RUNS: dict[Hashable, Any] = {}
"""What whole runs of the engine made, by how they begin (`derivatives/runs.py`). Not counted."""
REMEMBERED_COMPOSITES: dict[Hashable, object] = {}
"""What calls of composites make, by what they depend on (`composites/`). Not counted."""

Reason = str | Callable[[Sequence[object]], str]
# Calls that passed the cache by for what their operator is or gave: known from the second on.
_refusals: dict[Hashable, object] = {}


def bypassing(kernel: Function, reason: Reason, op: OpOverload | None = None) -> Function:
    """A kernel that never asks the cache, counted under ``reason`` where calls are counted.

    op: given where the reason lies in the operator, so that a call adds to the size once.
    """
    if not watching():
        return kernel

    def counted(ks: int, *params: object) -> object:
        result = kernel(ks, *params)
        _bypass(op, params, reason if isinstance(reason, str) else reason(params))
        return result

    return counted


def _bypass(op: OpOverload | None, params: Sequence[object], reason: str) -> None:
    _counts.bypass(reason)
    if op is None or shape_env_of(params) is not None:
        return  # what an environment knows ends with it
    with suppress(TypeError):  # something unhashable: a generator object, a script object
        remember(_refusals, (op.name(), key_function(op)(*params)), True, epoch())


def bypassing_if_sparse(op: OpOverload, kernel: Function) -> Function:
    """A kernel by other operators; its own calls count where they give sparse tensors."""
    if not watching():
        return kernel

    def counted(ks: int, *params: object) -> object:
        result = kernel(ks, *params)
        reason = _of_output(result)
        if reason is not None and all(t.meta.layout is strided for t in tensors_in(params)):
            _bypass(op, params, reason)
        return result

    return counted


def _of_output(result: object) -> str | None:
    layouts = [t.meta.layout for t in tensors_in((result,))]
    if sparse_coo in layouts:
        return "sparse output"
    return "sparse compressed output" if any(kept in COMPRESSED for kept in layouts) else None


def _of_operator(op: OpOverload) -> str | None:
    """Why no call of an operator is served from the cache, if none is (F84)."""
    if Tag.inplace_view in op.tags:
        return "inplace view"
    if any(a.is_write and a.kwarg_only for a in op._schema.arguments):
        return "kwarg aliases output"
    return None


def watched(op: OpOverload, kernel: Function, uncached: Function) -> Function:
    """``kernel``, which asks the cache, with its calls counted; as it is where nobody watches.

    uncached: the kernel that asks the shape rule itself, for modes without a cache.
    """
    if not watching():
        return kernel
    always = _of_operator(op)

    def counted(ks: int, *params: object) -> object:
        mode = _mode_of(params)
        if mode is None:
            return kernel(ks, *params)  # it will refuse the call
        if not mode.allow_meta:
            return _not_meta(op, uncached(ks, *params))
        if not mode.cache_enabled:
            return uncached(ks, *params)
        reason = _reason_to_bypass(params, mode)
        if reason is not None or always is not None:
            result = kernel(ks, *params)
            _bypass(None if reason else op, params, reason or always or "")
            return result
        found = known(op, params)
        if found is not None and mode.cache_crosscheck_enabled:
            _crosscheck(op, params, found)
        env = shape_env_of(params)
        made = None if env is None else env.symbols_made
        result = kernel(ks, *params)
        if env is not None and env.symbols_made != made:
            _counts.bypass("unrepresented symbol in output")
        else:
            _counts.answered(from_cache=found is not None)
        return result

    return counted


def _not_meta(op: OpOverload, result: object) -> object:
    """The result of a call in a mode without meta tensors (F4)."""
    for t in tensors_in((result,)):
        assert t.meta.device.type != "meta", (
            f"{op}: meta tensors are not allowed in this mode, but the result is {t.meta}"
        )
    return result


def _mode_of(params: Sequence[object]) -> FakeTensorMode | None:
    modes = (t.fake_mode for t in tensors_in(params) if t.fake_mode is not None)
    return tls.st.fake_mode or next(modes, None)  # type: ignore[return-value]  # lower layers name no mode


def _reason_to_bypass(params: Sequence[object], mode: FakeTensorMode) -> str | None:
    for t in tensors_in(params):
        if t.fake_mode is None:
            return "non-fake tensor"
        if t.fake_mode is not mode:
            return "not our fake"
        if t.meta.layout is not strided:
            return layout_of((t,))
    if any(isinstance(p, (SymFloat, SymBool)) for p in params):
        return "symbolic shape"
    return None


def layout_of(params: Sequence[object]) -> str:
    """The reason of a call with a tensor that is not strided, or that makes one."""
    layouts = [t.meta.layout for t in tensors_in(params)]
    layouts += [p for p in params if isinstance(p, Layout)]
    return f"{next(kept for kept in layouts if kept is not strided)} tensor"


def _crosscheck(op: OpOverload, params: Sequence[object], found: Outcome) -> None:
    try:
        value = infer(op, params).value
    except Exception as error:
        raise RuntimeError(
            f"fake tensor cache: {rendered_call(op, params)} is in the cache as {found.value}, but "
            f"its shape rule raises {type(error).__name__}: {error}"
        ) from error
    if value != found.value:
        raise RuntimeError(
            f"fake tensor cache: {rendered_call(op, params)} is in the cache as {found.value!r}, "
            f"but its shape rule says {value!r}"
        )
