"""Tensors of regular values: arange, linspace, logspace, range, eye, indices of triangles.

Counts and bounds are computed as PyTorch does for the dtype of the result: in int64 for it, in
double precision for every other (T33).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.array_libraries import is_array
from maquette.aten.common.axes import Array
from maquette.aten.common.element_types import check_no_bool, check_no_complex
from maquette.aten.common.large_arrays import LARGE
from maquette.aten.common.operators import aten
from maquette.aten.common.tensor_options import Number, cast, new_meta
from maquette.aten.common.type_promotion import check_real_numbers
from maquette.aten.factory.factories import OPTIONS, resized
from maquette.aten.view.copies import write
from maquette.core.device import device as Device
from maquette.core.dtype import (
    default_complex_dtype,
    float32,
    float64,
    from_numpy_dtype,
    int32,
    int64,
)
from maquette.core.dtype import dtype as DType
from maquette.core.errors import check, check_data, check_not_implemented, check_value
from maquette.core.fitting import check_fits
from maquette.core.layout import layout as Layout
from maquette.core.meta import TensorMeta
from maquette.core.promotion import get_default_dtype, number_dtype
from maquette.core.symbols import expect_true, is_true, node_of
from maquette.core.warned import warn
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.library.variants import check_writable
from maquette.tensor.backend import backend_for
from maquette.tensor.tensor import Tensor

Real = bool | int | float
Options = tuple["DType | None", "Layout | None", "Device | None", "bool | None"]


def _range_dtype(dtype: DType | None, *bounds: Real) -> DType:
    check_real_numbers("arange", *bounds)
    if dtype is not None:
        return dtype
    return int64 if all(map(_is_int, bounds)) else get_default_dtype()


def _is_int(bound: Real) -> bool:
    return isinstance(bound, int) or number_dtype(bound) is int64


def _is_finite(bound: Real) -> bool:
    return node_of(bound) is not None or math.isfinite(bound)


def _check_range(start: Real, end: Real, step: Real, kind: DType) -> None:
    whole = kind.category == 1 and node_of(step) is None and math.isfinite(step)
    stride = int(step) if whole else step
    check(step != 0, lambda: "step must be nonzero")
    check_value(stride != 0, lambda: "step must be nonzero")
    check(
        _is_finite(start) and _is_finite(end),
        lambda: f"unsupported range: {start} -> {end}",
    )
    check(
        expect_true(end >= start if stride > 0 else end <= start),
        lambda: "upper bound and lower bound inconsistent with step sign",
    )


def range_count(start: Real, end: Real, step: Real, kind: DType) -> int:
    """How many values ``arange`` has."""
    _check_range(start, end, step, kind)
    if (
        any(node_of(b) is not None for b in (start, end, step))
        and _range_dtype(None, start, end, step) is int64
    ):
        return -((start - end) // step)  # type: ignore[return-value]  # ints, symbolic ones too
    if kind is int64:
        return math.ceil((int(end) - int(start)) / int(step))
    return math.ceil((float(end) - float(start)) / float(step))


_LOOPED = frozenset({"float32", "float64", "int64", "int32"})


def _progression(xp: ModuleType, start: Real, step: Real, count: int, kind: DType) -> Array:
    if kind.category == 1:
        start, step = int(start), int(step)
    loops = backend_for(xp).loops if count >= LARGE and kind.name in _LOOPED else None
    if loops is not None:
        made: Array = loops.progression(start, step, count, kind.numpy)
        return made
    values = xp.arange(count, dtype=xp.int64 if kind.category == 1 else xp.float64)
    if step != 1:
        values *= step
    if step != 1 or start != 0:
        values += start
    return cast(xp, values, kind)


arange = define(f"aten::arange(Scalar end, *, {OPTIONS}) -> Tensor")
arange.describe("The numbers from `start` up to, but without, `end` in steps of `step`: a vector.")
arange_start = define(f"aten::arange.start(Scalar start, Scalar end, *, {OPTIONS}) -> Tensor")
arange_start_step = define(
    f"aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, {OPTIONS}) -> Tensor",
    tags=[Tag.core],
)


def _arange_shape(start: Real, end: Real, step: Real, options: Options) -> TensorMeta:
    dtype, layout, device, _ = options
    kind = _range_dtype(dtype, start, end, step)
    made = new_meta("arange", (range_count(start, end, step, kind),), kind, layout, device)
    _check_countable("arange", made)
    return made


def _check_countable(name: str, made: TensorMeta) -> None:
    """Refuse types without a step, where there are elements."""
    if made.device.type != "meta":
        check_no_bool(f"{name}_cpu", made.dtype)
        check_no_complex(f"{name}_cpu", made.dtype)


def _arange(xp: ModuleType, start: Real, end: Real, step: Real, options: Options) -> Array:
    kind = _range_dtype(options[0], start, end, step)
    return _progression(xp, start, step, range_count(start, end, step, kind), kind)


arange.shape(lambda end, *options: _arange_shape(0, end, 1, options))
arange.kernel(lambda xp, end, *options: _arange(xp, 0, end, 1, options))
arange_start.shape(lambda start, end, *options: _arange_shape(start, end, 1, options))
arange_start.kernel(lambda xp, start, end, *options: _arange(xp, start, end, 1, options))
arange_start_step.shape(lambda start, end, step, *options: _arange_shape(start, end, step, options))
arange_start_step.kernel(
    lambda xp, start, end, step, *options: _arange(xp, start, end, step, options)
)


def _inclusive_count(start: Real, end: Real, step: Real, kind: DType) -> int:
    _check_range(start, end, step, kind)
    return math.floor((float(end) - float(start)) / float(step)) + 1


def _range_shape(start: Real, end: Real, step: Real, options: Options) -> TensorMeta:
    dtype, layout, device, _ = options
    kind = dtype or get_default_dtype()
    made = new_meta("range", (_inclusive_count(start, end, step, kind),), kind, layout, device)
    _check_countable("range", made)
    return made


def _range(xp: ModuleType, start: Real, end: Real, step: Real, options: Options) -> Array:
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end)."
    )
    kind = options[0] or get_default_dtype()
    return _progression(xp, start, step, _inclusive_count(start, end, step, kind), kind)


range_step = define(
    f"aten::range.step(Scalar start, Scalar end, Scalar step=1, *, {OPTIONS}) -> Tensor"
)
range_step.describe(
    "The numbers from `start` to `end`, which is included, in steps of `step`; better use `arange`."
)
range_step.shape(lambda start, end, step, *options: _range_shape(start, end, step, options))
range_step.kernel(lambda xp, start, end, step, *options: _range(xp, start, end, step, options))
inclusive_range = define(f"aten::range(Scalar start, Scalar end, *, {OPTIONS}) -> Tensor")
inclusive_range.shape(lambda start, end, *options: _range_shape(start, end, 1, options))
inclusive_range.kernel(lambda xp, start, end, *options: _range(xp, start, end, 1, options))

# --- a given number of values --------------------------------------------------------


def _spaced(xp: ModuleType, start: Number, end: Number, steps: int, kind: DType) -> Array:
    """Evenly spaced values, each half counted from its own end so that both ends are exact."""
    work = _work_dtype(kind)
    first, last = xp.asarray(start, work), xp.asarray(end, work)
    if steps <= 1:
        return xp.full((steps,), first, work)
    step = (last - first) / xp.asarray(steps - 1, work)
    half = steps // 2
    index = xp.arange(steps - half, dtype=work)
    if xp is not np:
        spaced: Array = xp.concatenate([first + step * index[:half], last - step * index[::-1]])
        return spaced
    out = np.empty(steps, work)
    near, far = out[:half], out[half:]
    np.add(np.multiply(index[:half], step, out=near), first, out=near)
    np.subtract(last, np.multiply(index[::-1], step, out=far), out=far)
    return out


def _work_dtype(kind: DType) -> np.dtype[np.generic]:
    if kind.category == 1 or kind.name == "bool":
        return np.dtype(np.float64)
    return kind.numpy if kind.itemsize >= 4 else float32.numpy


def linspace_values(xp: ModuleType, start: Number, end: Number, steps: int, kind: DType) -> Array:
    if kind.category == 1:
        start, end = _whole(xp, start), _whole(xp, end)
    return cast(xp, _spaced(xp, start, end, steps, kind), kind)


def _whole(xp: ModuleType, bound: Any) -> Any:
    """A bound without its fraction; an array where its value is not known."""
    return xp.trunc(bound.real) if is_array(bound) else int(bound.real)


def logspace_values(
    xp: ModuleType, start: Number, end: Number, steps: int, base: float, kind: DType
) -> Array:
    if kind.category == 1:  # whole bounds, but steps of any size between them
        start, end = _whole(xp, start), _whole(xp, end)
    with np.errstate(all="ignore"):
        exponents = _spaced(xp, start, end, steps, kind)
        if kind.category < 3 and base < 0:
            return cast(xp, xp.power(base, exponents), kind)
        return cast(xp, xp.power(exponents.dtype.type(base), exponents), kind)


def _spaced_dtype(dtype: DType | None, start: object, end: object) -> DType:
    """The default dtype, complex where a bound is."""
    if dtype is not None:
        return dtype
    complex_bound = any(
        b.dtype.is_complex if isinstance(b, TensorMeta) else isinstance(b, complex)
        for b in (start, end)
    )
    return default_complex_dtype() if complex_bound else get_default_dtype()


def _check_spaced(name: str, start: object, end: object, steps: int) -> None:
    _check_bounds(name, start, end)
    check(steps >= 0, lambda: "number of steps must be non-negative")


def _check_bounds(name: str, start: object, end: object) -> None:
    given = [(n, b) for n, b in (("start", start), ("end", end)) if isinstance(b, TensorMeta)]
    if all(b.ndim == 0 for _, b in given):
        return
    found = " and ".join(f"{n} with {b.ndim} dimension(s)" for n, b in given)
    names = " and ".join(n for n, _ in given)
    what = f"{names} tensors" if len(given) == 2 else f"{names} tensor"
    raise RuntimeError(f"{name} only supports 0-dimensional {what}, but got {found}.")


def _check_bounds_have_data(made: TensorMeta, start: object, end: object) -> None:
    for bound in (start, end):
        check(
            not isinstance(bound, TensorMeta)
            or bound.device.type != "meta"
            or made.device.type == "meta",
            lambda: "Tensor.item() cannot be called on meta tensors",
        )


def _check_real(name: str, kind: DType, start: object, end: object) -> None:
    wanted = _spaced_dtype(None, start, end)
    check(
        kind.is_complex or not wanted.is_complex,
        lambda: (
            f"torch.{name}(): inferred dtype {wanted.scalar_name} can't be safely cast to passed "
            f"dtype {kind.scalar_name}"
        ),
    )


def _bound(value: object) -> Number:
    """A bound as a number; the kernel gets a tensor's array."""
    number: Number = value.item() if isinstance(value, np.ndarray) else value  # type: ignore[assignment]  # a number
    return number


