"""QR factors as reflectors: values, layouts, gradients, refusals."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from gradcheck import check_gradients, check_second_gradients

import maquette as mq

Floats = npt.NDArray[np.float64]
aten = mq.ops.aten
RANDOM = np.random.default_rng(17)
SIDES = list(itertools.product([True, False], [True, False]))  # left, transpose


def matrix(*shape: int) -> Floats:
    return RANDOM.standard_normal(shape)


def tensor(array: object) -> mq.Tensor:
    return mq.from_numpy(np.array(array))


def reflected(a: Floats, tau: Floats) -> Floats:
    """The product of reflectors by its definition, m by m."""
    product = np.eye(len(a))
    for i, scale in enumerate(tau):
        v = np.concatenate([np.zeros(i), [1.0], a[i + 1 :, i]])
        product = product @ (np.eye(len(a)) - scale * np.outer(v, v))
    return product


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4), (0, 3, 2)])
def test_geqrf_holds_the_factors_of_qr(shape: tuple[int, ...]) -> None:
    x = matrix(*shape)
    packed, tau = aten.geqrf(tensor(x))
    q = aten.linalg_householder_product(packed[..., : min(shape[-2:])], tau)
    r = packed.triu()[..., : min(shape[-2:]), :]
    np.testing.assert_allclose((q @ r).numpy(), x, atol=1e-12)


@pytest.mark.parametrize("kind", [np.float32, np.complex64, np.complex128])
def test_geqrf_keeps_the_dtype(kind: type) -> None:
    packed, tau = aten.geqrf(tensor(matrix(3, 2).astype(kind)))
    assert packed.numpy().dtype == tau.numpy().dtype == kind


def test_householder_product_is_of_its_reflectors_orthogonal_or_not() -> None:
    a, tau = matrix(5, 3), matrix(2)
    q = aten.linalg_householder_product(tensor(a), tensor(tau))
    np.testing.assert_allclose(q.numpy(), reflected(a, tau)[:, :3], atol=1e-12)


def test_householder_product_of_no_reflectors_is_the_identity() -> None:
    q = aten.linalg_householder_product(tensor(matrix(4, 2)), tensor(np.zeros(0)))
    np.testing.assert_array_equal(q.numpy(), np.eye(4)[:, :2])


@pytest.mark.parametrize(("left", "transpose"), SIDES)
def test_ormqr_multiplies_by_all_reflectors(left: bool, transpose: bool) -> None:
    a, tau, c = matrix(4, 3), matrix(3), matrix(4, 4)
    q = reflected(a, tau)
    q = q.T if transpose else q
    found = aten.ormqr(tensor(a), tensor(tau), tensor(c), left, transpose)
    np.testing.assert_allclose(found.numpy(), q @ c if left else c @ q, atol=1e-12)


def test_ormqr_transposed_is_conjugated_too() -> None:
    x = matrix(3, 3) + 1j * matrix(3, 3)
    packed, tau = aten.geqrf(tensor(x))
    r = aten.ormqr(packed, tau, tensor(x), True, True)
    np.testing.assert_allclose(r.numpy(), packed.triu().numpy(), atol=1e-12)


def test_results_are_column_major() -> None:
    x, tau = tensor(matrix(2, 5, 3)), tensor(matrix(2, 3))
    expected = (15, 1, 5)
    assert aten.geqrf(x)[0].stride() == expected
    assert aten.linalg_householder_product(x, tau).stride() == expected
    assert aten.ormqr(x, tau, x).stride() == expected


def test_an_empty_out_of_the_same_dtype_is_laid_out_by_columns() -> None:
    x, tau = tensor(matrix(5, 3)), tensor(matrix(3))
    empty, other = mq.empty(0, dtype=mq.float64), mq.empty(0, dtype=mq.float32)
    product = aten.linalg_householder_product.out
    assert product(x, tau, out=empty).stride() == (1, 5)
    assert product(x, tau, out=other).stride() == (3, 1)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_derivative_of_householder_product(count: int) -> None:
    check_gradients(mq.linalg_householder_product, matrix(5, 3), matrix(count))


def test_derivative_of_householder_product_where_a_reflector_is_singular() -> None:
    a, tau = np.zeros((3, 2)), np.ones(2)  # 1 - tau v^T v = 0: it has no inverse
    check_gradients(mq.linalg_householder_product, a, tau)


def test_second_derivative_of_householder_product() -> None:
    check_second_gradients(mq.linalg_householder_product, matrix(2, 4, 3), matrix(2, 2))


@pytest.mark.parametrize(("left", "transpose"), SIDES)
def test_derivative_of_ormqr(left: bool, transpose: bool) -> None:
    def product(a: mq.Tensor, tau: mq.Tensor, c: mq.Tensor) -> object:
        return aten.ormqr(a, tau, c, left, transpose)

    check_gradients(product, matrix(2, 4, 3), matrix(2, 3), matrix(2, 4, 4))


def test_second_derivative_of_ormqr() -> None:
    check_second_gradients(mq.ormqr, matrix(4, 2), matrix(2), matrix(4, 3))


def test_factors_without_elements_get_no_gradient() -> None:
    x = tensor(np.zeros((0, 3, 2))).requires_grad_()
    q = aten.linalg_householder_product(x, tensor(np.zeros((0, 2))))
    assert mq.autograd.grad([q.sum()], [x], allow_unused=True) == (None,)


REFUSED = {
    "no_matrix": lambda x: aten.geqrf(x[0]),
    "wide": lambda x: aten.linalg_householder_product(x.mT, x[0]),
    "many_taus": lambda x: aten.linalg_householder_product(x, x[:, 0]),
    "few_taus": lambda x: aten.ormqr(x, x[0, :2], x),
    "other_rows": lambda x: aten.ormqr(x, x[0], x[:4]),
    "other_dtype": lambda x: aten.ormqr(x, x[0], x.to(mq.float32)),
    "other_batch": lambda x: aten.ormqr(x.unsqueeze(0), x[:1], x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_F22_ill_formed_reflectors_are_refused_in_fake_mode_too(name: str) -> None:
    x = tensor(matrix(5, 3))
    with pytest.raises(RuntimeError) as eager:
        REFUSED[name](x)
    mode = mq.FakeTensorMode()
    with mode, pytest.raises(RuntimeError) as fake:
        REFUSED[name](mode.from_tensor(x))
    assert str(eager.value) == str(fake.value)


def test_integers_have_no_reflectors() -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        aten.geqrf(mq.ones(2, 2, dtype=mq.int64))
