"""Products of vectors, matrices and batches: values, layouts of gradients, refusals, costs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from gradcheck import check_gradients, check_second_gradients

import maquette as mq
from maquette.dispatch.operator import OpOverload

random = np.random.default_rng(3)
aten = mq.ops.aten
A, B, C = random.standard_normal((2, 3)), random.standard_normal((3, 4)), random.standard_normal(4)
BATCH, OTHER = random.standard_normal((5, 2, 3)), random.standard_normal((5, 3, 4))


def tensor(array: object) -> mq.Tensor:
    return mq.from_numpy(np.asarray(array))


def flops(op: OpOverload, *args: mq.Tensor) -> int:
    metas = [a.meta for a in args]
    assert op.shape_rule is not None
    assert op.facts.cost is not None
    return op.facts.cost(*metas, op.shape_rule(*metas)).flops  # type: ignore[attr-defined]  # a Cost


def test_F41_mm_refuses_mixed_dtypes() -> None:
    with pytest.raises(RuntimeError, match="same dtype, but got: double != float"):
        aten.mm(tensor(A), tensor(B.astype(np.float32)))


def test_F41_mm_refuses_mixed_dtypes_in_fake_mode() -> None:
    mode = mq.FakeTensorMode()
    x, y = mode.from_tensor(tensor(A)), mode.from_tensor(tensor(B.astype(np.float32)))
    with pytest.raises(RuntimeError, match="same dtype"):
        aten.mm(x, y)


def test_mm_names_the_shapes_that_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(2x3 and 2x3\)"):
        aten.mm(tensor(A), tensor(A))


def test_bool_has_no_products() -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        aten.mm(tensor(A > 0), tensor(B > 0))


def test_mm_of_bfloat16_rounds_once() -> None:
    ones = tensor(np.ones((1, 1000), ml_dtypes.bfloat16))
    assert aten.mm(ones, ones.t()).item() == 1000  # adding in bfloat16 stops at 256


def test_addmm_with_beta_zero_ignores_nan() -> None:
    base = tensor(np.full(4, np.nan))
    np.testing.assert_allclose(aten.addmm(base, tensor(A), tensor(B), beta=0).numpy(), A @ B)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_integers_take_whole_factors(dtype: type[np.generic]) -> None:
    a, b = A.astype(dtype), B.astype(dtype)
    base = tensor(np.ones((2, 4), dtype))
    result = aten.addmm(base, tensor(a), tensor(b), beta=2.9, alpha=1.9)
    assert (result.numpy() == 2 + a @ b).all()


def test_products_differentiate_twice() -> None:
    for function, arrays in (
        (aten.mm, (A, B)),
        (aten.bmm, (BATCH, OTHER)),
        (aten.mv, (B, C)),
        (aten.dot, (C, C[::-1].copy())),
    ):
        check_gradients(function, *arrays)
        check_second_gradients(function, *arrays)


def test_products_that_add_differentiate() -> None:
    factors = {"beta": 0.5, "alpha": 3.0}
    base = random.standard_normal((2, 4))
    check_gradients(lambda x, y, z: aten.addmm(x, y, z, **factors), base, A, B)
    check_gradients(lambda x, y, z: aten.addmm(x, y, z, **factors), C, A, B)
    check_gradients(lambda x, y, z: aten.baddbmm(x, y, z, **factors), base, BATCH, OTHER)
    check_gradients(lambda x, y, z: aten.addbmm(x, y, z, **factors), base, BATCH, OTHER)
    check_gradients(lambda x, y, z: aten.addmv(x, y, z, **factors), A[:, 0].copy(), base, C)
    check_gradients(lambda x, y, z: aten.addr(x, y, z, **factors), base, A[:, 0].copy(), C)


def test_the_gradient_of_a_transposed_weight_is_transposed() -> None:
    weight = tensor(B.T.copy()).requires_grad_()
    turned = weight.t()
    grad = mq.autograd.grad(aten.mm(tensor(A), turned).sum(), [turned])[0]
    assert grad.stride() == turned.stride() == (1, 3)


def test_baddbmm_spreads_its_base() -> None:
    result = aten.baddbmm(tensor(C), tensor(BATCH), tensor(OTHER))
    np.testing.assert_allclose(result.numpy(), BATCH @ OTHER + C)


def test_baddbmm_names_the_size_that_does_not_spread() -> None:
    with pytest.raises(RuntimeError, match=r"existing size \(3\) at non-singleton dimension 2"):
        aten.baddbmm(tensor(A), tensor(BATCH), tensor(OTHER))


def test_addr_keeps_the_order_of_its_base() -> None:
    base = tensor(random.standard_normal((4, 2))).t()
    assert aten.addr(base, tensor(A[:, 0].copy()), tensor(C)).stride() == (1, 2)


def test_dot_of_two_conjugates_is_a_conjugate() -> None:
    a, b = C + 1j * C[::-1], C - 2j
    result = aten.dot(tensor(a).conj(), tensor(b).conj())
    assert result.is_conj()
    np.testing.assert_allclose(result.resolve_conj().numpy(), (a * b).sum().conj())


def test_vdot_conjugates_its_first_vector() -> None:
    a, b = C + 1j * C[::-1], C - 2j
    np.testing.assert_allclose(aten.vdot(tensor(a), tensor(b)).numpy(), np.vdot(a, b))


def test_flops_are_two_for_each_product() -> None:
    assert flops(aten.mm.default, tensor(A), tensor(B)) == 2 * 2 * 3 * 4
    assert flops(aten.bmm.default, tensor(BATCH), tensor(OTHER)) == 5 * 2 * 2 * 3 * 4


@pytest.mark.parametrize("batch", [(), (2,), (0,)])
def test_a_solution_by_empty_factors_differentiates(batch: tuple[int, ...]) -> None:
    factors, b = mq.zeros(*batch, 0, 0, requires_grad=True), mq.zeros(*batch, 0, 4)
    found = mq.lu_solve(b, factors, mq.zeros(*batch, 0, dtype=mq.int32))
    (grad,) = mq.autograd.grad(found.sum(), factors)
    assert grad.shape == (*batch, 0, 0)


@pytest.mark.parametrize("mode", [contextlib.nullcontext, mq.FakeTensorMode])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_new_result_was_never_mutated(
    mode: Callable[[], contextlib.AbstractContextManager[object]], requires_grad: bool
) -> None:
    with mode():
        x = mq.eye(3, dtype=mq.complex64, requires_grad=requires_grad)
        factors, pivots = mq.linalg_lu_factor(x)
        found = [mq.linalg_lu_solve(factors, pivots, x, left=left) for left in (True, False)]
        found += [mq.ops.aten._euclidean_dist.default(x.real, x.real)]
    assert [(t._version, t._is_view()) for t in found] == [(0, False)] * 3


@pytest.mark.parametrize("name", "qr svd eig eigvals eigh inv det matrix_exp".split())
def test_vectors_are_refused_by_functions_of_matrices(name: str) -> None:
    words = rf"linalg.{name}: The input tensor A must have at least 2 dimensions\."
    with pytest.raises(RuntimeError, match=words):
        getattr(mq, f"linalg_{name}")(mq.ones(3))