def _bound_of(kind: DType, value: object) -> Number:
    """A bound as a number of a type; refused where only a complex number would do."""
    number = _bound(value)
    if not isinstance(number, complex) or kind.is_complex:
        return number
    check_data(
        number.imag == 0,
        lambda: f"value cannot be converted to type {kind.name} without overflow (it is {number})",
    )
    return number.real


Values = Callable[..., Array]


def _spaced_family(name: str, values: Values, extra: str) -> OperatorPage:
    """``linspace`` or ``logspace`` with every mix of numbers and 0-dim tensors, and ``out=``."""
    pages: list[OperatorPage] = []
    mixes = [("", "Scalar", "Scalar"), ("Tensor_Tensor", "Tensor", "Tensor")]
    mixes += [("Tensor_Scalar", "Tensor", "Scalar"), ("Scalar_Tensor", "Scalar", "Tensor")]
    for overload, first, second in mixes:
        bounds = f"{first} start, {second} end, int steps{extra}"
        dot = f".{overload}" if overload else ""
        pages.append(define(f"aten::{name}{dot}({bounds}, *, {OPTIONS}) -> Tensor"))
        _fill_spaced(pages[-1], name, values, count=1 if extra else 0)
        if overload:
            pages[-1].batching_decomposition(_batching[name])
        out = f".{overload}_out" if overload else ".out"
        page = define(
            f"aten::{name}{out}({bounds}, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out]
        )
        _fill_spaced_out(page, name, values)
        if overload:  # bounds may require grad, which is lost
            page.nondifferentiable()
    return pages[0]


