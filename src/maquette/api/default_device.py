"""Where factories put what they are told no device for: blocks of a device, a thread's default.

Both are function modes, as in PyTorch: they are counted among the modes, and modes outside of one
see ``device=`` in the calls under it. They are quiet ones, so calls are not slower under them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from maquette.api.creation import as_tensor, asarray, tensor
from maquette.api.from_schema import default_device
from maquette.core.device import cpu
from maquette.core.device import device as Device
from maquette.dispatch.stacks.quiet import push_quiet, remove_quiet
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import TorchFunctionMode, pop_mode

F = TypeVar("F", bound=Callable[..., object])

#: The operators whose functions modes see with the default device.
NAMES = frozenset(
    "arange bartlett_window blackman_window empty empty_permuted empty_strided "
    "eye fft_fftfreq fft_rfftfreq full hamming_window hann_window kaiser_window linspace logspace "
    "ones rand randint randn randperm range scalar_tensor sparse_bsc_tensor sparse_bsr_tensor "
    "sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor "
    "tril_indices triu_indices zeros".split()
)
_constructors: set[Callable[..., object]] = {as_tensor, asarray, tensor}


def told_of_device(function: F) -> F:
    """The function, whose calls modes see from now on with the default device."""
    _constructors.add(function)
    return function


class DeviceContext(TorchFunctionMode):
    """What is made in the block is on ``device``, where its call names none.

    Below all other modes, so that it outlasts the blocks that it was entered in; a block of a
    device, ``with torch.device(...)``, is above those that are open.
    """

    is_quiet = True

    def __init__(self, device: Device | str | int) -> None:
        self.device = device if type(device) is Device else Device(device)
        self.is_lowest = False

    def __enter__(self) -> DeviceContext:
        self.is_lowest = True
        push_quiet(self, lowest=True)
        return self

    def __exit__(self, *exc: object) -> None:
        remove_quiet(self)

    def said(self, func: Callable[..., object], kwargs: dict[str, object]) -> dict[str, object]:
        """The keywords, with the device in those of a constructor that names none."""
        if kwargs.get("device") is not None or func not in _constructors:
            return kwargs
        return {**kwargs, "device": self.device}

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        return func(*args, **self.said(func, kwargs or {}))


class _Default(DeviceContext):
    """What `set_default_device` said, until it is called again."""


def set_default_device(device: Device | str | int | None) -> None:
    """Put what this thread's factories make on ``device`` where they are told none.

    None means cpu again. Blocks of a device that are open, or entered later, come first.
    """
    for _, mode in list(tls.st.quiet_modes):
        if isinstance(mode, _Default):
            remove_quiet(mode)
    if device is not None:
        _Default(device).__enter__()


def get_default_device() -> Device:
    """Where this thread's factories put tensors that are told no device."""
    return default_device() or cpu


def _enter(self: Device) -> Device:
    push_quiet(DeviceContext(self))
    return self


def _exit(self: Device, *exc: object) -> None:
    pop_mode()


# `with device("cuda"):` needs the modes, which `core/device.py` does not know.
for _name, _method in (("__enter__", _enter), ("__exit__", _exit)):
    setattr(Device, _name, _method)

__all__ = ["DeviceContext", "get_default_device", "set_default_device", "told_of_device"]
