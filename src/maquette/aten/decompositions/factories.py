"""Factories by `full`, `empty` and a range; filling."""

from __future__ import annotations

import math
from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.decompositions.rules import Ints, decomposes
from maquette.core.dtype import float64, int64
from maquette.core.promotion import get_default_dtype

_NAMES = ("dtype", "layout", "device", "pin_memory")


def _options(values: tuple[Any, ...]) -> dict[str, Any]:
    return {n: v for n, v in zip(_NAMES, values) if v is not None}


def _full(size: Ints, value: Any, options: tuple[Any, ...]) -> Any:
    said = _options(options)
    return aten.full(list(size), value, **{"dtype": get_default_dtype(), **said})


@decomposes("zeros", wide=False)
def zeros(size: Ints, *options: Any) -> Any:
    return _full(size, 0, options)


@decomposes("ones", wide=False)
def ones(size: Ints, *options: Any) -> Any:
    return _full(size, 1, options)


@decomposes("zeros_like", wide=False)
def zeros_like(self: Any, *options: Any) -> Any:
    return aten.full_like(self, 0, **_options(options[:4]), memory_format=options[4])


@decomposes("ones_like", wide=False)
def ones_like(self: Any, *options: Any) -> Any:
    return aten.full_like(self, 1, **_options(options[:4]), memory_format=options[4])


@decomposes("new_full", wide=False)
def new_full(self: Any, size: Ints, value: Any, *options: Any) -> Any:
    said = {"dtype": self.dtype, "device": self.device, **_options(options)}
    return aten.full(list(size), value, **said)


@decomposes("new_zeros", wide=False)
def new_zeros(self: Any, size: Ints, *options: Any) -> Any:
    return new_full(self, size, 0, *options)


@decomposes("new_ones", wide=False)
def new_ones(self: Any, size: Ints, *options: Any) -> Any:
    return new_full(self, size, 1, *options)


@decomposes("new_empty", wide=False)
def new_empty(self: Any, size: Ints, *options: Any) -> Any:
    said = {"dtype": self.dtype, "device": self.device, **_options(options)}
    return aten.empty(list(size), **said)


@decomposes("empty_like", wide=False)
def empty_like(self: Any, *options: Any) -> Any:
    said = {"dtype": self.dtype, "device": self.device, **_options(options[:4])}
    return aten.empty(list(self.shape), **said)


@decomposes("fill.Scalar", wide=False)
def fill_scalar(self: Any, value: Any) -> Any:
    return aten.full_like(self, value)


@decomposes("fill.Tensor", wide=False)
def fill_tensor(self: Any, value: Any) -> Any:
    return aten.copy(self, value)


@decomposes("zero", wide=False)
def zero(self: Any) -> Any:
    return aten.full_like(self, 0)


@decomposes("arange", wide=False)
def arange(end: Any, *options: Any) -> Any:
    return aten.arange(0, end, 1, **_options(options))


@decomposes("arange.start", wide=False)
def arange_start(start: Any, end: Any, *options: Any) -> Any:
    return aten.arange(start, end, 1, **_options(options))


@decomposes("eye", wide=False)
def eye(n: int, *options: Any) -> Any:
    return eye_m(n, n, *options)


@decomposes("eye.m", wide=False)
def eye_m(n: int, m: int, *options: Any) -> Any:
    said = _options(options)
    where = {"device": said["device"]} if "device" in said else {}
    rows, columns = aten.arange(n, **where), aten.arange(m, **where)
    here = rows.unsqueeze(-1) == columns
    return aten._to_copy(here, dtype=said.get("dtype", get_default_dtype()))


@decomposes(
    "linspace", "linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor",
    wide=False,
)  # fmt: skip
def linspace(start: Any, end: Any, steps: int, *options: Any) -> Any:
    """From both ends towards the middle, so that both are met exactly."""
    said = _options(options)
    where = {"device": said["device"]} if "device" in said else {}
    index = aten.arange(steps, dtype=int64, **where)
    if steps < 2:
        return aten.add(aten._to_copy(index, dtype=float64), start)
    step = (end - start) / (steps - 1)
    numbers = (start, end, step)
    kind = next((x.dtype for x in numbers if hasattr(x, "dtype") and x.is_complex()), float64)
    first = aten._to_copy(index, dtype=kind) * step + start
    last = end - aten._to_copy(steps - 1 - index, dtype=kind) * step
    return aten.where(index < (steps + 1) // 2, first, last)


@decomposes(
    "logspace", "logspace.Tensor_Tensor", "logspace.Tensor_Scalar", "logspace.Scalar_Tensor",
    wide=False,
)  # fmt: skip
def logspace(start: Any, end: Any, steps: int, base: float, *options: Any) -> Any:
    said = (None, *options[1:])
    return aten.pow(base, linspace(start, end, steps, *said))


@decomposes("hann_window", wide=False)
def hann_window(window_length: int, *options: Any) -> Any:
    return hann_window_periodic(window_length, True, *options)


@decomposes("hann_window.periodic", wide=False)
def hann_window_periodic(window_length: int, periodic: bool, *options: Any) -> Any:
    said = _options(options)
    where = {"device": said["device"]} if "device" in said else {}
    if window_length < 2:
        return aten.ones([window_length], **where)
    count = window_length if periodic else window_length - 1
    index = aten.arange(window_length, dtype=float64, **where)
    return 0.5 - 0.5 * aten.cos(index * (2 * math.pi / count))
