"""Functions that take tensors one by one where their operators take a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maquette.api.signatures import called
from maquette.aten.factory.factories import empty
from maquette.tensor.tensor import Tensor


def _variadic(name: str, what: str) -> Callable[..., object]:
    """The function of an operator on lists; what: what it computes."""

    def function(*tensors: Tensor | Sequence[Tensor]) -> object:
        if not tensors and name == "block_diag":
            return empty((1, 0))
        return _of_list(name, tensors)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "maquette"
    function.__doc__ = f"{what} {_ALIKE.format(name)}"
    return function


_ALIKE = "``{0}(a, b)`` and ``{0}([a, b])`` are the same."


def _of_list(
    name: str, tensors: tuple[Tensor | Sequence[Tensor], ...], **options: object
) -> object:
    listed = len(tensors) == 1 and not isinstance(tensors[0], Tensor)
    result = called(name, None, tensors[0] if listed else tensors, **options)
    return tuple(result) if isinstance(result, list) else result


block_diag = _variadic(
    "block_diag", "A matrix with the given matrices along its diagonal and zeros elsewhere."
)
broadcast_tensors = _variadic(
    "broadcast_tensors", "Views of the tensors, expanded to the shape that all broadcast to."
)
cartesian_prod = _variadic(
    "cartesian_prod", "All combinations of elements of the vectors, a row each."
)


def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str | None = None) -> object:
    """Views of the vectors, expanded to a grid that has a dimension for each.

    indexing: "ij", as without it, or "xy", with the first two dimensions exchanged.
    """
    return _of_list("meshgrid", tensors, **({} if indexing is None else {"indexing": indexing}))


meshgrid.__module__ = "maquette"


def _at_least(dimensions: int) -> Callable[..., object]:
    name = f"atleast_{dimensions}d"
    what = f"Tensors with at least {dimensions} dimension(s)."
    several = _variadic(name, what)

    def function(*tensors: Tensor | Sequence[Tensor]) -> object:
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return called(name, None, tensors[0])
        return several(*tensors)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "maquette"
    function.__doc__ = f"{what} Several give a tuple."
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
