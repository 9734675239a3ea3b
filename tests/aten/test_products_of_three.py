"""Bilinear forms against sums of products; places of triangles and of combinations."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest

import maquette.torch as torch

F = torch.nn.functional


@pytest.mark.parametrize("sizes", [(40, 5, 7, 6), (3, 90, 2, 4), (5, 1, 7, 6), (0, 3, 2, 2)])
def test_bilinear_forms_and_gradients_are_the_sums_of_products(sizes: tuple[int, ...]) -> None:
    b, o, i, j = sizes
    torch.manual_seed(0)
    shapes = [(b, i), (b, j), (o, i, j)]
    given = [torch.randn(*s, dtype=torch.float64).requires_grad_() for s in shapes]
    found = F.bilinear(*given)
    x, y, w = (t.detach().numpy() for t in given)
    np.testing.assert_allclose(found.detach().numpy(), np.einsum("bi,bj,oij->bo", x, y, w), 1e-12)
    grad = torch.randn(b, o, dtype=torch.float64)
    found.backward(grad)
    sums = ("bo,bj,oij->bi", "bo,bi,oij->bj")
    expected = [np.einsum(s, grad.numpy(), v, w) for s, v in zip(sums, (y, x), strict=True)]
    expected.append(np.einsum("bo,bi,bj->oij", grad.numpy(), x, y))
    for leaf, slope in zip(given, expected, strict=True):
        np.testing.assert_allclose(leaf.grad.numpy(), slope, 1e-10, 1e-12)


@pytest.mark.parametrize("offset", [-500, -3, 0, 2, 700])
@pytest.mark.parametrize("shape", [(300, 200), (3, 5), (0, 4), (200, 300)], ids=str)
def test_places_of_triangles_are_numpys(shape: tuple[int, int], offset: int) -> None:
    for name in ("tril_indices", "triu_indices"):
        found = getattr(torch, name)(*shape, offset)
        expected = np.stack(getattr(np, name)(shape[0], offset, shape[1]))
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("count", [0, 1, 6])
@pytest.mark.parametrize("r", [1, 2, 3, 7])
def test_combinations_are_in_order(r: int, count: int) -> None:
    x = torch.arange(count) * 10
    for repeated, choose in ((False, combinations), (True, combinations_with_replacement)):
        expected = torch.tensor(list(choose(x.tolist(), r)), dtype=torch.int64).reshape(-1, r)
        assert torch.combinations(x, r, repeated).tolist() == expected.tolist()
