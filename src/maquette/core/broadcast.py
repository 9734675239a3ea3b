"""Broadcasting and dimension numbers: pure functions on shapes and strides."""

from collections.abc import Sequence

from maquette.core.errors import check, check_index
from maquette.core.strides import Shape, Strides
from maquette.core.symbols import is_true, node_of


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that all shapes stretch to; RuntimeError naming sizes and dim (spec T36)."""
    if not shapes:
        return ()
    result = shapes[0]
    for shape in shapes[1:]:
        if shape is not result:
            result = _broadcast_two(result, shape)
    return result


def _broadcast_two(a: Shape, b: Shape) -> Shape:
    ndim = max(len(a), len(b))
    a_sizes = (1,) * (ndim - len(a)) + a
    b_sizes = (1,) * (ndim - len(b)) + b
    # From the last on, as PyTorch: of several dimensions that do not fit, errors name the last.
    dims = range(ndim - 1, -1, -1)
    return tuple([_broadcast_size(a_sizes[dim], b_sizes[dim], dim) for dim in dims][::-1])


def _broadcast_size(a: int, b: int, dim: int) -> int:
    if a is b or is_true(b == 1):
        return a
    if is_true(a == 1):
        return b
    check(
        a == b,
        lambda: (
            f"The size of tensor a ({a}) must match the size of tensor b ({b}) at "
            f"non-singleton dimension {dim}"
        ),
    )
    return a if node_of(a) is None else b  # a plain size says more than a symbolic one


def expand_strides(shape: Shape, strides: Strides, target: Shape) -> Strides:
    """Strides over a broadcast shape: 0 for missing and stretched dimensions (spec T38).

    A dimension of size 1 that stays 1 keeps its stride.
    """
    missing = len(target) - len(shape)
    kept = (
        0 if size is not wanted and is_true(size == 1) and not is_true(wanted == 1) else stride
        for size, stride, wanted in zip(shape, strides, target[missing:])
    )
    return (0,) * missing + tuple(kept)


def wrap_dim(dim: int, ndim: int) -> int:
    """A dimension number counted from the front; IndexError when out of range (spec T9).

    A 0-dim tensor accepts -1 and 0.
    """
    span = ndim or 1
    check_index(
        -span <= dim < span,
        lambda: (
            f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], "
            f"but got {dim})"
        ),
    )
    return dim + span if dim < 0 else dim


def wrap_dims(dims: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Several dimension numbers counted from the front; RuntimeError for one named twice."""
    wrapped = tuple(wrap_dim(dim, ndim) for dim in dims)
    check(len(set(wrapped)) == len(wrapped), lambda: _repeated_dim(wrapped))
    return wrapped


def _repeated_dim(dims: Sequence[int]) -> str:
    twice = next(dim for position, dim in enumerate(dims) if dim in dims[:position])
    return f"dim {twice} appears multiple times in the list of dims"
