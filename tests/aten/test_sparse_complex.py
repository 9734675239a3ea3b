"""Sparse tensors of complex numbers, and triangular sparse matrices."""

from __future__ import annotations

import pytest

import maquette as mq

LAYOUTS = [mq.sparse_coo, mq.sparse_csr, mq.sparse_csc]


def matrix() -> mq.Tensor:
    """[[1j, 2], [0, 1 - 1j]]."""
    return mq.tensor([[1j, 2.0], [0.0, 1 - 1j]])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_conjugates_of_sparse_tensors_are_computed_at_once(layout: mq.layout) -> None:
    found = matrix().to_sparse(layout=layout).conj()
    assert not found.is_conj()
    assert found.to_dense().tolist() == matrix().conj().tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_matrices_have_adjoints(layout: mq.layout) -> None:
    assert matrix().to_sparse(layout=layout).mH.to_dense().tolist() == matrix().mH.tolist()


def test_sparse_tensors_have_real_and_imaginary_parts() -> None:
    t = matrix().to_sparse()
    assert t.real.to_dense().tolist() == [[0.0, 2.0], [0.0, 1.0]]
    assert t.imag.to_dense().tolist() == [[1.0, 0.0], [0.0, -1.0]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_pass_products_of_complex_sparse_matrices(layout: mq.layout) -> None:
    factor = mq.ones(2, 3, dtype=mq.complex64, requires_grad=True)
    matrix().to_sparse(layout=layout).mm(factor).sum().abs().backward()
    expected = mq.ones(2, 3, dtype=mq.complex64, requires_grad=True)
    matrix().mm(expected).sum().abs().backward()
    assert mq.allclose(factor.grad, expected.grad)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_triangular_sparse_matrices_are_solved(upper: bool, transpose: bool) -> None:
    full = mq.tensor([[2.0, 1.0], [3.0, 4.0]])
    a, b = full.triu() if upper else full.tril(), mq.eye(2)
    solution, rest = mq.triangular_solve(b, a.to_sparse_csr(), upper, transpose)
    assert mq.allclose((a.T if transpose else a) @ solution, b)
    assert rest.numel() == 0


def test_an_empty_triangular_matrix_has_no_solution() -> None:
    solution = mq.triangular_solve(mq.ones(2, 1), mq.zeros(2, 2).to_sparse_csr()).solution
    assert solution.isnan().all()


def test_a_strided_matrix_times_columns_of_blocks() -> None:
    a, b = mq.arange(8.0).reshape(2, 4), mq.arange(16.0).reshape(4, 4)
    assert (a @ b.to_sparse_bsc((2, 2))).tolist() == (a @ b).tolist()
