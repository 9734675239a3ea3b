"""`torch.linalg`: the operators whose names begin with ``linalg_``."""

from __future__ import annotations

from maquette.aten.linalg.factorizations import LinAlgError as LinAlgError
from maquette.dispatch.registry import ops
from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__, "maquette", spellings=lambda name: (f"linalg_{name}",))


def __dir__() -> list[str]:
    names = (name for name in dir(ops.aten) if name.startswith("linalg_"))
    return sorted({*_PUBLIC, *(name.removeprefix("linalg_") for name in names)})


_PUBLIC = ("LinAlgError", "__doc__", "__name__")
