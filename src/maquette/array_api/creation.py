"""Making arrays, as the array API standard has it.

What is here: the standard's creation functions. They are PyTorch's by other names of parameters;
what differs is said where it does: copies that are asked for or forbidden, steps that lead away.
"""

from __future__ import annotations

from typing import Literal, cast

import numpy as np

from maquette.api import functions as mq
from maquette.array_api.data_types import DType, Number
from maquette.core.device import device as Device
from maquette.core.dtype import complex128, float64, get_default_dtype
from maquette.tensor.interchange import from_dlpack as _from_dlpack
from maquette.tensor.tensor import Tensor

Shape = int | tuple[int, ...]
Place = Device | str | None


def asarray(
    obj: object,
    /,
    *,
    dtype: DType | None = None,
    device: Place = None,
    copy: bool | None = None,
) -> Tensor:
    """An array of numbers, nested sequences, or another array; ``copy=False`` refuses to copy."""
    if copy is False and isinstance(obj, (bool, int, float, complex, list, tuple)):
        raise ValueError("asarray: Python numbers have to be copied; leave out copy=False")
    if isinstance(obj, (list, tuple)):
        obj = _stacked(obj)
    if copy is None and isinstance(obj, np.ndarray) and min(obj.strides, default=0) < 0:
        obj = obj.copy()  # read backwards, as no tensor can be
    grad = getattr(obj, "requires_grad", False)
    made: Tensor = mq.asarray(obj, dtype=dtype, device=device, copy=copy, requires_grad=grad)
    return made


def _stacked(values: list[object] | tuple[object, ...]) -> object:
    """Nested sequences with the arrays among them as numbers."""
    return [
        v.tolist() if isinstance(v, Tensor) else _stacked(v) if isinstance(v, (list, tuple)) else v
        for v in values
    ]


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DType | None = None,
    device: Place = None,
) -> Tensor:
    """Evenly spaced numbers; empty where ``step`` leads away from ``stop``."""
    if stop is None:
        start, stop = 0, start
    if step and (stop - start) / step <= 0:
        numbers = all(isinstance(v, int) for v in (start, stop, step))
        dtype = dtype or (mq.arange(1).dtype if numbers else get_default_dtype())
        return mq.empty((0,), dtype=dtype, device=device)
    return mq.arange(start, stop, step, dtype=dtype, device=device)


def empty(shape: Shape, *, dtype: DType | None = None, device: Place = None) -> Tensor:
    """An array of any values."""
    return mq.empty(_sizes(shape), dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: DType | None = None, device: Place = None) -> Tensor:
    """An array of zeros."""
    return mq.zeros(_sizes(shape), dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: DType | None = None, device: Place = None) -> Tensor:
    """An array of ones."""
    return mq.ones(_sizes(shape), dtype=dtype, device=device)


def full(
    shape: Shape, fill_value: Number, *, dtype: DType | None = None, device: Place = None
) -> Tensor:
    """An array of one number."""
    return mq.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def _sizes(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def empty_like(x: Tensor, /, *, dtype: DType | None = None, device: Place = None) -> Tensor:
    """An array of any values, of the shape of ``x``."""
    return mq.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: DType | None = None, device: Place = None) -> Tensor:
    """Zeros of the shape of ``x``."""
    return mq.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: DType | None = None, device: Place = None) -> Tensor:
    """Ones of the shape of ``x``."""
    return mq.ones_like(x, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: Number, *, dtype: DType | None = None, device: Place = None
) -> Tensor:
    """One number in the shape of ``x``."""
    return mq.full_like(x, fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: Place = None,
) -> Tensor:
    """Zeros with ones on the diagonal that is ``k`` above the main one."""
    n_cols = n_rows if n_cols is None else n_cols
    made: Tensor = mq.zeros((n_rows, n_cols), dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        made.diagonal(k).fill_(1)
    return made


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: Place = None,
    endpoint: bool = True,
) -> Tensor:
    """``num`` evenly spaced numbers, with the last one at ``stop`` where it is the endpoint."""
    if dtype is None:
        dtype = get_default_dtype()
        if isinstance(start, complex) or isinstance(stop, complex):
            dtype = complex128 if dtype is float64 else mq.empty((), dtype=dtype).cfloat().dtype
    if not endpoint:
        return mq.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]
    return mq.linspace(start, stop, num, dtype=dtype, device=device)


def meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> list[Tensor]:
    """Coordinate matrices of coordinate vectors."""
    return list(cast("tuple[Tensor, ...]", mq.meshgrid(*arrays, indexing=indexing)))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The triangle of each matrix below the diagonal ``k``, that included."""
    return mq.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The triangle of each matrix above the diagonal ``k``, that included."""
    return mq.triu(x, k)


def from_dlpack(x: object, /, *, device: Place = None, copy: bool | None = None) -> Tensor:
    """An array over the memory of another library's array, or a copy of it."""
    found: Tensor = _from_dlpack(x, device=device, copy=copy)
    return found
