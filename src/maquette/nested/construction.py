"""Making nested tensors of both layouts: of lists, values and offsets, windows; padding them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from maquette.api.creation import as_tensor
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import int64
from maquette.core.layout import jagged, strided
from maquette.core.layout import layout as Layout
from maquette.dispatch.registry import ops
from maquette.dispatch.tls import tls
from maquette.fake.exceptions import UnsupportedOperatorException
from maquette.nested import operators as _operators
from maquette.nested import reductions as _reductions  # noqa: F401 — registers its operators
from maquette.nested import shapes as _shapes  # noqa: F401 — registers its operators
from maquette.nested import strided_indexing  # noqa: F401  # its operators
from maquette.nested import strided_operators as _strided_operators
from maquette.nested.strided import StridedNestedTensor, dense_rows, from_rows, over_buffer
from maquette.nested.tensor import NestedTensor, carrier, from_values
from maquette.tensor.tensor import Tensor

Place = Device | str | None


def _is_jagged(layout: Layout | None) -> bool:
    """Whether a layout is jagged; None is strided. RuntimeError for any other."""
    if layout not in (None, strided, jagged):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    return layout is jagged


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: Place = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A nested tensor with a copy of the rows, a leaf. layout: ``torch.strided`` by default.

    >>> import maquette as mq
    >>> nested_tensor([mq.tensor([1.0, 2.0]), mq.tensor([3.0])])
    nested_tensor([
      tensor([1., 2.]),
      tensor([3.])
    ])
    """
    made: Tensor
    if _is_jagged(layout):
        rows = [as_tensor(row, dtype=dtype).detach() for row in tensor_list]
        made = from_list(rows, dtype, device)
    else:
        if not isinstance(tensor_list, list):
            raise TypeError(
                f"Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in "
                f"nested_tensor, got {type(tensor_list).__name__}"
            )
        rows = [_row(row, dtype).detach() for row in tensor_list]
        made = _strided_of(rows, dtype, device)
    return made._require_grad() if requires_grad else made


def _row(row: Any, dtype: DType | None) -> Tensor:
    return row if isinstance(row, Tensor) else as_tensor(row, dtype=dtype)


def as_nested_tensor(
    ts: Tensor | Sequence[Tensor],
    dtype: DType | None = None,
    device: Place = None,
    layout: Layout | None = None,
) -> Tensor:
    """A nested tensor of rows, through which gradients flow to them; a nested tensor is itself."""
    if isinstance(ts, (NestedTensor, StridedNestedTensor)):
        if layout is not None and _is_jagged(layout) != isinstance(ts, NestedTensor):
            raise RuntimeError(
                "as_nested_tensor(): Converting between nested tensor layouts is not supported"
            )
        return ts.to(device=device, dtype=dtype)
    if isinstance(ts, Tensor):
        if ts.ndim < 2:
            raise RuntimeError(
                f"as_nested_tensor(): Expected tensor argument to have dim() > 1, got {ts.meta}"
            )
        return _equal_rows(ts.to(device=device, dtype=dtype).contiguous(), _is_jagged(layout))
    rows = [_row(row, dtype) for row in ts]
    if _is_jagged(layout):
        return from_list(rows, dtype, device)
    return _strided_of(rows, dtype, device)


def _equal_rows(t: Tensor, jagged: bool) -> Tensor:
    """A view of a row-major tensor [rows, n, ...] as a nested tensor of rows of equal length."""
    count, length = t.shape[0], t.shape[1]
    if not jagged:
        _refuse_fakes([t])
        made = over_buffer(t.view(-1), dense_rows([tuple(t.shape[1:])] * count))
        if not made.requires_grad:
            made._base, made._vc = t if t._base is None else t._base, t._version_counter()
        return made
    offsets = ops.aten.arange(0, (count + 1) * length, max(length, 1), device=t.device)
    if not length:
        offsets = offsets.new_zeros((count + 1,))
    values = t.flatten(0, 1)
    return nested_tensor_from_jagged(values, offsets, min_seqlen=length, max_seqlen=length)


def _strided_of(rows: Sequence[Tensor], dtype: DType | None, device: Place) -> StridedNestedTensor:
    """A strided nested tensor with a copy of the rows, of the first one's dtype and device."""
    _check_ranks(rows)
    _refuse_fakes(rows)
    if not rows:
        return StridedNestedTensor(ops.aten.empty([0], dtype=dtype, device=device), ())
    where = rows[0].device if device is None else Device(device)
    for row in rows:
        if device is None and row.device != where:
            raise RuntimeError(
                f"Tensor on device {row.device} is not on the expected device {where}!"
            )
    kind = dtype or rows[0].dtype
    return from_rows([row.to(device=where, dtype=kind) for row in rows])


def _refuse_fakes(rows: Sequence[Tensor]) -> None:
    if tls.st.fake_mode is not None or any(row.fake_mode is not None for row in rows):
        raise UnsupportedOperatorException("aten._nested_tensor_from_tensor_list.default")


def _check_ranks(rows: Sequence[Tensor]) -> None:
    for i, (a, b) in enumerate(itertools.pairwise(rows)):
        if a.ndim != b.ndim:
            raise RuntimeError(
                f"All Tensors given to nested_tensor must have the same dimension. Found dimension "
                f"{b.ndim} for Tensor at index {i + 1} and dimension {a.ndim} for Tensor at index "
                f"{i}."
            )


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


