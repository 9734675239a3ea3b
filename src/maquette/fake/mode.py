"""`FakeTensorMode`: programs run without data and without the hardware they are for.

In the mode every factory makes fakes; operators on fakes give fakes inside and outside of it. The
answer of an operator is its shape rule's (`kernel.py`); how real tensors become fakes is
`convert.py`.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Literal, cast

from maquette.core.device import device
from maquette.core.scalar_types import dtype
from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.pre_dispatch import TorchDispatchModeKey
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import DispatchState, tls
from maquette.fake import cache
from maquette.fake.call_sites import current_stack
from maquette.fake.config import config
from maquette.fake.constants import Constants, running_for_real
from maquette.fake.convert import FakeTensorConverter
from maquette.fake.dynamic import SizeMemos
from maquette.fake.real.propagation import note_propagation
from maquette.fake.symbols import Symbols
from maquette.fake.tensor import FakeTensor, fresh_fake, tensors_in
from maquette.fake.unusual import check_dispatch
from maquette.tensor.collector import patient
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fake.replay import BlockReplay, ReplayInfo
    from maquette.symbolic import ShapeEnv

FAKE = K.functionality_bits(DispatchKey.Fake)


class FakeTensorMode:
    """Run programs without data: every tensor is fake.

    allow_non_fake_inputs: convert real tensors that reach an operator instead of refusing them.
    cache_enabled, cache_crosscheck_enabled: whether shape rules' answers are remembered, and
    whether each is checked against the rule when it is used again. prefer_device_type: the type of
    device that wins where an operator's tensors are on devices of several types.
    propagate_real_tensors: keep data beside fakes and hold shape rules to it, without the cache;
    generate_fake_kernels_from_real_mismatches: where they differ, believe the data (F97-F100). The
    others as PyTorch's; those whose default is None take it from `config`.

    While a mode is active, Python's garbage collector looks for cycles after 100,000 new objects,
    in the whole process, instead of 700 or 2,000; not where real data is kept or memory is
    observed, as in a plan.
    """

    _mode_key = TorchDispatchModeKey.FAKE

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: ShapeEnv | None = None,
        static_shapes: bool | None = None,
        export: bool = False,
        allow_meta: bool | None = None,
        allow_unsafe_data_ptr_access: bool | None = None,
        propagate_real_tensors: bool | None = None,
        generate_fake_kernels_from_real_mismatches: bool | None = None,
        cache_enabled: bool | None = None,
        cache_crosscheck_enabled: bool | None = None,
        prefer_device_type: str | None = None,
    ) -> None:
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.export = export
        self.allow_meta = _or(allow_meta, config.allow_meta)
        self.allow_unsafe_data_ptr_access = _or(
            allow_unsafe_data_ptr_access, config.allow_unsafe_data_ptr_access
        )
        self.propagate_real_tensors = _or(propagate_real_tensors, config.propagate_real_tensors)
        self.generate_fake_kernels_from_real_mismatches = _or(
            generate_fake_kernels_from_real_mismatches,
            config.generate_fake_kernels_from_real_mismatches,
        )
        self.allow_scalar_outputs = False
        self.prefer_device_type = prefer_device_type or config.prefer_device_type
        # Raised by whoever runs the same program again; what an operator memoised then expires.
        self.epoch = 0
        self.nt_tensor_id_counter = 0
        self._stack = current_stack(skip=2)
        self._cache_enabled = _or(cache_enabled, config.cache_enabled)
        self._cache_enabled &= not self.propagate_real_tensors
        self._crosscheck = _or(cache_crosscheck_enabled, config.cache_crosscheck_enabled)
        if self._crosscheck or not self._cache_enabled or not self.allow_meta:
            cache.note_options(self)
        self.constants = Constants()
        self.size_memos = SizeMemos()
        self.converter = FakeTensorConverter(self, copy_data=self.propagate_real_tensors)
        # By the state of a thread: several may be in one mode, and each leaves its own blocks.
        self._entered: dict[DispatchState, list[tuple[FakeTensorMode | None, int]]] = {}
        if self.propagate_real_tensors:
            note_propagation(self)

    def __repr__(self) -> str:
        return f"<FakeTensorMode made at {self._stack.place}>"

    def __enter__(self) -> FakeTensorMode:
        st = tls.st
        before = st.fake_mode
        assert before is None or isinstance(before, FakeTensorMode)
        self._entered.setdefault(st, []).append((before, st.include))
        st.fake_mode = self
        st.set_include(st.include | FAKE)
        _count(self, 1)
        return self

    def __exit__(self, *exc: object) -> None:
        st = tls.st
        entered = self._entered.get(st)
        assert entered, f"{self}: this thread has no open block; leave one where it was entered"
        before, include = entered.pop()
        if not entered:
            del self._entered[st]
        _count(self, -1)
        st.fake_mode = before
        st.set_include((st.include & ~FAKE) | (include & FAKE))

    def from_tensor(
        self,
        tensor: Tensor,
        *,
        static_shapes: bool | None = None,
        source: object | None = None,
        symbolic_context: object | None = None,
        trace: bool = True,
    ) -> FakeTensor:
        """The fake of ``tensor`` in this mode; the same tensor gives the same fake (F35, F42).

        Shapes are static unless the mode has a shape environment, which ``static_shapes`` ignores;
        AssertionError for a symbolic context then, TypeError for anything but a tensor.
        """
        if not isinstance(tensor, Tensor):
            raise TypeError(f"from_tensor() takes a Tensor, got {type(tensor).__name__}")
        if tls.st.exclude & FAKE:
            check_dispatch()
        static = self.static_shapes if static_shapes is None else static_shapes
        if symbolic_context is not None:
            assert not static, (
                f"from_tensor: static shapes and a symbolic context, {symbolic_context!r}, were "
                f"asked for at once"
            )
        if static or self.shape_env is None:
            return self.converter.convert(tensor)
        return self.converter.convert(tensor, Symbols(self.shape_env, source, symbolic_context))

    def is_our_fake(self, t: object) -> bool:
        """Whether ``t`` is a fake of this mode."""
        return isinstance(t, FakeTensor) and t.fake_mode is self

    def reset_nt_tensor_id_counter(self) -> None:
        """Number the nested sizes of a new trace from 0 again."""
        self.nt_tensor_id_counter = 0

    # --- block replay ----------------------------------------------------------------

    _replay: BlockReplay | None = None

    def _block_replay(self) -> BlockReplay:
        if self._replay is None:
            # Imported when first asked for: few programs need it.
            made: BlockReplay = importlib.import_module("maquette.fake.replay").BlockReplay(self)
            self._replay = made
        return self._replay

    def replaying(self) -> AbstractContextManager[None]:
        """In the block, run equal modules called with equal metas once in this mode (FX4).

        The layers of a network, say: the later ones give results, histories and events of memory
        without running. Not replayed is what depends on more than metas, or does more than make
        tensors; `replay_info` counts why. Code in a replayed module's forward does not run: what it
        prints or appends to a global list is missing. A result's ``grad_fn`` leads at once to what
        the module was called with and its parameters. Storages that end together, because the
        graph does, may end in another order.
        """
        return self._block_replay().around()

    def replay_info(self) -> ReplayInfo:
        """What block replay has done in this mode, and what stopped it (FX5)."""
        return self._block_replay().info()

    @property
    def fake_tensor_converter(self) -> FakeTensorConverter:
        """What this mode has converted, by PyTorch's name."""
        return self.converter

    @property
    def stack(self) -> str:
        """Where the mode was made, as a traceback reads."""
        return str(self._stack)

    # --- the cache of shape rules' answers -------------------------------------------

    cache_info = staticmethod(cache.cache_info)
    cache_clear = staticmethod(cache.cache_clear)

    @property
    def cache_enabled(self) -> bool:
        """Whether the answers of shape rules are remembered."""
        return self._cache_enabled

    @cache_enabled.setter
    def cache_enabled(self, flag: bool) -> None:
        self._cache_enabled = flag
        cache.note_options(self)

    @property
    def cache_crosscheck_enabled(self) -> bool:
        """Whether remembered answers are checked against the shape rule (F89)."""
        return self._crosscheck

    @cache_crosscheck_enabled.setter
    def cache_crosscheck_enabled(self, flag: bool) -> None:
        self._crosscheck = flag
        cache.note_options(self)


