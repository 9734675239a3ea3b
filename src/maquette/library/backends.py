"""Naming the array library of a device: the public door to `maquette.tensor.backend`."""

from __future__ import annotations

from collections.abc import Callable

from maquette.core.errors import check
from maquette.dispatch import keysets as K
from maquette.dispatch.packet import PACKETS
from maquette.library.page import BACKENDS
from maquette.tensor.backend import Backend, provide_backend


def register_backend(device_type: str, provider: Callable[[], Backend]) -> None:
    """Have ``provider()`` name the array library that holds the data of a device type.

    It is called when data is first put there, so that it may import its library then. Kernels that
    were resolved for another library are forgotten; tensors that hold its arrays stay as they are.
    Raises RuntimeError for a device type that array kernels do not run on.

    >>> from maquette.library import Backend, register_backend
    >>> class MyArrays(Backend):
    ...     name = "my arrays"
    >>> register_backend("mps", MyArrays)
    Traceback (most recent call last):
    RuntimeError: array kernels run on cpu, cuda; 'mps' is not among them
    """
    known = [t for t, name in K.BACKEND_OF_DEVICE.items() if K.key_parse(name) in BACKENDS]
    known.remove("meta")
    check(
        device_type in known,
        lambda: f"array kernels run on {', '.join(known)}; {device_type!r} is not among them",
    )
    provide_backend(device_type, provider)
    for packet in list(PACKETS.values()):
        for overload in packet.op_overloads():
            overload.invalidate()