def nested_view_from_values_offsets(
    values: Tensor,
    offsets: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """`nested_tensor_from_jagged` by torch's private name."""
    return nested_tensor_from_jagged(values, offsets, None, ragged_idx, min_seqlen, max_seqlen)


def nested_view_from_values_offsets_lengths(
    values: Tensor,
    offsets: Tensor,
    lengths: Tensor | None,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """`nested_tensor_from_jagged` of rows that may have gaps, by torch's private name."""
    return nested_tensor_from_jagged(values, offsets, lengths, ragged_idx, min_seqlen, max_seqlen)


def jagged_from_list(
    tensors: Sequence[Tensor],
    offsets: Tensor | None,
    dtype: DType | None = None,
    device: Place = None,
) -> tuple[Tensor, Tensor]:
    """A jagged tensor of rows, and its offsets: those given, or new ones.

    Tensors made with the same offsets have the same ragged size, so they can be added.
    """
    made = from_list(tensors, dtype, device)
    if offsets is None:
        return made, made._offsets
    same = nested_tensor_from_jagged(
        made.values(), offsets, None, made._ragged_idx, made._min_seqlen, made._max_seqlen
    )
    return same, offsets


def jagged_from_tensor_and_lengths(
    tensor: Tensor, starts: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """A window of each row of a dense [rows, n, ...] tensor, its offsets, and its lengths."""
    made = narrow(tensor, 1, starts, lengths, layout=jagged)
    assert isinstance(made, NestedTensor)
    return made, made._offsets, made._lengths


def buffer_from_jagged(jagged: NestedTensor) -> Tensor:
    """The values of a jagged tensor; gradients flow through."""
    return jagged.values()


def to_padded_tensor(
    input: Tensor, padding: float, output_size: Sequence[int] | None = None
) -> Tensor:
    """A dense tensor of the rows, each filled up to the longest, or to ``output_size``."""
    if isinstance(input, StridedNestedTensor):
        return _strided_operators.padded(input, padding, output_size)
    assert isinstance(input, NestedTensor), f"expected a nested tensor, got {input.meta}"
    return _operators.padded(input, padding, output_size)


def narrow(
    tensor: Tensor,
    dim: int,
    start: int | Tensor,
    length: int | Tensor,
    layout: Layout = strided,
) -> Tensor:
    """A window of each row of a dense [rows, n, ...] tensor.

    Jagged, it is a view without a copy; strided, start and length are numbers.
    """
    if not _is_jagged(layout):
        if not isinstance(start, int) or not isinstance(length, int):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return as_nested_tensor(tensor.narrow(dim, start, length))
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
    values, starts = tensor.flatten(0, 1), offsets.tolist()
    ends = [a + n for a, n in zip(starts, count.tolist())]
    if starts[1:] == ends:  # without gaps
        return nested_tensor_from_jagged(values[starts[0] : ends[-1]], offsets - starts[0])
    return nested_tensor_from_jagged(values, offsets, count)


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """The elements of each row of a dense tensor where ``mask`` holds, as rows."""
    where = mask.expand(tensor.shape)
    rows = [row[keep] for row, keep in zip(tensor.unbind(0), where.unbind(0))]
    return from_list(rows, None, None)


def nested_tensor_from_mask(t: Tensor, mask: Tensor, mask_check: bool = True) -> Tensor:
    """A strided nested tensor of the rows of ``t`` [rows, n, width] where ``mask`` [rows, n] holds.

    mask_check: RuntimeError unless each row's True values come first.
    """
    if t.ndim != 3 or mask.ndim != 2 or tuple(mask.shape) != tuple(t.shape[:2]):
        raise RuntimeError(
            f"_nested_tensor_from_mask: expected an input [rows, n, width] and a mask [rows, n], "
            f"got {t.meta} and {mask.meta}"
        )
    counts = [int(row.sum()) for row in mask.unbind(0)]
    if mask_check and any(not bool(row[:n].all()) for row, n in zip(mask.unbind(0), counts)):
        raise RuntimeError("Expected: Mask is left-aligned: each row's True values come first")
    return from_rows([row[:n] for row, n in zip(t.unbind(0), counts)], t)


def nested_from_padded(
    padded: Tensor, cpu_nested_shape_example: Tensor, fuse_transform_0213: bool = False
) -> Tensor:
    """A strided nested tensor of the corners of padded rows.

    cpu_nested_shape_example: int64 [rows, dimensions], the sizes of the rows. fuse_transform_0213:
    padded is [rows, heads, n, width], its rows become [n, heads * width].
    """
    sizes = [tuple(size) for size in cpu_nested_shape_example.tolist()]
    parts = list(padded.unbind(0))
    if fuse_transform_0213:
        parts = [part.transpose(0, 1).flatten(1) for part in parts]
    rows = [row[tuple([slice(0, n) for n in size])] for row, size in zip(parts, sizes, strict=True)]
    return from_rows(rows, padded)


def nested_from_padded_and_nested_example(padded: Tensor, nt_example: Tensor) -> Tensor:
    """A strided nested tensor of the corners of padded rows, as large as those of an example."""
    assert isinstance(nt_example, StridedNestedTensor), f"expected a nested tensor: {nt_example}"
    return nested_from_padded(padded, nt_example._nested_tensor_size())
