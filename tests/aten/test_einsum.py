"""Einstein summation against NumPy's, and the products that it becomes."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradients
from op_log import operators_of

import maquette as mq

random = np.random.default_rng(5)
SIZES = dict(zip("abcdijkx", (2, 3, 4, 5, 3, 2, 4, 3)))

EQUATIONS = [
    "ij,jk->ik",
    "ij,jk->ki",
    "ij,jk",
    "aij,ajk->aik",
    "aij,jk->aik",
    "ij->ji",
    "ii->i".replace("i", "a"),
    "aa",
    "ij->",
    "i,j->ij",
    "i,i",
    "i,i->i",
    "ij,j->i",
    "abc,cb->a",
    "ib,jb,kb->ijk",
    "adk,bck->abcd",
    "i j , j k -> i k",
]


def operands(equation: str) -> list[mq.Tensor]:
    terms = equation.replace(" ", "").split("->")[0].split(",")
    shapes = [[SIZES[label] for label in term] for term in terms]
    return [mq.from_numpy(random.standard_normal(shape)) for shape in shapes]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_is_numpys(equation: str) -> None:
    tensors = operands(equation)
    expected = np.einsum(equation, *[t.numpy() for t in tensors])
    np.testing.assert_allclose(mq.einsum(equation, *tensors).numpy(), expected)


@pytest.mark.parametrize(
    "equation", ["...ij,...jk->...ik", "...ij,jk", "i...->...", "a...,b...->ab"]
)
def test_einsum_broadcasts_under_the_ellipsis(equation: str) -> None:
    shapes = {"...ij,...jk->...ik": ((2, 1, 3, 4), (5, 4, 2)), "...ij,jk": ((5, 3, 4), (4, 2))}
    two = shapes.get(equation, ((3, 4), (2, 4)))[: equation.count(",") + 1]
    tensors = [mq.from_numpy(random.standard_normal(s)) for s in two]
    if equation == "a...,b...->ab":  # NumPy does not sum what the ellipsis covers
        expected = np.einsum("ac,bc->ab", *[t.numpy() for t in tensors])
    else:
        expected = np.einsum(equation, *[t.numpy() for t in tensors])
    np.testing.assert_allclose(mq.einsum(equation, *tensors).numpy(), expected)


def test_D100_a_contraction_is_one_bmm() -> None:
    tensors = operands("ij,jk->ik")
    names = operators_of(lambda: mq.einsum("ij,jk->ik", *tensors))
    assert names.count("bmm") == 1
    assert "sum" not in names
    assert "mul" not in names


def test_D100_a_diagonal_is_a_view() -> None:
    tensors = operands("aa->a")
    assert operators_of(lambda: mq.einsum("aa->a", *tensors)) == ["diagonal", "permute", "permute"]


def test_the_operator_takes_a_path() -> None:
    tensors = operands("ij,jk,kb->ib")
    expected = np.einsum("ij,jk,kb->ib", *[t.numpy() for t in tensors])
    result = mq.ops.aten.einsum("ij,jk,kb->ib", tensors, path=[1, 2, 0, 1])
    np.testing.assert_allclose(result.numpy(), expected)


def test_einsum_takes_sublists() -> None:
    a, b = operands("ij,jk")
    np.testing.assert_allclose(mq.einsum(a, [0, 1], b, [1, 2], [0, 2]).numpy(), (a @ b).numpy())


def test_einsum_differentiates() -> None:
    arrays = [t.numpy() for t in operands("aij,ajk->ik")]
    check_gradients(lambda x, y: mq.einsum("aij,ajk->ik", x, y), *arrays)


@pytest.mark.parametrize(
    "equation, words",
    [
        ("ij,jk->il", "subscript l does not appear"),
        ("ij,jk->ii", "appears more than once"),
        ("ij->i", "fewer|more"),
        ("i1,jk->i", "subscripts must be in"),
        ("ijk,jk->i", r"does not match the number of dimensions \(2\) for operand 0"),
        (".ij,jk->i", "not part of any ellipsis"),
    ],
)
def test_einsum_says_what_is_wrong_with_an_equation(equation: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        mq.einsum(equation, *operands("ij,jk"))


def test_einsum_names_shapes_that_do_not_go_together() -> None:
    a, b = mq.zeros(2, 3), mq.zeros(4, 5)
    with pytest.raises(RuntimeError, match="operands do not broadcast"):
        mq.einsum("ij,jk->ik", a, b)
