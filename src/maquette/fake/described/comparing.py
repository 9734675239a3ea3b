"""Whether two tensors, or a tensor and a description, are alike but for their data (M69)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.core.layout import sparse_coo
from maquette.fake.described.describe import MetaTensorDesc, safe_grad
from maquette.fake.kinds import counts_as_inference, safe_is_leaf
from maquette.tensor.sparse import COMPRESSED, coo_parts, sparse_dims
from maquette.tensor.tensor import Tensor

Like = Tensor | MetaTensorDesc
AssertEq = Callable[[Any, Any], None]


def assert_eq(a: Any, b: Any) -> None:
    """AssertionError, with both, unless ``a == b``."""
    assert a == b, f"{a} != {b}"


def assert_metadata_eq(
    assert_eq: AssertEq,
    m1: Like,
    m2: Tensor,
    *,
    skip_symbolic: bool = False,
    skip_leaf: bool = False,
) -> None:
    """Call ``assert_eq`` of all that the two should have in common, in PyTorch's order.

    skip_symbolic: sizes and strides may differ. skip_leaf: so may what is a leaf. Devices may
    always differ.
    """
    assert_eq(m1.dtype, m2.dtype)
    if not skip_symbolic:
        assert_eq(tuple(m1.shape), tuple(m2.shape))
    assert_eq(m1.requires_grad, m2.requires_grad)
    if not skip_leaf:
        assert_eq(safe_is_leaf(m1), safe_is_leaf(m2))
    assert_eq(_told(m1, "is_sparse"), m2.is_sparse)
    assert_eq(_inference(m1), _inference(m2))
    assert_eq(_told(m1, "is_conj"), m2.is_conj())
    assert_eq(_told(m1, "is_neg"), m2.is_neg())
    first, second = safe_grad(m1), safe_grad(m2)
    assert_eq(first is not None, second is not None)
    if first is not None and isinstance(second, Tensor):
        assert_metadata_eq(assert_eq, first, second, skip_symbolic=skip_symbolic)
    if m1.layout is sparse_coo or m1.layout in COMPRESSED:
        _assert_sparse(assert_eq, m1, m2)
        return
    if not skip_symbolic:
        assert_eq(_told(m1, "stride"), tuple(m2.stride()))
        assert_eq(_told(m1, "storage_offset"), m2.storage_offset())
    assert_eq(_told(m1, "is_view"), m2._is_view())
    base = m1.base if isinstance(m1, MetaTensorDesc) else m1._base
    if base is not None and m2._base is not None:
        assert_metadata_eq(
            assert_eq, base, m2._base, skip_symbolic=skip_symbolic, skip_leaf=skip_leaf
        )


def _assert_sparse(assert_eq: AssertEq, m1: Like, m2: Tensor) -> None:
    assert_eq(m1.layout, m2.layout)
    if isinstance(m1, MetaTensorDesc):
        dims, coalesced = (m1.sparse_dim, m1.dense_dim), m1.is_coalesced
    else:
        dims = sparse_dims(m1)
        coalesced = coo_parts(m1).coalesced if m1.layout is sparse_coo else None
    sparse, dense = sparse_dims(m2)
    assert_eq(dims[1], dense)
    assert_eq(dims[0], sparse)
    if m1.layout is sparse_coo:
        assert_eq(coalesced, coo_parts(m2).coalesced)


_ASKED: dict[str, Callable[[Tensor], Any]] = {
    "is_conj": lambda t: t.is_conj(),
    "is_neg": lambda t: t.is_neg(),
    "is_sparse": lambda t: t.is_sparse,
    "is_view": lambda t: t._is_view(),
    "storage_offset": lambda t: t.storage_offset(),
    "stride": lambda t: tuple(t.stride()),
}


def _told(like: Like, name: str) -> Any:
    return getattr(like, name) if isinstance(like, MetaTensorDesc) else _ASKED[name](like)


def _inference(like: Like) -> bool:
    return like.is_inference if isinstance(like, MetaTensorDesc) else counts_as_inference(like)
