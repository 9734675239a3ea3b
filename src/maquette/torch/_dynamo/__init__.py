"""`torch._dynamo`: the marks by which a program says which sizes are dynamic.

There is no compiler of Python here; a mark is read where a tensor becomes a fake
(`FakeTensorMode.from_tensor` in a mode with a shape environment).
"""

from __future__ import annotations

from collections.abc import Sequence

from maquette.tensor.tensor import Tensor
from maquette.torch.face.forwarding import forward

Dims = int | Sequence[int]


def _mark(t: Tensor, attribute: str, index: Dims) -> None:
    dims = (index,) if isinstance(index, int) else tuple(index)
    for dim in dims:
        if not -t.ndim <= dim < t.ndim:
            raise AssertionError(f"{t.meta} has no dimension {dim} to mark")
    marked: set[int] = getattr(t, attribute, set())
    setattr(t, attribute, marked | {dim % t.ndim for dim in dims})


def mark_dynamic(
    t: Tensor,
    index: Dims,
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """Give dimensions a symbol of their own. AssertionError for a dimension that is not there."""
    _mark(t, "_dynamo_dynamic_indices", index)


def maybe_mark_dynamic(t: Tensor, index: Dims) -> None:
    """Give dimensions a symbol of their own, which may become constant."""
    _mark(t, "_dynamo_weak_dynamic_indices", index)
    _mark(t, "_dynamo_dynamic_indices", index)


def mark_unbacked(t: Tensor, index: Dims, hint_override: int | None = None) -> None:
    """Give dimensions an unbacked symbol: what they are now is not used."""
    _mark(t, "_dynamo_unbacked_indices", index)


def mark_static(t: Tensor, index: Dims | None = None) -> None:
    """Let dimensions be constants; all of them by default."""
    _mark(t, "_dynamo_static_indices", range(t.ndim) if index is None else index)


def reset() -> None:
    """Forget what was compiled: nothing is."""


reset_code_caches = reset

__all__ = ["mark_dynamic", "mark_static", "mark_unbacked", "maybe_mark_dynamic", "reset"]

__getattr__ = forward(
    __name__,
    "maquette.torch._dynamo.marks",
    "maquette.torch._dynamo.eval_frame",
    "maquette.torch.compiler",
)
