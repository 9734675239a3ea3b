"""`associative_scan`: prefix results of an associative function, in logarithmically many steps."""

from __future__ import annotations

from typing import Any

from maquette.core.broadcast import wrap_dim
from maquette.core.pytree import tree_unflatten
from maquette.higher_order.common import (
    Function,
    FunctionalHop,
    check_same_metadata,
    check_same_tree,
    flattened,
    paths_of,
)
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators
from maquette.transforms.vmap import vmap


def associative_scan(
    combine_fn: Function,
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Slice i of each result is ``combine_fn`` of slices 0 to i of ``xs`` along ``dim``.

    combine_fn: of two trees like ``xs`` without ``dim``, to one; it must be associative.
    combine_mode: "generic", or "pointwise" for tensors on cuda and elementwise functions.

    >>> import maquette as mq
    >>> x = mq.tensor([1.0, 2.0, 3.0])
    >>> associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")
    tensor([1., 3., 6.])
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}"
        )
    flat, spec = flattened(xs)
    if not flat:
        raise ValueError("Expected at least 1 xs leaf")
    if not all(isinstance(x, Tensor) for x in flat):
        raise ValueError("xs leaves must be a Tensor")
    if combine_mode == "pointwise" and not all(x.device.type in ("cuda", "xpu") for x in flat):
        raise ValueError(
            "For combine_mode='pointwise', all input tensors need to be on CUDA or XPU; use "
            "combine_mode='generic'"
        )
    if any(x.dim() == 0 for x in flat):
        raise ValueError("All xs leaves must at least have 'dim' number of dimensions")
    dims = [wrap_dim(dim, x.dim()) for x in flat]
    rows = [x.movedim(d, 0) for x, d in zip(flat, dims)]
    if any(x.shape[0] != rows[0].shape[0] for x in rows):
        raise ValueError("All xs leaves must have the same size along the scan dimension")
    if reverse:
        rows = [operators.flip(x, [0]) for x in rows]
    count = len(flat)

    def flat_fn(*given: Any) -> Any:
        out = combine_fn(tree_unflatten(given[:count], spec), tree_unflatten(given[count:], spec))
        found, found_spec = flattened(out)
        check_same_tree("xs and the output of combine_fn", spec, found_spec, "associative_scan")
        check_same_metadata(
            "xs and the output of combine_fn", given[:count], found, paths_of(out),
            "associative_scan",
        )  # fmt: skip
        return found

    outs = associative_scan_op(flat_fn, rows, ())
    if reverse:
        outs = [operators.flip(x, [0]) for x in outs]
    return tree_unflatten([x.movedim(0, d) for x, d in zip(outs, dims)], spec)


class AssociativeScanOp(FunctionalHop):
    """``higher_order.associative_scan(combine_fn, xs, additional_inputs)``, along the first dim."""

    operands_at = 2

    def __init__(self) -> None:
        super().__init__("associative_scan")

    def eager(self, combine_fn: Function, xs: Any, additional_inputs: Any = ()) -> Any:
        given = [None] * len(additional_inputs)
        dims = (*[0] * (2 * len(xs)), *given)
        whole = vmap(lambda *a: tuple(combine_fn(*a)), in_dims=dims)

        def combined(lhs: list[Any], rhs: list[Any]) -> list[Any]:
            return list(whole(*lhs, *rhs, *additional_inputs))

        return _prefixes(combined, list(xs))

    def fake(self, combine_fn: Function, xs: Any, additional_inputs: Any = ()) -> Any:
        if isinstance(xs[0].shape[0], int):  # as many steps as its logarithm
            return self.eager(combine_fn, xs, additional_inputs)
        first = [operators.select(x, 0, 0) for x in xs]
        combine_fn(*first, *first, *additional_inputs)
        return [operators.clone(x) for x in xs]

    def graph_name(self, at: int) -> str:
        return "associative_scan_combine_graph"

    def operands_of(self, at: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        first = [operators.select(x, 0, 0) for x in args[1]]
        return (*first, *first, *(args[2] if len(args) > 2 else ()))


def _prefixes(combined: Function, xs: list[Any]) -> list[Any]:
    """The prefix results of rows, by those of pairs of neighbours.

    Blelloch, "Prefix sums and their applications", 1990.
    """
    length = xs[0].shape[0]
    if length < 2:
        return xs
    pairs = combined([_rows(x, 0, length - 1, 2) for x in xs], [_rows(x, 1, length, 2) for x in xs])
    odd = _prefixes(combined, pairs)
    before = odd if length % 2 else [_rows(o, 0, o.shape[0] - 1, 1) for o in odd]
    even = list(xs)
    if before[0].shape[0]:
        later = combined(before, [_rows(x, 2, length, 2) for x in xs])
        even = [operators.cat([_rows(x, 0, 1, 1), e], 0) for x, e in zip(xs, later)]
    else:
        even = [_rows(x, 0, 1, 1) for x in xs]
    return [_interleaved(e, o) for e, o in zip(even, odd)]


def _rows(x: Any, start: int, end: int, step: int) -> Any:
    return operators.slice(x, 0, start, end, step)


def _interleaved(even: Any, odd: Any) -> Any:
    """Rows of two tensors in turn; the first may have one more."""
    count = odd.shape[0]
    both = operators.stack([_rows(even, 0, count, 1), odd], 1).flatten(0, 1)
    if even.shape[0] == count:
        return both
    return operators.cat([both, _rows(even, count, count + 1, 1)])


associative_scan_op = AssociativeScanOp()

__all__ = ["AssociativeScanOp", "associative_scan", "associative_scan_op"]
