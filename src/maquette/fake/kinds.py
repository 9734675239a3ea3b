"""What kind of tensor one is to converters: a leaf, sparse, of inference mode."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from maquette.core.layout import layout, sparse_coo
from maquette.tensor.keys import ADINPLACE
from maquette.tensor.sparse import COMPRESSED
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fake.described.describe import MetaTensorDesc


def safe_is_leaf(t: Tensor | MetaTensorDesc) -> bool:
    """Whether a tensor, or one described, is a leaf; False where that cannot be told."""
    try:
        return t.is_leaf
    except RuntimeError:
        return False


def is_sparse_coo(t: object) -> bool:
    """Whether this is a COO tensor."""
    return isinstance(t, Tensor) and t.meta.layout is sparse_coo


def is_sparse_compressed_layout(kind: layout) -> bool:
    """Whether a layout is CSR, CSC, BSR or BSC."""
    return kind in COMPRESSED


def is_sparse_compressed(t: object) -> bool:
    """Whether this is a tensor of a compressed sparse layout."""
    return isinstance(t, Tensor) and t.meta.layout in COMPRESSED


def is_sparse_any(t: object) -> bool:
    """Whether this is a tensor of any sparse layout."""
    return is_sparse_coo(t) or is_sparse_compressed(t)


class _Undone(threading.local):
    """Whether inference tensors are to count as normal ones, in one thread."""

    def __init__(self) -> None:
        self.depth = 0


_undone = _Undone()


@contextmanager
def disable_inference_mode_for_fake_prop() -> Iterator[None]:
    """For a block: describe inference tensors as normal ones, and convert them to normal ones."""
    _undone.depth += 1
    try:
        yield
    finally:
        _undone.depth -= 1


def counts_as_inference(t: Tensor) -> bool:
    """Whether a tensor is to be converted to an inference tensor."""
    return not t._keys & ADINPLACE and not _undone.depth