def linspace_batching(start: Any, end: Any, steps: int, *options: Any) -> Any:
    return _typed(_between(start, end, steps, options[0]), options)


def logspace_batching(start: Any, end: Any, steps: int, base: float, *options: Any) -> Any:
    return _typed(aten.pow.Scalar(base, _between(start, end, steps, options[0])), options)


_batching = {"linspace": linspace_batching, "logspace": logspace_batching}


def _between(start: Any, end: Any, steps: int, kind: DType | None) -> Any:
    """The values between bounds that may differ over a batch; between whole ones for integers."""
    like = start if isinstance(start, Tensor) else end
    if kind is not None and kind.category == 1:
        first, last = (
            v.double().trunc().unsqueeze(-1) if isinstance(v, Tensor) else int(v)
            for v in (start, end)
        )
        index = aten.arange(steps, dtype=float64, device=like.device)
        return first + index * (last - first) / max(steps - 1, 1)
    part = aten.linspace(0, 1, steps, dtype=float64, device=like.device)
    first, last = (v.unsqueeze(-1) if isinstance(v, Tensor) else v for v in (start, end))
    return first * (1 - part) + last * part


def _typed(values: Tensor, options: Sequence[Any]) -> Tensor:
    return values.to(options[0] or get_default_dtype())


def _fill_spaced(page: OperatorPage, name: str, values: Values, *, count: int) -> None:
    page.any_device()
    page.nondifferentiable()

    @page.shape
    def shape(start: object, end: object, steps: int, *rest: object) -> TensorMeta:
        _check_spaced(name, start, end, steps)
        dtype, layout, device, _ = rest[count:]
        kind = _spaced_dtype(dtype, start, end)  # type: ignore[arg-type]  # by the schema
        made = new_meta(name, (steps,), kind, layout, device)  # type: ignore[arg-type]  # as above
        if made.device.type != "meta" and not is_true(made.numel <= 1):
            check_no_bool(f"{name}_cpu", kind)
        _check_bounds_have_data(made, start, end)
        _check_real(name, kind, start, end)
        return made

    @page.kernel
    def kernel(xp: ModuleType, start: object, end: object, steps: int, *rest: object) -> Array:
        first, last = _bound(start), _bound(end)
        kind = _spaced_dtype(rest[count], first, last)  # type: ignore[arg-type]  # by the schema
        return values(xp, first, last, steps, *rest[:count], kind)


