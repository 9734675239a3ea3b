"""Making nested tensors: of lists, of values and offsets, of windows; and padding them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maquette.api.creation import as_tensor
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import int64
from maquette.core.layout import jagged, strided
from maquette.core.layout import layout as Layout
from maquette.dispatch.registry import ops
from maquette.nested import operators as _operators
from maquette.nested.tensor import NestedTensor, carrier, from_values
from maquette.tensor.tensor import Tensor

Place = Device | str | None


def _check_layout(layout: Layout | None, name: str) -> None:
    if layout is None or layout is strided:
        raise NotImplementedError(
            f"{name}: nested tensors of layout strided are not supported; pass layout=torch.jagged"
        )
    if layout is not jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: Place = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A nested tensor with a copy of the rows, a leaf. layout: ``torch.jagged``."""
    _check_layout(layout, "nested_tensor")
    rows = [as_tensor(row, dtype=dtype).detach() for row in tensor_list]
    made = from_list(rows, dtype, device)
    return made._require_grad() if requires_grad else made


def as_nested_tensor(
    ts: Tensor | Sequence[Tensor],
    dtype: DType | None = None,
    device: Place = None,
    layout: Layout | None = None,
) -> Tensor:
    """A nested tensor of rows, through which gradients flow to them; a nested tensor is itself."""
    if isinstance(ts, NestedTensor):
        return ts.to(device=device, dtype=dtype)
    _check_layout(layout, "as_nested_tensor")
    rows = list(ts.unbind(0)) if isinstance(ts, Tensor) else [as_tensor(row) for row in ts]
    return from_list(rows, dtype, device)


def from_list(rows: Sequence[Tensor], dtype: DType | None, device: Place) -> NestedTensor:
    """A jagged tensor of rows, whose sizes differ in one dimension at most."""
    ragged = _ragged_dim(rows)
    where = rows[0].device if device is None else Device(device)
    kind = dtype or rows[0].dtype
    values = ops.aten.cat(list(rows), ragged).to(device=where, dtype=kind)
    lengths = [row.shape[ragged] for row in rows]
    starts = [0]
    for n in lengths:
        starts.append(starts[-1] + n)
    offsets = as_tensor(starts, dtype=int64, device=where)
    least, most = carrier(min(lengths)), carrier(max(lengths))
    return from_values(
        values,
        lambda v: NestedTensor(
            v,
            offsets,
            _ragged_idx=ragged + 1,
            _min_seqlen_tensor=least,
            _max_seqlen_tensor=most,
        ),
    )


def _ragged_dim(rows: Sequence[Tensor]) -> int:
    """The dimension in which the rows differ; the first if in none. RuntimeError if they cannot."""
    if not rows:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    first = rows[0]
    for what, name in (("dtype", "dtype"), ("device", "device"), ("ndim", "dim")):
        if any(getattr(row, what) != getattr(first, what) for row in rows):
            raise RuntimeError(
                f"When constructing a nested tensor, all tensors in list must have the same {name}"
            )
    if first.ndim == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    sizes = [tuple(row.shape) for row in rows]
    ragged = [d for d in range(first.ndim) if len({size[d] for size in sizes}) > 1]
    if len(ragged) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note "
            "that the jagged layout only allows for a single ragged dimension. For example: (B, "
            f"*, D), where * is the only ragged dimension. The rows have sizes {sizes}"
        )
    return ragged[0] if ragged else 0


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """A view of ``values`` as rows that begin at ``offsets``, or that are ``lengths`` long.

    jagged_dim: the ragged dimension, 1 by default. Gradients flow to the values. Raises
    RuntimeError where neither offsets nor lengths are given.
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError(
                "nested_tensor_from_jagged(): At least one of offsets or lengths is required."
            )
        zero = lengths.new_zeros((1,))
        offsets = ops.aten.cat([zero, lengths.cumsum(0).to(lengths.dtype)])
        lengths = None
    least = None if min_seqlen is None else carrier(min_seqlen)
    most = None if max_seqlen is None else carrier(max_seqlen)
    starts = offsets

    def make(v: Tensor) -> NestedTensor:
        made = NestedTensor(
            v,
            starts,
            lengths=lengths,
            _ragged_idx=1 if jagged_dim is None else jagged_dim,
            _min_seqlen_tensor=least,
            _max_seqlen_tensor=most,
        )
        if not v.requires_grad and v is values:
            made._base = values if values._base is None else values._base
            made._vc = values._version_counter()
        return made

    return from_values(values, make)


def to_padded_tensor(
    input: Tensor, padding: float, output_size: Sequence[int] | None = None
) -> Tensor:
    """A dense tensor of the rows, each filled up to the longest, or to ``output_size``."""
    assert isinstance(input, NestedTensor)
    return _operators.padded(input, padding, output_size)


def narrow(
    tensor: Tensor,
    dim: int,
    start: int | Tensor,
    length: int | Tensor,
    layout: Layout | None = None,
) -> Tensor:
    """A window of each row of a dense [rows, n, ...] tensor: a jagged view without a copy."""
    _check_layout(layout, "narrow")
    if dim != 1:
        raise RuntimeError(f"narrow: jagged layout narrows dim 1, got {dim}")
    rows, extent = tensor.shape[0], tensor.shape[1]
    aten = ops.aten
    begin = start if isinstance(start, Tensor) else aten.full([rows], start, dtype=int64)
    count = length if isinstance(length, Tensor) else aten.full([rows], length, dtype=int64)
    offsets = aten.cat(
        [
            aten.arange(rows, dtype=int64) * extent + begin,
            (begin[-1:] + count[-1:]) + (rows - 1) * extent,
        ]
    )
    values = tensor.flatten(0, 1)
    return nested_tensor_from_jagged(values, offsets, count)


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """The elements of each row of a dense tensor where ``mask`` holds, as rows."""
    where = mask.expand(tensor.shape)
    rows = [row[keep] for row, keep in zip(tensor.unbind(0), where.unbind(0))]
    return from_list(rows, None, None)
