"""`torch._C._nn`: what PyTorch's modules call below `torch.nn.functional`."""

from __future__ import annotations

from typing import Any

from maquette.nn.base.conversion import parse_to
from maquette.torch.face.forwarding import forward


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, non_blocking and memory format of the arguments of `Module.to`."""
    found = parse_to(*args, **kwargs)
    return found.device, found.dtype, found.non_blocking, found.format


__getattr__ = forward(__name__, "maquette.api.functions", "maquette.nn.functional", path="_C._nn")
