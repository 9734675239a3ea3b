"""`torch._functorch.eager_transforms`: the transforms of derivatives, and their pieces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maquette.torch.face.forwarding import forward
from maquette.transforms import hessian, jacfwd, jacrev, jvp, linearize, vjp
from maquette.transforms.gradients import Argnums, chosen_arguments
from maquette.transforms.inspection import debug_unwrap


def _slice_argnums(args: tuple[Any, ...], argnums: Argnums, as_tuple: bool = True) -> Any:
    """The arguments at ``argnums``; a single one in a tuple, unless told otherwise."""
    chosen = chosen_arguments(args, argnums)
    return (chosen,) if isinstance(argnums, int) and as_tuple else chosen


def _as_tuple(value: Any) -> tuple[Any, ...]:
    """What is no tuple, in a tuple."""
    return value if isinstance(value, tuple) else (value,)


@contextmanager
def enable_inplace_requires_grad(enabled: bool) -> Iterator[None]:
    """Taken and not used: the transforms here never ask tensors to require grad in place."""
    yield


__getattr__ = forward(
    __name__,
    "maquette.torch.func",
    "maquette.transforms.gradients",
    path="_functorch.eager_transforms",
)
__all__ = ["debug_unwrap", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]