def _fill_spaced_out(page: OperatorPage, name: str, values: Values) -> None:
    @page.shape
    def shape(start: object, end: object, steps: int, *rest: object) -> TensorMeta:
        _check_spaced(name, start, end, steps)
        out = rest[-1]
        assert isinstance(out, TensorMeta)
        for bound in (start, end):
            if isinstance(bound, complex):
                check_fits(bound, out.dtype)
        made = out if is_true(out.numel == steps) else resized(out, (steps,))
        check_writable(name, made)
        return made

    @page.kernel
    def kernel(xp: ModuleType, start: object, end: object, steps: int, *rest: object) -> None:
        out = rest[-1]
        assert is_array(out)
        kind = from_numpy_dtype(out.dtype)
        first, last = _bound_of(kind, start), _bound_of(kind, end)
        found = values(xp, first, last, steps, *rest[:-1], kind)
        write(xp, out, found.reshape(out.shape))


linspace = _spaced_family("linspace", linspace_values, "")
linspace.describe(
    "`steps` numbers from `start` to `end`, both included, at equal distances: a vector."
)
logspace = _spaced_family("logspace", logspace_values, ", float base=10.")
logspace.describe(
    "`base` to the power of `steps` numbers from `start` to `end` at equal distances: a vector."
)

# --- into a given tensor -------------------------------------------------------------


def _range_out(
    schema: str, count: Callable[..., int], full: Callable[..., tuple[Real, ...]]
) -> None:
    page = define(schema, tags=[Tag.out])

    @page.shape
    def shape(*params: object) -> TensorMeta:
        out = params[-1]
        assert isinstance(out, TensorMeta)
        length = count(*full(*params[:-1]), out.dtype)
        # A tensor of the right number of elements is filled as it is.
        made = out if is_true(out.numel == length) else resized(out, (length,))
        check_writable(page.op._opname, made)
        return made

    @page.kernel
    def kernel(xp: ModuleType, *params: object) -> None:
        out = params[-1]
        assert is_array(out)
        start, end, step = full(*params[:-1])
        kind = from_numpy_dtype(out.dtype)
        length = count(start, end, step, kind)
        write(xp, out, _progression(xp, start, step, length, kind).reshape(out.shape))


_range_out(
    "aten::arange.start_out(Scalar start, Scalar end, Scalar step=1, *, Tensor(a!) out) "
    "-> Tensor(a!)",
    range_count,
    lambda start, end, step: (start, end, step),
)
_range_out(
    "aten::arange.out(Scalar end, *, Tensor(a!) out) -> Tensor(a!)",
    range_count,
    lambda end: (0, end, 1),
)
_range_out(
    "aten::range.out(Scalar start, Scalar end, Scalar step=1, *, Tensor(a!) out) -> Tensor(a!)",
    _inclusive_count,
    lambda start, end, step: (start, end, step),
)

# --- matrices ------------------------------------------------------------------------