# The mode that is active, in whatever thread; None if none is, False if several are. Kernels ask
# it before they ask their thread: 10 ns instead of 75.
ACTIVE: list[FakeTensorMode | Literal[False] | None] = [None]
_counts: dict[FakeTensorMode, int] = {}
_lock = threading.Lock()


def _or(given: bool | None, default: bool) -> bool:
    return default if given is None else given


def _count(mode: FakeTensorMode, change: int) -> None:
    """Note that a thread enters a mode, or leaves it."""
    with _lock:
        left = _counts[mode] = _counts.get(mode, 0) + change
        if left == max(change, 0) and not mode.propagate_real_tensors:  # else cycles may hold data
            patient(change)
        if not left:
            del _counts[mode]
        ACTIVE[0] = False if len(_counts) > 1 else next(iter(_counts), None)


def is_elsewhere(mode: FakeTensorMode) -> bool:
    """Whether another mode than this is active in the calling thread."""
    active = tls.st.fake_mode
    return active is not None and active is not mode


@contextmanager
def unset_fake_temporarily() -> Iterator[FakeTensorMode | None]:
    """Outside any fake mode for the block, which gets the mode that was active."""
    st = tls.st
    mode, include = st.fake_mode, st.include
    st.fake_mode = None
    st.set_include(include & ~FAKE)
    try:
        assert mode is None or isinstance(mode, FakeTensorMode)
        yield mode
    finally:
        st.fake_mode = mode
        st.set_include(include)


