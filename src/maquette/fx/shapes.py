"""`TensorMetadata`: what a graph's node says of a tensor, beside its fake."""

from __future__ import annotations

from typing import Any, NamedTuple

from maquette.core.dtype import dtype
from maquette.core.layout import channels_last, channels_last_3d, contiguous_format, memory_format
from maquette.core.meta import TensorMeta
from maquette.core.size import Size
from maquette.dispatch.keysets import REQUIRES_GRAD
from maquette.fx.compatibility import compatibility
from maquette.tensor.tensor import Tensor


@compatibility(is_backward_compatible=True)
class TensorMetadata(NamedTuple):
    """Shape, dtype and strides of a result, and the memory format that these are, if any."""

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


Known = dict[tuple[TensorMeta, bool], TensorMetadata]
_known: Known = {}
_MOST = 65536
_FORMATS = (contiguous_format, channels_last, channels_last_3d)


def tensor_metadata(t: Tensor, of_trace: Known | None = None) -> TensorMetadata:
    """The `TensorMetadata` of a tensor.

    of_trace: where those of symbolic metas are remembered, which belong to an environment.
    """
    return metadata_of(t.meta, of_trace, requires_grad=bool(t._keys & REQUIRES_GRAD))


def metadata_of(
    meta: TensorMeta, of_trace: Known | None = None, *, requires_grad: bool
) -> TensorMetadata:
    """`tensor_metadata` of a tensor of this meta."""
    key = (meta, requires_grad)
    known = _known
    if meta.is_symbolic:
        known = {} if of_trace is None else of_trace
    found = known.get(key)
    if found is None:
        if len(known) >= _MOST:
            known.clear()
        # To compare symbols would guard.
        found = known[key] = _made(*key, formats=() if meta.is_symbolic else _FORMATS)
    return found


_extract_tensor_metadata = tensor_metadata


def _made(
    meta: TensorMeta, requires_grad: bool, formats: tuple[memory_format, ...] = _FORMATS
) -> TensorMetadata:
    ranks = {channels_last: 4, channels_last_3d: 5}
    fitting = (
        f for f in formats if ranks.get(f, meta.ndim) == meta.ndim and meta.is_contiguous_in(f)
    )
    return TensorMetadata(
        meta.size, meta.dtype, requires_grad, meta.strides, next(fitting, None), False, {}
    )
