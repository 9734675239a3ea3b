"""`torch.autograd`: the package of that name, and what computes with it from outside."""

from __future__ import annotations

from typing import NoReturn

from maquette.torch.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from maquette.torch.autograd.variable import Variable
from maquette.torch.face.forwarding import forward


def variable(*args: object, **kwargs: object) -> NoReturn:
    """Raise RuntimeError: `torch.tensor` came in its place."""
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


__all__ = ["GradcheckError", "Variable", "gradcheck", "gradgradcheck", "variable"]
__getattr__ = forward(__name__, "maquette.autograd")
