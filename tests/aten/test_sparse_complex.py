"""Sparse tensors of complex numbers, and triangular sparse matrices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import maquette as mq
import maquette.torch as torch

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


def test_gradients_of_sparse_products_take_the_conjugates_of_complex_factors() -> None:
    """Three formulas did not: with `alpha` of 1j they had the opposite sign."""
    pattern, start = matrix().to_sparse_csr(), mq.ones(2, 2, dtype=mq.complex64)
    dense = (pattern.to_dense() != 0).to(mq.complex64)

    def gradients(sampled: bool) -> list[mq.Tensor]:
        parts = [start.clone().requires_grad_() for _ in range(3)]
        if sampled:
            sparse = (parts[0] * dense).to_dense()
            whole = 0.5j * sparse + 2j * (parts[1] @ parts[2]) * dense
        else:
            held = mq.sparse_csr_tensor(
                pattern.crow_indices(), pattern.col_indices(), parts[0][dense != 0], (2, 2)
            )
            whole = torch.sparse.sampled_addmm(
                held, parts[1], parts[2], beta=0.5j, alpha=2j
            ).to_dense()
        return list(mq.autograd.grad((whole * matrix()).abs().sum(), parts))

    for found, right in zip(gradients(False), gradients(True)):
        assert mq.allclose(found, right)


@pytest.mark.parametrize("function", [mq.addmm, torch.sparse.addmm])
def test_gradients_of_sparse_sums_take_the_conjugates_of_complex_factors(
    function: Callable[..., mq.Tensor],
) -> None:
    at = mq.tensor([[0, 0, 1], [0, 1, 1]])

    def gradients(sparse: bool) -> list[mq.Tensor]:
        parts = [matrix().requires_grad_() for _ in range(2)]
        values = mq.tensor([1j, 2.0, 1 - 1j], requires_grad=True)
        held = mq.sparse_coo_tensor(at, values, (2, 2))
        called = function if sparse else mq.addmm
        found = called(parts[0], held if sparse else held.to_dense(), parts[1], beta=0.5j, alpha=2j)
        return list(mq.autograd.grad(found.abs().sum(), [*parts, values]))

    for found, right in zip(gradients(True), gradients(False)):
        assert mq.allclose(found, right)


def test_conjugates_of_dense_matrices_meet_sparse_ones() -> None:
    for sparse in (matrix().to_sparse_csr(), matrix().to_sparse(), matrix().to_sparse_bsr((1, 1))):
        found = mq.addmm(matrix(), sparse, matrix().conj())
        assert mq.allclose(found, matrix() + matrix() @ matrix().conj())
        assert mq.allclose(sparse @ matrix().mH, matrix() @ matrix().mH)
