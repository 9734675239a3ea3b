"""What an operator does under one mode or tensor class, and in autocast regions.

A rule stands in the place of the ``__torch_dispatch__`` of exactly one class, for one operator
(`dispatch.handlers` asks for it). What a region of mixed precision does to a user's operator is a
kernel at the key of the region's device.
"""

from __future__ import annotations

from collections.abc import Callable

from maquette.core.dtype import dtype
from maquette.dispatch.abstract import TensorBase
from maquette.dispatch.kernels import Boxed, Kernel, caller_place
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.operator import LOCK, OpOverload
from maquette.dispatch.pre_dispatch import TorchDispatchModeKey
from maquette.dispatch.tls import tls
from maquette.library.registrations import Undo

Rule = Callable[..., object]
_PLACES: dict[tuple[str, type], str] = {}


def add_dispatch_rule(op: OpOverload, cls: type, rule: Rule, *, replace: bool = False) -> Undo:
    """Have ``rule(mode_or_class, op, types, args, kwargs)`` answer ``op`` for a class; undone by
    what this returns.

    ValueError for what is no class of modes or tensors, RuntimeError for a second rule of a class
    unless ``replace``.
    """
    _check_class(op, cls)
    key, place = (op.name(), cls), caller_place()
    with LOCK:
        if cls in op.dispatch_rules and not replace:
            raise RuntimeError(
                f"register_torch_dispatch: {op.name()} has a rule for {cls.__name__} already, from "
                f"{_PLACES.get(key)}; the second is from {place}. End the library of the first"
            )
        op.dispatch_rules = {**op.dispatch_rules, cls: rule}
        _PLACES[key] = place

    def undo() -> None:
        with LOCK:
            if op.dispatch_rules.get(cls) is rule:
                op.dispatch_rules = {c: r for c, r in op.dispatch_rules.items() if c is not cls}
                _PLACES.pop(key, None)

    return undo


def _check_class(op: OpOverload, cls: object) -> None:
    if not isinstance(cls, type) or not issubclass(cls, (TorchDispatchMode, TensorBase)):
        raise ValueError(
            f"register_torch_dispatch: expected a class of modes (TorchDispatchMode) or of tensors "
            f"for {op.name()}, got {cls!r}"
        )
    if getattr(cls, "_mode_key", None) is TorchDispatchModeKey.FAKE:
        raise NotImplementedError(
            f"register_torch_dispatch: {cls.__name__} answers at a key of its own, Fake; say what "
            f"{op.name()} gives on fakes by register_fake"
        )


def autocast_kernel(device_type: str, cast_inputs: dtype) -> tuple[DispatchKey, Kernel]:
    """The key of a device's regions, and the kernel that casts an operator's tensors there.

    ValueError for a device without regions, or what is no dtype.
    """
    from maquette.transforms import autocast as regions  # noqa: PLC0415  # few programs need it

    if not isinstance(device_type, str) or device_type not in regions.DEVICES:
        raise ValueError(
            f"register_autocast: unknown device type {device_type!r}; regions are for "
            f"{' and '.join(regions.DEVICES)}"
        )
    if not isinstance(cast_inputs, dtype):
        raise ValueError(f"register_autocast: cast_inputs is a dtype, got {cast_inputs!r}")
    key = regions.DEVICES[device_type]
    bits = key.functionality_bits

    def factory(op: OpOverload, ks: int) -> Boxed:
        def kernel(ks: int, *params: object) -> object:
            st = tls.st
            exclude = st.exclude
            st.add_exclude(bits)
            try:
                return op.run(ks & ~bits, regions.all_cast(params, cast_inputs, device_type))
            finally:
                st.set_exclude(exclude)

        return kernel

    return key, Kernel(factory, place=caller_place())
