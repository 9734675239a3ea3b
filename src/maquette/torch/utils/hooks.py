"""`torch.utils.hooks`: handles of hooks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

from maquette.tensor.tensor import Tensor
from maquette.torch.face.forwarding import forward

Hook = TypeVar("Hook", bound=Callable[..., object])


def unserializable_hook(f: Hook) -> Hook:
    """A hook that may be left out when a tensor is pickled, with no warning."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]  # PyTorch's mark
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of hooks that a pickle of the tensor does not have, but for marked ones."""
    hooks: dict[int, object] = getattr(tensor, "_backward_hooks", None) or {}
    for hook in hooks.values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, "
                f"decorate the function with @torch.utils.hooks.unserializable_hook",
                stacklevel=2,
            )


__getattr__ = forward(__name__, "maquette.autograd.hooks")
