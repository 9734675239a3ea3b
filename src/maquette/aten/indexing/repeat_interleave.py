"""Elements repeated in place: ``repeat_interleave`` in its three forms.

With a tensor of counts the result's size depends on data, unless ``output_size`` names it.
"""

from __future__ import annotations

from types import ModuleType

from maquette.aten.common.axes import Array, wrap_existing_dim
from maquette.core.dtype import int32, int64
from maquette.core.errors import check, check_data
from maquette.core.layout import contiguous_format
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import NewNumbers, define
from maquette.tensor.tensor import Tensor

repeats_to_positions = define(
    "aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
    tags=[Tag.dynamic_output_shape],
)
repeats_to_positions.describe(
    "Each element, or slice along `dim`, repeated in place as often as `repeats` says."
)
repeat_interleave = define(
    "aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, "
    "SymInt? output_size=None) -> Tensor"
)
repeat_interleave_int = define(
    "aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, "
    "SymInt? output_size=None) -> Tensor"
)


def _check_repeats(repeats: TensorMeta) -> None:
    check(repeats.ndim == 1, lambda: "repeat_interleave only accept 1D vector as repeat")
    check(repeats.dtype in (int32, int64), lambda: "repeats has to be Long or Int tensor")


def repeats_to_positions_checks(repeats: TensorMeta, output_size: int | None) -> TensorMeta | None:
    """The result's meta where the caller says its size."""
    _check_repeats(repeats)
    return None if output_size is None else repeats.fresh((output_size,))


@repeats_to_positions.unbacked
def repeats_to_positions_unbacked(
    new: NewNumbers, repeats: TensorMeta, output_size: int | None
) -> TensorMeta:
    _check_repeats(repeats)
    return repeats.fresh((new.size(),))


@repeats_to_positions.data_dependent(
    repeats_to_positions_checks, layout=lambda shape, repeats, output_size: repeats.fresh(shape)
)
def repeats_to_positions_kernel(xp: ModuleType, repeats: Array, output_size: int | None) -> Array:
    check_data(repeats.size == 0 or int(repeats.min()) >= 0, lambda: "repeats can not be negative")
    found: Array = xp.repeat(xp.arange(len(repeats), dtype=repeats.dtype), repeats)
    check_data(
        output_size is None or output_size == len(found),
        lambda: (
            f"allocated size does not match required size: output_size={output_size}, the "
            f"repeats add up to {len(found)}"
        ),
    )
    return found


repeats_to_positions.nondifferentiable()


@repeat_interleave.composite
def repeat_interleave_composite(
    self: Tensor, repeats: Tensor, dim: int | None, output_size: int | None
) -> object:
    source = self.flatten() if dim is None else self
    axis = wrap_existing_dim(0 if dim is None else dim, source.meta.ndim)
    size = source.meta.shape[axis]
    check(repeats.meta.ndim <= 1, lambda: "repeats must be 0-dim or 1-dim tensor")
    if repeats.meta.numel == 1:
        repeats = repeats.reshape((1,)).expand((size,))
    check(
        repeats.meta.numel == size,
        lambda: (
            f"repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{repeats.meta.numel} and input.size({axis}) = {size}"
        ),
    )
    positions = repeats_to_positions(repeats, output_size=output_size)
    if source.is_conj():  # what is left to conjugate stays so, as in PyTorch
        return source.conj().index_select(axis, positions).conj()
    return source.index_select(axis, positions)


@repeat_interleave_int.composite
def repeat_interleave_int_composite(
    self: Tensor, repeats: int, dim: int | None, output_size: int | None
) -> object:
    check(repeats >= 0, lambda: f"Repeats must be non-negative, got {repeats}")
    source = self.flatten() if dim is None else self
    axis = wrap_existing_dim(0 if dim is None else dim, source.meta.ndim)
    shape = source.meta.shape
    wide = source.unsqueeze(axis + 1).expand((*shape[: axis + 1], repeats, *shape[axis + 1 :]))
    return wide.clone(memory_format=contiguous_format).flatten(axis, axis + 1)
