"""Functions that take tensors one by one where their operators take a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maquette.dispatch.registry import find_packet
from maquette.tensor.tensor import Tensor


def _variadic(name: str) -> Callable[..., object]:
    def function(*tensors: Tensor | Sequence[Tensor], **kwargs: object) -> object:
        packet = find_packet(f"aten::{name}")
        assert packet is not None
        listed = len(tensors) == 1 and not isinstance(tensors[0], Tensor)
        result = packet(tensors[0] if listed else tensors, **kwargs)
        return tuple(result) if isinstance(result, list) else result

    function.__name__ = function.__qualname__ = name
    function.__module__ = "maquette"
    function.__doc__ = f"As PyTorch's ``{name}``: ``{name}(a, b)`` or ``{name}([a, b])``."
    return function


block_diag = _variadic("block_diag")
broadcast_tensors = _variadic("broadcast_tensors")
cartesian_prod = _variadic("cartesian_prod")
meshgrid = _variadic("meshgrid")


def _at_least(dimensions: int) -> Callable[..., object]:
    name = f"atleast_{dimensions}d"
    several = _variadic(name)

    def function(*tensors: Tensor | Sequence[Tensor]) -> object:
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return getattr(tensors[0], name)()
        return several(*tensors)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "maquette"
    function.__doc__ = f"Tensors with at least {dimensions} dimension(s); several give a tuple."
    return function


atleast_1d = _at_least(1)
atleast_2d = _at_least(2)
atleast_3d = _at_least(3)


def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> object:
    """``tensor`` in views of one size along ``dim``, or of the given sizes."""
    return tensor.split(split_size_or_sections, dim)


__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_tensors",
    "cartesian_prod",
    "meshgrid",
    "split",
]
