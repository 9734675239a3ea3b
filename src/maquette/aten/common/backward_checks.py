"""Checks that shape rules of backward operators share: sizes and element types of gradients.

Programs reach these operators through derivative formulas, which fit; who calls one directly is
refused here, in words, before a kernel meets arrays that do not fit.
"""

from __future__ import annotations

from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike, expect_true


def check_sizes(name: str, what: str, given: TensorMeta | None, shape: tuple[int, ...]) -> None:
    """Refuse a tensor of another shape; None was not given and passes."""
    check(
        given is None or expect_alike(given.shape, tuple(shape)),
        lambda: f"{name}: expected {what} of shape {list(shape)}, got {given}",
    )


def check_gradient_dtype(name: str, grad: TensorMeta, self: TensorMeta) -> None:
    """Refuse a gradient of another dtype than the tensor that it is by."""
    check(
        grad.dtype is self.dtype,
        lambda: f"{name}: expected a gradient of the input's dtype, {self.dtype}; got {grad}",
    )


def check_count(name: str, what: str, given: TensorMeta | None, count: int) -> None:
    """Refuse a tensor of another number of elements."""
    check(
        given is None or expect_true(given.numel == count),
        lambda: f"{name}: expected {what} of {count} elements, got {given}",
    )


def check_numbers(name: str, *metas: TensorMeta | None) -> None:
    """Refuse booleans, which have no differences."""
    for meta in metas:
        check_not_implemented(
            meta is None or meta.dtype.category > 0,
            lambda: f"\"{name}\" not implemented for 'Bool'",
        )


def check_floats_only(name: str, *metas: TensorMeta | None) -> None:
    """Refuse what is no real floating point number."""
    for meta in metas:
        if meta is not None and not meta.dtype.is_floating_point:
            raise NotImplementedError(f"\"{name}\" not implemented for '{meta.dtype.scalar_name}'")
