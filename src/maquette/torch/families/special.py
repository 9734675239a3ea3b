"""`torch.special`: the operators whose names begin with ``special_``."""

from __future__ import annotations

from maquette.dispatch.registry import ops
from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__, "maquette", spellings=lambda name: (f"special_{name}",))


def __dir__() -> list[str]:
    names = (name for name in dir(ops.aten) if name.startswith("special_"))
    return sorted({*_PUBLIC, *(name.removeprefix("special_") for name in names)})


_PUBLIC = ("__doc__", "__name__")
