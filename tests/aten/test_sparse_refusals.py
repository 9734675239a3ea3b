"""Sparse tensors: sizes, patterns and memory formats that are refused, as PyTorch refuses them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import maquette as mq


def coo() -> mq.Tensor:
    """[[0, 1, 0], [0, 0, 2]]."""
    return mq.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2.0], (2, 3))


def csr() -> mq.Tensor:
    return coo().to_sparse_csr()


def blocks(size: tuple[int, int]) -> mq.Tensor:
    return mq.ones(4, 6).to_sparse_bsr(size)


def hybrid() -> mq.Tensor:
    """One element of [2, 3] at 0 of 2."""
    return mq.sparse_coo_tensor(mq.zeros(1, 1), mq.ones(1, 2, 3), (2, 2, 3))


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: mq.zeros_like(coo(), memory_format=mq.contiguous_format), "only supported by strided"),
    (lambda: mq.clone(coo(), memory_format=mq.preserve_format), "unsupported memory format option"),
    (lambda: mq.empty_like(csr(), layout=mq.sparse_csc), "self is SparseCsr but you requested"),
    (lambda: mq.empty(5, layout=mq.sparse_csr), "Only batched sparse compressed"),
    (lambda: mq.add(mq.ones(1, 3), coo()), "does not currently support broadcasting"),
    (lambda: mq.ones(2, 1).to_sparse() * coo(), "shape of sparse dimensions"),
    (lambda: csr().copy_(coo()), "having different layouts is not supported"),
    (lambda: csr().copy_(mq.ones(1, 2).to_sparse_csr()), "match along dimension 0"),
    (lambda: blocks((2, 3)).copy_(blocks((4, 3))), "the same number of specified elements"),
    (lambda: blocks((2, 3)).copy_(blocks((1, 6))), "different block sizes"),
    (lambda: mq.cat([coo(), mq.ones(2, 3)]), "a dense tensor was found at position 1"),
    (lambda: mq.cat([coo(), mq.ones(1, 2).to_sparse()]), "found shape: .1, 2. at position 1"),
    (lambda: mq.cat([coo(), mq.ones(2, 3).to_sparse(1)]), "2, 0, but tensor at position 1 has 1"),
    (lambda: coo().norm(keepdim=True), "does not support keepdim=True"),
    (lambda: coo().norm(p=2, dim=0), "only supports full reductions"),
    (lambda: coo().narrow_copy(-1, 0, 1), "Dimension -1 out of range"),
    (lambda: hybrid().sparse_resize_((2, 2), 1, 1), "number of dense dimensions .from 2 to 1"),
    (lambda: hybrid().sparse_resize_((1, 2, 2, 3), 2, 2), "number of sparse dimensions"),
    (lambda: hybrid().sparse_resize_((2, 2, 2), 1, 2), "shrinking the size of dense dimensions"),
]


@pytest.mark.parametrize("call, words", REFUSED)
def test_sparse_calls_that_pytorch_refuses(call: Callable[[], object], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call()


@pytest.mark.parametrize("t", [coo(), csr()])
def test_elements_of_sparse_tensors_are_not_assigned(t: mq.Tensor) -> None:
    with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"):
        t[0] = 1


def test_a_sparse_tensor_is_not_made_after_strides() -> None:
    with pytest.raises(NotImplementedError, match="empty_strided"):
        mq.empty_like(mq.ones(3), layout=mq.sparse_coo)


def test_sizes_of_dense_dimensions_grow_and_numbers_stay_in_order() -> None:
    grown = hybrid().sparse_resize_((4, 2, 4), 1, 2)
    assert grown.values().tolist() == [[[1.0, 1, 1, 1], [1, 1, 0, 0]]]


def test_one_value_without_dimensions_makes_one_element() -> None:
    assert mq.sparse_coo_tensor([[0], [2]], 5.0).to_dense().tolist() == [[0.0, 0.0, 5.0]]


def test_products_of_sparse_tensors_broadcast_in_dense_dimensions() -> None:
    wide, narrow = mq.arange(6.0).reshape(2, 3).to_sparse(1), mq.tensor([[2.0], [3.0]])
    product = wide * narrow.to_sparse(1)
    assert product.to_dense().tolist() == [[0.0, 2.0, 4.0], [9.0, 12.0, 15.0]]


def test_products_of_sparse_numbers_promote_like_numbers() -> None:
    number = mq.tensor(2.0, dtype=mq.float64).to_sparse()
    assert (mq.tensor(3.0).to_sparse() * number).dtype is mq.float64
    assert (coo() * number).dtype is mq.float32


def test_sampled_products_repeat_the_pattern_for_batches() -> None:
    left, right = mq.ones(5, 2, 4), mq.ones(5, 4, 3)
    sampled = mq.ops.aten.sparse_sampled_addmm(csr(), left, right)
    assert sampled.shape == (5, 2, 3)
    assert sampled.to_dense()[4].tolist() == [[0.0, 5.0, 0.0], [0.0, 0.0, 6.0]]


def test_dense_dimensions_of_batches_are_selected() -> None:
    t = mq.arange(24.0).reshape(2, 2, 3, 2) + 1
    assert t.to_sparse_csr(dense_dim=1).select(3, 1).to_dense().tolist() == t[..., 1].tolist()


@pytest.mark.parametrize("in_place", [False, True])
def test_sparse_complex_numbers_are_conjugated(in_place: bool) -> None:
    t = coo() * mq.tensor(1j)
    found = t.conj_physical_() if in_place else mq.conj_physical(t)
    assert found._values().tolist() == [-1j, -2j]