def make_constant(mode: object, value: Tensor) -> FakeTensor:
    """A fake of ``mode`` that knows its value; ``value`` becomes its private constant."""
    assert isinstance(mode, FakeTensorMode)
    fake = fresh_fake(mode, value.meta)
    mode.constants.attach(fake, value)
    if mode.propagate_real_tensors:
        with running_for_real():
            fake.real_tensor = value.clone()
    return fake


def arguments_in_one_mode(
    op: OpOverload, params: Sequence[object]
) -> tuple[FakeTensorMode, tuple[object, ...]]:
    """The mode that answers a call, and its parameters with every tensor a fake of it.

    Raises AssertionError for a real tensor (unless the mode allows those) and for two modes.
    """
    mode = tls.st.fake_mode
    for p in params:  # the usual call, which every operator's first is: a third of the time
        cls = p.__class__
        if cls is FakeTensor:
            mode = mode or cast(FakeTensor, p).fake_mode
            if cast(FakeTensor, p).fake_mode is not mode:
                break
        elif cls not in _NO_TENSORS:
            break
    else:
        if mode is not None:
            return cast(FakeTensorMode, mode), tuple(params)
    mode = tls.st.fake_mode
    for t in tensors_in(params):
        if t.fake_mode is not None:
            mode = mode or t.fake_mode
            break
    assert isinstance(mode, FakeTensorMode)
    return mode, tuple([_ours(op, p, mode) for p in params])


_NO_TENSORS = frozenset((int, float, bool, str, type(None), dtype, device))


def on_preferred_device(
    op: OpOverload, mode: FakeTensorMode, params: Sequence[object]
) -> tuple[object, ...] | None:
    """Parameters whose devices differ, with every tensor on a device of the preferred type (F51).

    What is written stays where it is. None where the mode prefers no type, or no tensor has it.
    """
    preferred = mode.prefer_device_type
    devices = [t.meta.device for t in tensors_in(params)]
    to = next((on for on in devices if on.type == preferred), None)
    if to is None:
        return None
    pairs = zip(op._schema.arguments, params, strict=True)
    return tuple([p if a.is_write else _to_type(p, to) for a, p in pairs])


def _to_type(p: object, to: device) -> object:
    """A parameter with fakes on devices of other types moved; tensors in lists too."""
    if isinstance(p, FakeTensor):
        there = p.meta.device.type == to.type
        return p if there else fresh_fake(p.fake_mode, p.meta.with_device(to))
    if p.__class__ is tuple:
        return tuple([_to_type(i, to) for i in cast(tuple[object, ...], p)])
    return p


class FakeTensorTLS(threading.local):
    """What a thread says of all modes.

    allow_non_fake_inputs_override: True or False in the place of every mode's
    ``allow_non_fake_inputs``; None leaves that to the modes.
    """

    allow_non_fake_inputs_override: bool | None = None


fake_tensor_tls = FakeTensorTLS()


def _allows_real_tensors(mode: FakeTensorMode) -> bool:
    return _or(fake_tensor_tls.allow_non_fake_inputs_override, mode.allow_non_fake_inputs)


def _ours(op: OpOverload, p: object, mode: FakeTensorMode) -> object:
    if isinstance(p, Tensor):
        if p.fake_mode is mode:
            return p
        if Tag.inplace_view in op.tags:
            raise AssertionError(
                f"{op}: operators that change the metadata of their argument take fakes of the "
                f"mode alone, whatever it allows. Found {p.meta}; mode.from_tensor(t) converts it"
            )
        if _allows_real_tensors(mode):
            return mode.from_tensor(p, static_shapes=True)
        if p.fake_mode is not None:
            raise AssertionError(
                f"{op}: Mixing fake modes is not supported: got tensors of {mode} and "
                f"{p.fake_mode}, here {p.meta}. Make both in one mode; {mode}.from_tensor(t) "
                f"converts a fake of another"
            )
        raise AssertionError(
            f"{op}: Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode "
            f"with 'allow_non_fake_inputs'. Found the real tensor {p.meta}; "
            f"mode.from_tensor(t) converts it"
        )
    if p.__class__ is tuple and any(isinstance(i, Tensor) for i in p):
        return tuple([_ours(op, i, mode) for i in p])
    return p
