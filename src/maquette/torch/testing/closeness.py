"""`assert_close`: equal within a tolerance that suits the dtypes, or an error that shows where not.

Values are compared as NumPy arrays, so modes see nothing of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from maquette.api.creation import tensor
from maquette.core.dtype import (
    bfloat16,
    complex32,
    complex64,
    complex128,
    dtype,
    float16,
    float32,
    float64,
    promote_types,
)
from maquette.core.layout import (
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from maquette.tensor.printing import array_of
from maquette.tensor.sparse import nnz_of, parts_of, tensors_of
from maquette.tensor.tensor import Tensor, from_array

Array = npt.NDArray[np.generic]
Message = str | Callable[[str], str] | None

# (rtol, atol): PyTorch's, of which users' tests speak; other dtypes are compared exactly.
_TOLERANCES = {
    float16: (1e-3, 1e-5),
    bfloat16: (1.6e-2, 1e-5),
    float32: (1.3e-6, 1e-5),
    float64: (1e-7, 1e-7),
    complex32: (1e-3, 1e-5),
    complex64: (1.3e-6, 1e-5),
    complex128: (1e-7, 1e-7),
}


class Rules(NamedTuple):
    """What counts as close."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def tolerances(self, *kinds: dtype) -> tuple[float, float]:
        """Those given, else the largest that the dtypes have."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        known = [_TOLERANCES.get(kind, (0.0, 0.0)) for kind in kinds]
        return max(r for r, _ in known), max(a for _, a in known)


def assert_close(
    actual: object,
    expected: object,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Tensors, arrays, numbers, and sequences and mappings of them. Shapes must be equal, dtype,
    device and layout too unless told otherwise. rtol and atol go together (ValueError); by default
    they are those of the dtypes. msg replaces the error's text, or is called with it.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"rtol and atol go together: both or neither; got {rtol} and {atol}")
    rules = Rules(rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride)
    try:
        _compare(actual, expected, rules, "", allow_subclasses)
    except AssertionError as error:
        if msg is None:
            raise
        raise AssertionError(msg(str(error)) if callable(msg) else msg) from None


# (rtol, atol) of `assert_allclose`, which are wider; other dtypes are compared exactly.
_WIDE = {float16: (1e-3, 1e-3), float32: (1e-4, 1e-5), float64: (1e-5, 1e-8)}


def assert_allclose(
    actual: object,
    expected: object,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The old `assert_close` of tensors: wider tolerances, NaN equals NaN, of any dtypes.

    Deprecated in PyTorch too. AssertionError, or ValueError for one tolerance without the other.
    """
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated. Use `torch.testing.assert_close()`.",
        FutureWarning,
        stacklevel=2,
    )
    a = actual if isinstance(actual, Tensor) else tensor(actual)
    b = expected if isinstance(expected, Tensor) else tensor(expected, dtype=a.dtype)
    if rtol is None and atol is None:
        allowed = [_WIDE.get(t.dtype, (0.0, 0.0)) for t in (a, b)]
        rtol, atol = max(r for r, _ in allowed), max(absolute for _, absolute in allowed)
    assert_close(
        a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None
    )


def _compare(
    actual: object, expected: object, rules: Rules, place: str, allow_subclasses: bool
) -> None:
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        _fail_unless(
            actual.keys() == expected.keys(),
            lambda: (
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {_sorted(expected.keys() - actual.keys())}\n"
                f"Additional keys in the actual mapping: {_sorted(actual.keys() - expected.keys())}"
            ),
            place,
        )
        for key in actual:
            inner = f"{place}[{key!r}]"
            _compare(actual[key], expected[key], rules, inner, allow_subclasses)
    elif _is_sequence(actual) and _is_sequence(expected):
        _compare_sequences(actual, expected, rules, place, allow_subclasses)
    else:
        _compare_values(actual, expected, rules, place, allow_subclasses)


def _sorted(keys: Set[object]) -> list[object]:
    return sorted(keys, key=repr)


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _compare_sequences(
    actual: object, expected: object, rules: Rules, place: str, allow_subclasses: bool
) -> None:
    assert isinstance(actual, Sequence)
    assert isinstance(expected, Sequence)
    _fail_unless(
        len(actual) == len(expected),
        lambda: f"The length of the sequences mismatch: {len(actual)} != {len(expected)}",
        place,
    )
    for i, (a, b) in enumerate(zip(actual, expected)):
        _compare(a, b, rules, f"{place}[{i}]", allow_subclasses)


_BOOLS = (bool, np.bool_)
_NUMBERS = (int, float, complex, np.number)


