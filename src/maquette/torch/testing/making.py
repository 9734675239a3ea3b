"""`torch.testing.make_tensor`: tensors of random values to test with."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import maquette as mq
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as Dtype
from maquette.core.layout import memory_format as MemoryFormat
from maquette.tensor.tensor import Tensor

_SMALL_FLOATS = 1 << 8  # below it every number of this many steps is exact in a half


def make_tensor(
    *shape: int | Sequence[int],
    dtype: Dtype,
    device: Device | str | None,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """A tensor of random values from ``[low, high)``, uniform; of a bool dtype, from both.

    low, high: for floats and complex parts -9 and 9, for signed integers -9 and 10, for uint8 0 and
    10, unless given; they are kept within what the dtype can hold. exclude_zero: zeros become the
    least positive number (1 for integers). noncontiguous: every other element of a larger tensor.
    Raises ValueError for bounds that hold nothing, or flags that contradict each other.
    """
    sizes = _sizes(shape)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, got "
            f"{noncontiguous=} and {memory_format=}"
        )
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got "
            f"{dtype=}"
        )
    drawn = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes else sizes
    made = _drawn(drawn, dtype, None if device is None else Device(str(device)), low, high)
    if noncontiguous and sizes:
        made = made[..., 1::2]
    elif memory_format is not None:
        made = made.clone(memory_format=memory_format)
    if exclude_zero:
        made[made == 0] = 1 if not _is_float(dtype) else mq.finfo(dtype).tiny
    return made.requires_grad_(requires_grad) if requires_grad else made


def _sizes(shape: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    if len(shape) == 1 and not isinstance(shape[0], int):
        return tuple(shape[0])
    return tuple(n for n in shape if isinstance(n, int))


def _is_float(kind: Dtype) -> bool:
    return kind.is_floating_point or kind.is_complex


def _drawn(
    sizes: tuple[int, ...], kind: Dtype, where: Device | None, low: float | None, high: float | None
) -> Tensor:
    if kind is mq.bool:
        low, high = _bounds(kind, low, high, 0, 2, 0, 2)
        return mq.randint(int(low), int(high), sizes, dtype=kind, device=where)
    if not _is_float(kind):
        info = mq.iinfo(kind)
        least = 0 if info.min == 0 else -9
        low, high = _bounds(kind, low, high, least, 10, info.min, info.max + 1)
        first, last = math.ceil(low), math.ceil(high)
        return mq.randint(first, min(last, 2**63 - 1), sizes, dtype=kind, device=where)
    limits = mq.finfo(kind)
    low, high = _bounds(kind, low, high, -9, 9, limits.min, limits.max)
    made = mq.empty(sizes, dtype=kind if kind.itemsize > 1 else mq.float32, device=where)
    filled = mq.view_as_real(made) if kind.is_complex else made
    if high - low > mq.finfo(filled.dtype).max:  # wider than `uniform_` draws from
        filled.uniform_(low / 2, high / 2).mul_(2)
    else:
        filled.uniform_(low, high)
    return made.to(kind)


def _bounds(
    kind: Dtype,
    low: float | None,
    high: float | None,
    low_default: float,
    high_default: float,
    least: float,
    most: float,
) -> tuple[float, float]:
    low = low_default if low is None else low
    high = high_default if high is None else high
    if low != low or high != high:  # an int may be too large for `isnan`
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and _is_float(kind):
        warnings.warn(
            f"Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is "
            f"deprecated: all elements are {low}; `torch.full` makes such a tensor",
            FutureWarning,
            stacklevel=4,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if high < least or low > most:
        raise ValueError(f"no {kind} lies between {low} and {high}: it holds {least} to {most}")
    low, high = max(low, least), min(high, most)
    return low, high if _is_float(kind) else max(high, low + 1)
