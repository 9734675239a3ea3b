"""Products of any rank: which operators they become, and what they compute."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gradcheck import check_gradients
from op_log import operators_of

import maquette as mq

random = np.random.default_rng(4)
aten = mq.ops.aten


def tensor(*shape: int) -> mq.Tensor:
    return mq.from_numpy(np.asarray(random.standard_normal(shape)).reshape(shape))


SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (1, 3, 4)),
    ((2, 5, 2, 3), (5, 3, 4)),
    ((2, 1, 2, 3), (1, 5, 3, 4)),
    ((0, 2, 3), (3, 4)),
]


@pytest.mark.parametrize("left, right", SHAPES)
def test_matmul_is_numpys(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = tensor(*left), tensor(*right)
    np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy())


@pytest.mark.parametrize("left, right", SHAPES[:-1])
def test_matmul_differentiates(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    check_gradients(aten.matmul, random.standard_normal(left), random.standard_normal(right))


def test_D100_matmul_of_a_batch_by_a_matrix_is_one_mm() -> None:
    x, y = tensor(5, 2, 3), tensor(3, 4)
    assert operators_of(lambda: x @ y) == ["view", "mm", "_unsafe_view"]


def test_D100_matmul_does_not_copy_to_fold() -> None:
    x, y = tensor(2, 5, 3).transpose(0, 1), tensor(3, 4)
    names = operators_of(lambda: x @ y)
    assert "bmm" in names
    assert "clone" not in names


def test_D100_matmul_folds_for_a_matrix_that_requires_grad() -> None:
    x, y = tensor(2, 5, 3).transpose(0, 1), tensor(3, 4).requires_grad_()
    assert operators_of(lambda: x @ y) == ["clone", "_unsafe_view", "mm", "_unsafe_view"]


def test_matmul_refuses_numbers() -> None:
    with pytest.raises(RuntimeError, match="at least 1D, but they are 0D and 1D"):
        aten.matmul(tensor(), tensor(3))


def test_D100_linear_with_bias_is_one_addmm() -> None:
    x, w, b = tensor(2, 3), tensor(4, 3), tensor(4)
    assert operators_of(lambda: aten.linear(x, w, b)) == ["t", "addmm"]


def test_D100_linear_flattens_contiguous_inputs_only() -> None:
    w, b = tensor(4, 3), tensor(4)
    whole, turned = tensor(5, 2, 3), tensor(2, 5, 3).transpose(0, 1)
    assert operators_of(lambda: aten.linear(whole, w, b)) == ["view", "t", "addmm", "view"]
    assert operators_of(lambda: aten.linear(turned, w, b))[-1] == "add"


def test_linear_differentiates() -> None:
    arrays = [random.standard_normal(s) for s in ((5, 2, 3), (4, 3), (4,))]
    check_gradients(aten.linear, *arrays)


def test_linear_of_a_vector_without_bias_differentiates() -> None:
    check_gradients(aten.linear, random.standard_normal(3), random.standard_normal((4, 3)))


def test_tensordot_contracts_ones_by_summing() -> None:
    a, b = tensor(2, 3, 4), tensor(1, 3, 5)
    result = mq.tensordot(a, b, dims=([1, 2], [1, 0]))
    expected = np.einsum("ijk,lj->il", a.numpy(), b.numpy()[0].T.copy())
    np.testing.assert_allclose(result.numpy(), expected)


def test_tensordot_takes_a_number_of_dims() -> None:
    a, b = tensor(2, 3, 4), tensor(3, 4, 5)
    np.testing.assert_allclose(mq.tensordot(a, b).numpy(), np.tensordot(a.numpy(), b.numpy()))


def test_tensordot_names_the_sizes_that_differ() -> None:
    with pytest.raises(RuntimeError, match="size 2 in dim 0 and second has size 3 in dim 1"):
        aten.tensordot(tensor(2, 3), tensor(2, 3), [0], [1])


def test_multi_dot_multiplies_in_the_cheapest_order() -> None:
    chain = [tensor(2, 30), tensor(30, 40), tensor(40, 2)]
    shapes: list[tuple[int, ...]] = []
    names = operators_of(lambda: shapes.append(aten.linalg_multi_dot(chain).shape))
    assert names == ["mm", "mm", "view"]
    assert shapes == [(2, 2)]


def test_multi_dot_takes_vectors_at_the_ends() -> None:
    a, m, b = tensor(3), tensor(3, 4), tensor(4)
    result = aten.linalg_multi_dot([a, m, b])
    np.testing.assert_allclose(result.numpy(), a.numpy() @ m.numpy() @ b.numpy())


def test_kron_is_numpys() -> None:
    a, b = tensor(2, 3), tensor(2)
    np.testing.assert_allclose(aten.kron(a, b).numpy(), np.kron(a.numpy(), b.numpy()))


def test_bilinear_differentiates() -> None:
    arrays = [random.standard_normal(s) for s in ((2, 3), (2, 4), (5, 3, 4), (5,))]
    check_gradients(aten.bilinear, *arrays)


def test_out_of_a_composite_is_resized_and_returned() -> None:
    out = mq.empty(0, dtype=mq.float64)
    a, b = tensor(5, 2, 3), tensor(3, 4)
    assert aten.matmul.out(a, b, out=out) is out
    np.testing.assert_allclose(out.numpy(), a.numpy() @ b.numpy())


@pytest.mark.parametrize("high", [1000, 2**40], ids=["exact in doubles", "wrapped"])
def test_large_products_of_integers_are_exact(high: int) -> None:
    mq.manual_seed(0)
    x, y = mq.randint(-high, high, (70, 80)), mq.randint(-high, high, (80, 90))
    with np.errstate(all="ignore"):
        assert ((x @ y).numpy() == np.matmul(x.numpy(), y.numpy())).all()


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_logarithms_of_sums_of_many_agree_with_numpy(name: str) -> None:
    x = mq.linspace(-200, 200, 9000)
    x[:3] = mq.tensor([math.inf, -math.inf, math.nan])
    for y in (x.flip(0) * 0.5, x, -x):
        with np.errstate(invalid="ignore"):
            expected = getattr(np, name)(x.double().numpy(), y.double().numpy())
        found = getattr(mq, name)(x, y).numpy()
        np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda f, d: mq.addmm(d, f, d), "mat1 and mat2 must have the same dtype, but got Float"),
        (lambda f, d: mq.addmm(f, f, d), "self and mat2 .*, but got Float and Double"),
        (lambda f, d: mq.mm(f, d), "m1 and m2 to have the same dtype, but got: float != double"),
        (lambda f, d: mq.baddbmm(f[None], d[None], f[None]), "input float, batch1: double"),
    ],
)
def test_products_of_mixed_dtypes_say_what_they_got(function, words) -> None:
    with pytest.raises(RuntimeError, match=words):
        function(mq.ones(2, 2), mq.ones(2, 2, dtype=mq.float64))