def _compare_values(
    actual: object, expected: object, rules: Rules, place: str, allow_subclasses: bool
) -> None:
    if actual is None or expected is None:
        _fail_unless(
            actual is expected, lambda: f"None mismatch: {actual} is not {expected}", place
        )
        return
    if isinstance(actual, _BOOLS) and isinstance(expected, _BOOLS):
        _fail_unless(
            actual == expected, lambda: f"Booleans mismatch: {actual} is not {expected}", place
        )
        return
    if isinstance(actual, _NUMBERS) and isinstance(expected, _NUMBERS):
        _compare_numbers(_plain(actual), _plain(expected), rules, place)
        return
    # An array is no tensor: who compares the two has forgotten to convert one.
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if not related or (not allow_subclasses and type(actual) is not type(expected)):
        raise _incomparable(actual, expected, place)
    try:
        a, b = _tensor(actual), _tensor(expected)
    except (TypeError, ValueError):
        raise _incomparable(actual, expected, place) from None
    _compare_metas(a, b, rules, place)
    if a.device.type == b.device.type == "meta":
        return  # there are no values
    if a.layout is b.layout is not strided:
        _compare_sparse(a, b, rules, place)
    else:
        _compare_parts(_dense(a), _dense(b), rules, place, "Tensor-likes")


def _dense(t: Tensor) -> Tensor:
    return t if t.layout is strided else t.to_dense()


def _compare_parts(a: Tensor, b: Tensor, rules: Rules, place: str, what: str) -> None:
    kinds = a.dtype, b.dtype
    common = a.dtype if kinds[0] is kinds[1] else promote_types(*kinds)
    _compare_arrays(_array(a), _array(b), common, rules.tolerances(*kinds), rules, place, what)


def _compare_sparse(a: Tensor, b: Tensor, rules: Rules, place: str) -> None:
    """Part by part: where elements are, in full, and what they are, within the tolerance."""
    name = str(a.layout).rpartition("_")[2].upper()
    if a.layout is sparse_coo:
        _fail_unless(
            a.sparse_dim() == b.sparse_dim(),
            lambda: (
                f"The number of sparse dimensions in sparse COO tensors does not match: "
                f"{a.sparse_dim()} != {b.sparse_dim()}"
            ),
            place,
        )
        if a.is_coalesced() is not b.is_coalesced():
            a, b = a.coalesce(), b.coalesce()
    counts = nnz_of(a), nnz_of(b)
    _fail_unless(
        counts[0] == counts[1],
        lambda: (
            f"The number of specified values in sparse {name} tensors does not match: "
            f"{counts[0]} != {counts[1]}"
        ),
        place,
    )
    exact = rules._replace(rtol=0.0, atol=0.0, check_dtype=False)
    *places, values = zip(tensors_of(parts_of(a)), tensors_of(parts_of(b)), strict=True)
    names = _PARTS[a.layout]
    for part, (mine, other) in zip(names, places, strict=True):
        _compare_parts(mine, other, exact, place, f"Sparse {name} {part}")
    _compare_parts(*values, rules, place, f"Sparse {name} values")


_BY_ROWS, _BY_COLUMNS = ("crow_indices", "col_indices"), ("ccol_indices", "row_indices")
_PARTS = {
    sparse_coo: ("indices",),
    sparse_csr: _BY_ROWS,
    sparse_bsr: _BY_ROWS,
    sparse_csc: _BY_COLUMNS,
    sparse_bsc: _BY_COLUMNS,
}


def _compare_numbers(actual: complex, expected: complex, rules: Rules, place: str) -> None:
    kind = type(actual) if type(actual) is type(expected) else None
    if rules.check_dtype and kind is None:
        raise AssertionError(
            f"The (d)types do not match: {type(actual)} != {type(expected)}.{_at(place)}"
        )
    wide = {float: float64, complex: complex128}
    kinds = [wide[type(v)] for v in (actual, expected) if type(v) in wide]
    rtol, atol = rules.tolerances(*kinds) if kinds else (rules.rtol or 0.0, rules.atol or 0.0)
    close = np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=rules.equal_nan)
    _fail_unless(
        bool(close),
        lambda: (
            f"Scalars are not {'equal' if rtol == atol == 0 else 'close'}!\n\n"
            f"Expected {expected} but got {actual}.\n"
            f"Absolute difference: {abs(actual - expected)}{_allowed(atol, rtol or atol)}\n"
            f"Relative difference: {_ratio(actual, expected)}{_allowed(rtol, rtol or atol)}"
        ),
        place,
    )


def _ratio(actual: complex, expected: complex) -> float:
    return abs(actual - expected) / abs(expected) if expected else float("inf")


