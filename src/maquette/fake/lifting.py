"""Kernels of their own at Fake: of ``lift_fresh``, how `tensor(data)` enters a fake mode (F64).

A real tensor becomes a fake; one of at most one element keeps its value as the fake's constant, in
a private clone that no observer of allocations sees.
"""

from __future__ import annotations

from collections.abc import Callable

from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import find_packet
from maquette.dispatch.tls import tls
from maquette.fake.cache import bypassing
from maquette.fake.constants import LARGEST, running_for_real
from maquette.fake.mode import FakeTensorMode, make_constant
from maquette.fake.real.data import keep_data
from maquette.fake.tensor import fresh_fake
from maquette.library.registrations import find_overload
from maquette.tensor.tensor import Tensor


def lifted(t: Tensor) -> Tensor:
    """The fake of freshly made data in the active mode; a fake is itself."""
    mode = tls.st.fake_mode
    if t.fake_mode is not None or not isinstance(mode, FakeTensorMode):
        return t
    if t.meta.numel > LARGEST or t.meta.device.type == "meta":
        fake = fresh_fake(mode, t.meta)
        if mode.propagate_real_tensors:
            keep_data(t, fake)
        return fake
    with running_for_real():
        value = t.clone()
    return make_constant(mode, value)


def _kernel(op: OpOverload, ks: int) -> Callable[..., object]:
    return bypassing(lambda ks, t: lifted(t), "lift")


_copy = find_overload("aten::lift_fresh_copy")
assert _copy is not None
_explicit = _copy._kernels[DispatchKey.CompositeExplicitAutograd][-1]


def _copy_kernel(op: OpOverload, ks: int) -> Callable[..., object]:
    """A graph's constants are real; where it runs with fakes, copies of them are fake."""
    copied = _explicit.factory(op, ks)
    assert copied is not None

    def kernel(ks: int, t: Tensor) -> object:
        return copied(ks, lifted(t))

    return bypassing(kernel, "lift")


_copy.register(DispatchKey.Fake, Kernel(_copy_kernel))
for _name in ("lift_fresh", "lift"):
    _packet = find_packet(f"aten::{_name}")
    assert _packet is not None, "maquette.aten is imported before maquette.fake"
    for _overload in _packet.op_overloads():
        _overload.register(DispatchKey.Fake, Kernel(_kernel))


def _counted(kernel: Kernel) -> Kernel:
    """``kernel``, whose calls pass the cache by: their results hide whose memory they share."""

    def factory(op: OpOverload, ks: int) -> Callable[..., object] | None:
        made = kernel.factory(op, ks)
        return None if made is None else bypassing(made, "unsafe view", op)

    return Kernel(factory)


_unsafe = find_overload("aten::_unsafe_view")
assert _unsafe is not None, "maquette.aten is imported before maquette.fake"
_unsafe.register(DispatchKey.Fake, _counted(_unsafe._kernels[DispatchKey.Fake][-1]))