eye = define(f"aten::eye(SymInt n, *, {OPTIONS}) -> Tensor")
eye.describe("The identity matrix of `n` rows and `m` columns, by default as many.")
eye_m = define(f"aten::eye.m(SymInt n, SymInt m, *, {OPTIONS}) -> Tensor")
eye_out = define("aten::eye.out(SymInt n, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out])
eye_m_out = define(
    "aten::eye.m_out(SymInt n, SymInt m, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out]
)


def _check_eye(n: int, m: int) -> tuple[int, int]:
    check(n >= 0, lambda: f"n must be greater or equal to 0, got {n}")
    check(m >= 0, lambda: f"m must be greater or equal to 0, got {m}")
    return n, m


def _eye_shape(n: int, m: int, options: Options) -> TensorMeta:
    dtype, layout, device, _ = options
    return new_meta("eye", _check_eye(n, m), dtype, layout, device)


def _eye(xp: ModuleType, n: int, m: int, dtype: DType | None) -> Array:
    made: Array = xp.eye(n, m, dtype=(dtype or get_default_dtype()).numpy)
    return made


eye.shape(lambda n, *options: _eye_shape(n, n, options))
eye.kernel(lambda xp, n, dtype, *options: _eye(xp, n, n, dtype))
eye_m.shape(lambda n, m, *options: _eye_shape(n, m, options))
eye_m.kernel(lambda xp, n, m, dtype, *options: _eye(xp, n, m, dtype))
eye_out.shape(lambda n, out: resized(out, _check_eye(n, n)))
eye_out.kernel(lambda xp, n, out: write(xp, out, _eye(xp, n, n, None)))
eye_m_out.shape(lambda n, m, out: resized(out, _check_eye(n, m)))
eye_m_out.kernel(lambda xp, n, m, out: write(xp, out, _eye(xp, n, m, None)))

_TRIANGLE_OPTIONS = OPTIONS.replace("ScalarType? dtype=None", "ScalarType? dtype=4")


def _on_or_below(row: int, col: int, offset: int) -> int:
    """How many elements of a matrix are on a diagonal or below it."""
    first = min(max(-offset, 0), row)  # the first row that has one
    whole = min(max(col - offset - 1, first), row)  # the first that has as many as it can
    growing = (whole - first) * (first + whole + 2 * offset + 1) // 2  # one more in each row
    return growing + (row - whole) * col


def _places(xp: ModuleType, row: int, col: int, offset: int, *, lower: bool) -> Array:
    """Rows and columns of a triangle, row by row."""
    diagonal = xp.arange(row) + offset
    first = xp.zeros_like(diagonal) if lower else xp.clip(diagonal, 0, col)
    counts = xp.clip(diagonal + 1, 0, col) if lower else col - first
    total = int(counts.sum())
    loops = backend_for(xp).loops if xp is np and total >= LARGE else None
    if loops is not None:
        filled: Array = loops.triangle_places(first, counts, total)
        return filled
    before = xp.cumsum(counts) - counts
    columns = xp.repeat(first - before, counts)
    return xp.stack([xp.repeat(xp.arange(row), counts), columns + xp.arange(total)])


def _triangle(name: str) -> OperatorPage:
    page = define(f"aten::{name}(int row, int col, int offset=0, *, {_TRIANGLE_OPTIONS}) -> Tensor")

    @page.shape
    def shape(
        row: int,
        col: int,
        offset: int,
        dtype: DType | None,
        layout: Layout | None,
        device: Device | None,
        pin_memory: bool | None,
    ) -> TensorMeta:
        check(row >= 0, lambda: f"row must be non-negative, got{row}")
        check(col >= 0, lambda: f"col must be non-negative, got{col}")
        check_not_implemented(
            dtype in (None, int32, int64),
            lambda: f"\"{name}\" not implemented for '{dtype}'; use int32 or int64",
        )
        below = _on_or_below(row, col, offset)
        above = row * col - _on_or_below(row, col, offset - 1)
        count = below if name == "tril_indices" else above
        return new_meta(name, (2, count), dtype or int64, layout, device)

    @page.kernel
    def kernel(
        xp: ModuleType, row: int, col: int, offset: int, dtype: DType | None, *options: object
    ) -> Array:
        both = _places(xp, row, col, offset, lower=name == "tril_indices")
        return cast(xp, both, dtype or int64)

    return page


tril_indices = _triangle("tril_indices")
tril_indices.describe(
    "Rows and columns of the lower triangle of a matrix: int64, of shape [2, count]."
)
triu_indices = _triangle("triu_indices")
triu_indices.describe(
    "Rows and columns of the upper triangle of a matrix: int64, of shape [2, count]."
)
