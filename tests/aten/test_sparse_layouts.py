"""Sparse matrices from one layout to another and multiplied: what is asked of their indices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import maquette as mq
import maquette.torch as torch

N = 40


def dense(kind: mq.dtype = mq.float32, size: int = N) -> mq.Tensor:
    torch.manual_seed(0)
    keep = torch.rand(size, size) < 0.2
    return torch.where(keep, torch.randn(size, size), torch.zeros(())).to(kind)


def beyond(layout: str) -> mq.Tensor:
    """A matrix of 2 x 2 with an index of 2."""
    at, plain = mq.tensor([0, 1, 2]), mq.tensor([0, 2])
    values = mq.ones(2, 1, 1) if layout.startswith("sparse_b") else mq.ones(2)
    return torch.sparse_compressed_tensor(
        at, plain, values, (2, 2), layout=getattr(mq, layout), check_invariants=False
    )


USES: dict[str, Callable[[mq.Tensor], object]] = {
    "to_dense": lambda t: t.to_dense(),
    "a matrix": lambda t: t @ mq.ones(2, 3),
    "a vector": lambda t: t @ mq.ones(2),
    "turned": lambda t: t.to_sparse_csc() if t.layout is mq.sparse_csr else t.to_sparse_csr(),
    "itself": lambda t: t @ t,
}


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_csc"])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_indices_out_of_range_are_refused(layout: str, use: Callable[[mq.Tensor], object]) -> None:
    with pytest.raises(RuntimeError, match="index out of range: 0 to 2 in a dimension of size 2"):
        use(beyond(layout))


def test_negative_indices_are_refused() -> None:
    t = torch.sparse_coo_tensor([[0, -1], [0, 1]], [1.0, 2.0], (2, 2), check_invariants=False)
    with pytest.raises(RuntimeError, match="index out of range: -1 to 0"):
        t @ mq.ones(2, 2)
    with pytest.raises(RuntimeError, match="index out of range: -1 to 0"):
        t.to_dense()


@pytest.mark.parametrize("kind", [mq.float16, mq.bfloat16, mq.int8, mq.bool, mq.complex64])
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr"])
def test_every_dtype_is_converted(layout: str, kind: mq.dtype) -> None:
    block = (4, 4) if layout == "sparse_bsr" else None
    made = dense(kind).to_sparse(layout=getattr(mq, layout), blocksize=block)
    assert made.dtype is kind
    assert torch.equal(made.to_dense(), dense(kind))


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_csc"])
def test_int32_indices_stay_int32(layout: str) -> None:
    t = dense().to_sparse_csr()
    small = torch.sparse_csr_tensor(t.crow_indices().int(), t.col_indices().int(), t.values())
    made = small.to_sparse(layout=getattr(mq, layout))
    offsets = made.crow_indices() if layout == "sparse_csr" else made.ccol_indices()
    assert offsets.dtype is mq.int32
    assert torch.equal(made.to_dense(), dense())


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
def test_products_with_strided_matrices_are_those_of_dense_ones(layout: str) -> None:
    block = (4, 5) if layout.startswith("sparse_b") else None
    t, right = dense().to_sparse(layout=getattr(mq, layout), blocksize=block), torch.randn(N, 7)
    torch.testing.assert_close(t @ right, dense() @ right)
    torch.testing.assert_close(t @ right[:, 0], dense() @ right[:, 0])


def test_a_matrix_without_rows_or_columns_is_converted() -> None:
    for shape in ((0, 3), (3, 0), (0, 0)):
        t = mq.zeros(shape)
        for layout in (mq.sparse_coo, mq.sparse_csr, mq.sparse_csc):
            assert t.to_sparse(layout=layout).to_dense().shape == shape


def test_many_uncoalesced_elements_are_added_up() -> None:
    rng = np.random.default_rng(0)
    indices = rng.integers(0, N, (2, 5_000))
    t = torch.sparse_coo_tensor(indices, np.ones(5_000), (N, N)).coalesce()
    counted = np.zeros((N, N))
    np.add.at(counted, tuple(indices), 1)
    assert t.indices().tolist() == np.stack(np.nonzero(counted)).tolist()
    assert t.values().tolist() == counted[counted > 0].tolist()


def test_sampled_products_are_differentiated_twice() -> None:
    pattern = dense(mq.float64, 6).to_sparse()
    left, right = (torch.randn(6, 3, dtype=mq.float64, requires_grad=True) for _ in range(2))
    at = pattern.indices()
    function = lambda a, b: mq.ops.maquette.sampled_products(at[0], at[1], a, b.t())  # noqa: E731
    assert torch.autograd.gradgradcheck(function, (left, right))


@pytest.mark.parametrize("kind", [mq.int32, mq.bool])
def test_sparse_sums_keep_integers_as_they_are(kind: mq.dtype) -> None:
    t = dense().to(kind).to_sparse()
    assert torch.sparse.sum(t, 1).dtype is kind
    assert t.sum(1).dtype is torch.sparse.sum(t, (0, 1)).dtype is mq.int64


def test_a_gradient_that_a_leaf_takes_does_not_tell_whether_it_is_sorted() -> None:
    leaf = dense().to_sparse().requires_grad_()
    loss = torch.sparse.mm(leaf, torch.ones(N, 2)).sum()
    (found,) = torch.autograd.grad(loss, leaf, retain_graph=True)
    loss.backward()
    assert found.is_coalesced()
    assert not leaf.grad.is_coalesced()


def test_sums_of_compressed_rows_leave_out_rows_without_elements() -> None:
    t = mq.tensor([[0, 1.0, 2], [0, 0, 0], [3, 0, -3]]).to_sparse_csr()
    rows = t.sum(1, keepdim=True)
    assert rows.crow_indices().tolist() == [0, 1, 1, 2]
    assert rows.values().tolist() == [3, 0]
    assert t.sum(0, keepdim=True).values().tolist() == [3, 1, -1]
    assert t.sum((0, 1), keepdim=True).values().tolist() == [3]


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
def test_elements_that_are_not_in_order_are_matched(layout: str) -> None:
    block = (2, 2) if layout.startswith("sparse_b") else None
    other = dense()[:, torch.randperm(N)]
    t, s = (x.to_sparse(layout=getattr(mq, layout), blocksize=block) for x in (dense(), other))
    torch.testing.assert_close((t + s).to_dense(), dense() + other)
    torch.testing.assert_close((t * s).to_dense(), dense() * other)


def test_spdiags_places_diagonals_within_the_matrix() -> None:
    diagonals = mq.arange(1.0, 7).reshape(2, 3).requires_grad_()
    made = torch.sparse.spdiags(diagonals, mq.tensor([1, -2]), (3, 4))
    assert made.to_dense().tolist() == [[0, 2, 0, 0], [0, 0, 3, 0], [4, 0, 0, 0]]
    made.to_dense().sum().backward()
    assert diagonals.grad.tolist() == [[0, 1, 1], [1, 0, 0]]
