"""`torch.fft`: the operators whose names begin with ``fft_``."""

from __future__ import annotations

from maquette.dispatch.registry import ops
from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__, "maquette", spellings=lambda name: (f"fft_{name}",))


def __dir__() -> list[str]:
    names = (name for name in dir(ops.aten) if name.startswith("fft_"))
    return sorted({*_PUBLIC, *(name.removeprefix("fft_") for name in names)})


_PUBLIC = ("__doc__", "__name__")
