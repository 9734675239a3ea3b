"""Exponentials and eigenvalues of matrices: one by one as many at once."""

from __future__ import annotations

import numpy as np
import pytest

import maquette as mq
from maquette.torch import linalg

KINDS = [mq.float32, mq.float64, mq.complex64, mq.complex128]


@pytest.mark.parametrize("size, scale", [(1, 1.0), (2, 1e-3), (3, 1.0), (7, 12.0), (40, 0.3)])
@pytest.mark.parametrize("kind", KINDS)
def test_exponentials_of_many_matrices_are_those_of_each(
    size: int, scale: float, kind: mq.dtype
) -> None:
    mq.manual_seed(5)
    matrices = mq.randn(6, size, size, dtype=kind) * scale
    each = mq.stack([linalg.matrix_exp(m.to(mq.complex128)) for m in matrices])
    found = linalg.matrix_exp(matrices)
    assert found.dtype is kind
    least = 1e-11 if kind in (mq.float64, mq.complex128) else 1e-5
    assert ((found - each).abs().max() / each.abs().max()).item() < least


def test_exponentials_of_what_is_not_finite_spoil_no_other() -> None:
    matrices = mq.zeros(5, 2, 2)
    matrices[1, 0, 0] = float("nan")
    matrices[2, 0, 1] = float("inf")
    assert linalg.matrix_exp(matrices)[[0, 3, 4]].tolist() == [[[1, 0], [0, 1]]] * 3


@pytest.mark.parametrize("kind", [mq.int64, mq.bfloat16])
def test_eigenvalues_alone_are_refused_in_one_name_by_real_and_fake_calls(kind: mq.dtype) -> None:
    words = "^linalg.eigvals: .* (Long|BFloat16)"
    with pytest.raises(RuntimeError, match=words):
        linalg.eigvals(mq.ones(2, 2, dtype=kind))
    with mq.FakeTensorMode(), pytest.raises(RuntimeError, match=words):
        linalg.eigvals(mq.ones(2, 2, dtype=kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 5), (40, 40), (0, 3, 3)])
def test_eigenvalues_alone_are_those_with_vectors(kind: mq.dtype, shape: tuple[int, ...]) -> None:
    mq.manual_seed(5)
    x = mq.randn(*shape, dtype=kind)
    alone, found = linalg.eigvals(x), linalg.eig(x).eigenvalues
    assert alone.dtype is found.dtype
    assert np.sort_complex(alone.numpy()) == pytest.approx(np.sort_complex(found.numpy()), abs=1e-3)