def _plain(value: complex | np.number[Any]) -> complex:
    """A number of Python's own; an array's number is of a class beside it."""
    return cast(complex, value.item()) if isinstance(value, np.generic) else value


def _tensor(value: object) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray):
        return from_array(value)
    raise TypeError(f"{type(value).__name__} is neither tensor nor array")


def _incomparable(actual: object, expected: object, place: str) -> TypeError:
    return TypeError(
        f"No comparison pair was able to handle inputs of type {type(actual)} and "
        f"{type(expected)}.{_at(place)}"
    )


def _allowed(tolerance: float, either: float) -> str:
    """What is added to a difference; nothing where values are to be equal."""
    return f" (up to {tolerance} allowed)" if either else ""


def _array(t: Tensor) -> Array:
    array = array_of(t)
    if array is None:
        raise NotImplementedError(f"assert_close compares values, and {t} has none")
    return array


def _compare_metas(a: Tensor, b: Tensor, rules: Rules, place: str) -> None:
    checks: tuple[tuple[bool, str, object, object], ...] = (
        (True, "shape", tuple(a.shape), tuple(b.shape)),
        (rules.check_device, "device", a.device, b.device),
        (rules.check_dtype, "dtype", a.dtype, b.dtype),
        (rules.check_layout, "layout", a.layout, b.layout),
    )
    if rules.check_stride:
        checks += ((True, "stride()", a.stride(), b.stride()),)
    for asked, name, mine, other in checks:
        if asked and mine != other:
            what = f"The values for attribute '{name}' do not match: {mine} != {other}."
            raise AssertionError(what + _at(place))


def _compare_arrays(
    a: Array,
    b: Array,
    common: dtype,
    tolerances: tuple[float, float],
    rules: Rules,
    place: str,
    what: str,
) -> None:
    rtol, atol = tolerances
    if common.category < 2:
        wrong = a != b if rtol == atol == 0 else _far(a, b, rtol, atol, rules.equal_nan)
    else:
        wide = np.complex128 if common.is_complex else np.float64
        a, b = a.astype(wide), b.astype(wide)
        wrong = _far(a, b, rtol, atol, rules.equal_nan)
    if np.any(wrong):
        raise AssertionError(
            _mismatch(a, b, np.asarray(wrong), common, rtol, atol, what) + _at(place)
        )


def _far(a: Array, b: Array, rtol: float, atol: float, equal_nan: bool) -> npt.NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        return ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def _mismatch(
    a: Array,
    b: Array,
    wrong: npt.NDArray[np.bool_],
    kind: dtype,
    rtol: float,
    atol: float,
    what: str,
) -> str:
    heading = "equal" if rtol == atol == 0 else "close"
    count, size = int(wrong.sum()), wrong.size
    with np.errstate(all="ignore"):
        if what == "Tensor-likes" and kind in (float32, complex64):  # told as they are
            a, b = (part.astype(np.complex64 if kind.is_complex else np.float32) for part in (a, b))
        distance = _distance(a, b)
        absolute = np.where(wrong, distance, -1)
        relative = np.where(wrong, distance / np.abs(b), -1.0)
    if a.ndim == 0:
        return (
            f"Scalars are not {heading}!\n\nExpected {b} but got {a}.\n"
            f"Absolute difference: {absolute}{_allowed(atol, rtol or atol)}\n"
            f"Relative difference: {relative}{_allowed(rtol, rtol or atol)}"
        )
    return (
        f"{what} are not {heading}!\n\n"
        f"Mismatched elements: {count} / {size} ({100 * count / size:.1f}%)\n"
        f"Greatest absolute difference: {_greatest(absolute)}{_allowed(atol, rtol or atol)}\n"
        f"Greatest relative difference: {_greatest(relative)}{_allowed(rtol, rtol or atol)}"
    )


def _distance(a: Array, b: Array) -> Array:
    """How far elements are from each other: integers as int64, which has no last bit to lose."""
    if a.dtype.kind in "biu" and a.dtype != np.uint64:
        return np.abs(np.subtract(a, b, dtype=np.int64))
    return np.abs(np.subtract(a, b))


def _greatest(difference: Array) -> str:
    at = np.unravel_index(np.argmax(difference), difference.shape)
    return f"{difference[at].item()} at index {tuple(int(i) for i in at)}"


def _at(place: str) -> str:
    return f"\n\nThe failure occurred for item {place}" if place else ""


def _fail_unless(passed: bool, text: Callable[[], str], place: str) -> None:
    if not passed:
        raise AssertionError(text() + _at(place))
