"""`FakeTensorMode`: programs in outline, without data and without the hardware they are for.

In the mode every factory makes fakes; operators on fakes give fakes inside and outside of it. The
answer of an operator is its shape rule's (`kernel.py`); how real tensors become fakes is
`convert.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.pre_dispatch import TorchDispatchModeKey
from maquette.dispatch.tls import tls
from maquette.fake.constants import Constants
from maquette.fake.convert import Converter
from maquette.fake.tensor import FakeTensor, fresh_fake
from maquette.tensor.tensor import Tensor

FAKE = K.functionality_bits(DispatchKey.Fake)


class FakeTensorMode:
    """Run programs in outline.

    allow_non_fake_inputs: convert real tensors that reach an operator instead of refusing them.
    allow_fallback_kernels, static_shapes, export, allow_meta: as PyTorch's; see the specification.
    """

    _mode_key = TorchDispatchModeKey.FAKE

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: object | None = None,
        static_shapes: bool | None = None,
        export: bool = False,
        allow_meta: bool = True,
    ) -> None:
        if shape_env is not None:
            raise NotImplementedError("symbolic shapes (shape_env=...) are not supported yet")
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = None
        self.static_shapes = True if static_shapes is None else static_shapes
        self.export = export
        self.allow_meta = allow_meta
        self.epoch = 0
        self.constants = Constants()
        self.converter = Converter(self)
        self._entered: list[tuple[FakeTensorMode | None, int]] = []

    def __enter__(self) -> FakeTensorMode:
        st = tls.st
        before = st.fake_mode
        assert before is None or isinstance(before, FakeTensorMode)
        self._entered.append((before, st.include))
        st.fake_mode = self
        st.set_include(st.include | FAKE)
        _count(self, 1)
        return self

    def __exit__(self, *exc: object) -> None:
        st = tls.st
        before, include = self._entered.pop()
        _count(self, -1)
        st.fake_mode = before
        st.set_include((st.include & ~FAKE) | (include & FAKE))

    def from_tensor(self, tensor: Tensor, *, static_shapes: bool | None = None) -> FakeTensor:
        """The fake of ``tensor`` in this mode; the same tensor gives the same fake (F35, F42)."""
        if not isinstance(tensor, Tensor):
            raise TypeError(f"from_tensor() takes a Tensor, got {type(tensor).__name__}")
        return self.converter.convert(tensor)

    def is_our_fake(self, t: object) -> bool:
        """Whether ``t`` is a fake of this mode."""
        return isinstance(t, FakeTensor) and t.fake_mode is self


# The mode that is active, in whatever thread; None if none is, False if several are. Kernels ask
# it before they ask their thread: 10 ns instead of 75.
ACTIVE: list[FakeTensorMode | Literal[False] | None] = [None]
_counts: dict[FakeTensorMode, int] = {}
_lock = threading.Lock()


def _count(mode: FakeTensorMode, change: int) -> None:
    """Note that a thread enters a mode, or leaves it."""
    with _lock:
        left = _counts[mode] = _counts.get(mode, 0) + change
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
    return fake


def arguments_in_one_mode(
    op: OpOverload, params: Sequence[object]
) -> tuple[FakeTensorMode, tuple[object, ...]]:
    """The mode that answers a call, and its parameters with every tensor a fake of it.

    Raises AssertionError for a real tensor (unless the mode allows those) and for two modes.
    """
    mode = tls.st.fake_mode
    for t in _tensors(params):
        if t.fake_mode is not None:
            mode = mode or t.fake_mode
            break
    assert isinstance(mode, FakeTensorMode)
    return mode, tuple([_ours(op, p, mode) for p in params])


def _ours(op: OpOverload, p: object, mode: FakeTensorMode) -> object:
    if isinstance(p, Tensor):
        if p.fake_mode is mode:
            return p
        if mode.allow_non_fake_inputs:
            return mode.from_tensor(p)
        if p.fake_mode is not None:
            raise AssertionError(
                f"{op}: mixing fake modes is not supported: got tensors of {mode} and {p.fake_mode}"
            )
        raise AssertionError(
            f"{op}: please convert all Tensors to FakeTensors first or instantiate FakeTensorMode "
            f"with 'allow_non_fake_inputs'. Found the real tensor {p.meta}; "
            f"mode.from_tensor(t) converts it"
        )
    if p.__class__ is tuple and any(isinstance(i, Tensor) for i in p):
        return tuple([_ours(op, i, mode) for i in p])
    return p


def _tensors(params: Sequence[object]) -> Iterator[Tensor]:
    for p in params:
        if isinstance(p, Tensor):
            yield p
        elif isinstance(p, tuple):
            yield from _tensors(p)
