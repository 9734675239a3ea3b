"""Whether two results are equal within what their dtypes allow."""

from __future__ import annotations

from typing import Any

import numpy as np

from maquette.opcheck.framework import Framework, dtype_name

# (rtol, atol) by dtype, PyTorch's of `assert_close`; other dtypes are compared exactly.
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def how_they_differ(
    on: Framework, expected: Any, got: Any, rtol: float | None = None, atol: float | None = None
) -> str:
    """What is wrong with ``got``, a tensor or number; "" if nothing. NaN equals NaN."""
    if not on.is_tensor(expected) or not on.is_tensor(got):
        return "" if _equal(on, expected, got) else f"expected {expected!r}, got {got!r}"
    for fact in ("dtype", "shape"):
        if getattr(expected, fact) != getattr(got, fact):
            return f"{fact} is {getattr(got, fact)}, expected {getattr(expected, fact)}"
    if str(expected.layout) != "torch.strided":
        expected, got = expected.to_dense(), got.to_dense()
    if rtol is None or atol is None:
        rtol, atol = TOLERANCES.get(dtype_name(expected), (0.0, 0.0))
    return difference_of_arrays(on.array(expected), on.array(got), rtol, atol)


def difference_of_arrays(a: Any, b: Any, rtol: float, atol: float) -> str:
    """Where two arrays of one shape differ most, in words; "" where they are close."""
    with np.errstate(all="ignore"):
        if np.allclose(a, b, rtol, atol, equal_nan=True):
            return ""
        off = np.where((a == b) | ((a != a) & (b != b)), 0, np.abs(a.astype("c16") - b))
        off = np.where(np.isnan(off), np.inf, off)
    at = np.unravel_index(int(np.argmax(off)), np.shape(off)) if np.ndim(off) else ()
    place = f" at {[int(i) for i in at]}" if at else ""
    return f"expected {a[at]:.6g}, got {b[at]:.6g}{place}"


def _equal(on: Framework, a: Any, b: Any) -> bool:
    if on.is_tensor(a) or on.is_tensor(b):
        return False
    return bool(a == b or (a != a and b != b))
