"""Lists of tensors side by side, defined by cat and stack: hstack, vstack, meshgrid and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from maquette.aten.common.operators import aten
from maquette.aten.view.constants import constant
from maquette.aten.view.joining import cat, stack
from maquette.core.dtype import int64
from maquette.core.errors import check
from maquette.core.warned import warn_once
from maquette.dispatch.tags import Tag
from maquette.library.page import define, describe
from maquette.tensor.tensor import Tensor

Tensors = tuple[Tensor, ...]
Parts = tuple[Sequence[Tensor], int]


def _with_out(schema: str, parts: Callable[..., Parts]) -> None:
    """A composite over a list of tensors and its ``out=`` form: `cat` of parts along a dim."""
    define(schema).composite(lambda *params: cat(*parts(*params)))
    head, _, rest = schema.partition("(")
    arguments = rest.rpartition(") -> ")[0]
    out = define(f"{head}.out({arguments}, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out])
    out.composite(lambda *params: cat.variants[0](*parts(*params[:-1]), out=params[-1]))


def _hstack(tensors: Tensors) -> Parts:
    check(len(tensors) > 0, lambda: "hstack expects a non-empty TensorList")
    parts = [aten.atleast_1d(t) for t in tensors]
    return parts, 0 if parts[0].ndim == 1 else 1


def _vstack(tensors: Tensors) -> Parts:
    check(len(tensors) > 0, lambda: "vstack expects a non-empty TensorList")
    return [aten.atleast_2d(t) for t in tensors], 0


def _dstack(tensors: Tensors) -> Parts:
    check(len(tensors) > 0, lambda: "dstack expects a non-empty TensorList")
    return [aten.atleast_3d(t) for t in tensors], 2


def _column_stack(tensors: Tensors) -> Parts:
    check(len(tensors) > 0, lambda: "column_stack expects a non-empty TensorList")
    return _hstack(tuple(t.reshape((t.meta.numel, 1)) if t.meta.ndim <= 1 else t for t in tensors))


_with_out("aten::hstack(Tensor[] tensors) -> Tensor", _hstack)
describe(
    "hstack",
    "Tensors one after the other along the second dimension, vectors along the only one.",
)
_with_out("aten::vstack(Tensor[] tensors) -> Tensor", _vstack)
describe("vstack", "Tensors one below the other along the first dimension; vectors become rows.")
_with_out("aten::row_stack(Tensor[] tensors) -> Tensor", _vstack)
describe("row_stack", "Tensors one below the other along the first dimension, as `vstack`.")
_with_out("aten::dstack(Tensor[] tensors) -> Tensor", _dstack)
describe(
    "dstack",
    "Tensors one after the other along the third dimension, which is made where missing.",
)
_with_out("aten::column_stack(Tensor[] tensors) -> Tensor", _column_stack)
describe("column_stack", "Tensors side by side as columns; vectors become columns.")
for _name in ("concat", "concatenate"):
    _with_out(
        f"aten::{_name}(Tensor[] tensors, int dim=0) -> Tensor",
        lambda tensors, dim: (tensors, dim),
    )
describe("concatenate", "Tensors one after the other along `dim`, as `cat`.")
describe("concat", "Tensors one after the other along `dim`, as `cat`.")

meshgrid = define("aten::meshgrid(Tensor[] tensors) -> Tensor[]")
meshgrid.describe("Vectors expanded into a grid that has a dimension for each: views.")
meshgrid_indexing = define("aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]")


def _meshgrid(tensors: Tensors, indexing: str) -> list[object]:
    check(len(tensors) > 0, lambda: "meshgrid expects a non-empty TensorList")
    check(
        indexing in ("ij", "xy"),
        lambda: f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}',
    )
    for t in tensors:
        if t.meta.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t.meta}"
            )
    first = tensors[0].meta
    for t in tensors[1:]:
        check(
            t.meta.dtype is first.dtype,
            lambda: "torch.meshgrid expects all tensors to have the same dtype",
        )
        check(
            t.meta.device is first.device,
            lambda: "torch.meshgrid expects all tensors to have the same device",
        )
    swapped = indexing == "xy" and len(tensors) >= 2
    order = (tensors[1], tensors[0], *tensors[2:]) if swapped else tensors
    shape = tuple(t.meta.numel for t in order)
    grids: list[Tensor] = []
    for i, t in enumerate(order):
        own = (1,) * i + (t.meta.numel,) + (1,) * (len(order) - i - 1)
        grids.append(t.view(own).expand(shape))
    if swapped:
        grids[0], grids[1] = grids[1], grids[0]
    return list(grids)


@meshgrid.composite
def meshgrid_composite(tensors: Tensors) -> list[object]:
    warn_once(
        "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument."
    )
    return _meshgrid(tensors, "ij")


meshgrid_indexing.composite(_meshgrid)

cartesian_prod = define(
    "aten::cartesian_prod(Tensor[] tensors) -> Tensor", tags=[Tag.maybe_aliasing_or_mutating]
)
cartesian_prod.describe("All combinations of elements of vectors, a row each.")


@cartesian_prod.composite
def cartesian_prod_composite(tensors: Tensors) -> object:
    for t in tensors:
        if t.meta.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.meta.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([grid.flatten() for grid in _meshgrid(tensors, "ij")], 1)  # type: ignore[attr-defined]  # tensors


combinations = define(
    "aten::combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor"
)
combinations.describe("All combinations of `r` elements of a vector, a row each.")


@combinations.composite
def combinations_composite(self: Tensor, r: int, with_replacement: bool) -> object:
    check(self.meta.ndim == 1, lambda: f"Expect a 1D vector, but got shape {list(self.meta.shape)}")
    check(r >= 0, lambda: f"Expect a non-negative number, but got {r}")
    if r == 0:
        return self.new_empty((0,))
    # A symbolic size becomes that of this call, as in PyTorch: the places are counted.
    places = _combined_places(int(self.meta.numel), r, with_replacement)
    return stack([_taken(self, column) for column in places], 1)


def _combined_places(count: int, r: int, with_replacement: bool) -> list[npt.NDArray[np.int64]]:
    """The first, second, ... of ``r`` ascending numbers below a count, in all ways, in order."""
    columns: list[npt.NDArray[np.int64]] = [np.arange(count)]
    for _ in range(r - 1):
        least = columns[-1] + (not with_replacement)  # what may follow
        ways = count - least
        before = np.cumsum(ways) - ways
        following = np.arange(ways.sum()) + np.repeat(least - before, ways)
        columns = [*[np.repeat(column, ways) for column in columns], following]
    return columns


def _taken(self: Tensor, places: npt.NDArray[np.int64]) -> Tensor:
    """Elements at known places: the places are shapes' business, not data."""
    return self.index_select(0, constant(places, int64).to(self.device))
