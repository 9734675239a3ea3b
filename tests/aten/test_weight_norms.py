"""Weights of a given length along a dimension."""

import warnings

import pytest
from gradcheck import check_gradients

import maquette
from maquette.api import functions as mq
from maquette.torch.autograd.gradcheck import gradgradcheck


@pytest.mark.parametrize("dim", [0, 2])
def test_a_weight_of_given_lengths_is_one_operator_with_its_gradients(dim):
    shape = [3 if d == dim else 1 for d in range(3)]
    v, g = mq.randn(3, 2, 3).double(), mq.rand(shape).double()
    found = mq._weight_norm(v, g, dim)
    others = [d for d in range(3) if d != dim]
    assert mq.allclose(mq.linalg_vector_norm(found, 2, others, True), g)
    check_gradients(lambda v, g: mq._weight_norm(v, g, dim), v.numpy(), g.numpy())


def test_the_second_derivative_of_a_weight_norm_counts_the_norms() -> None:
    v = mq.rand(3, 4, dtype=maquette.float64).requires_grad_()
    g = mq.rand(3, 1, dtype=maquette.float64).requires_grad_()
    assert gradgradcheck(lambda v, g: mq._weight_norm(v, g, 0), (v, g))


def test_weight_norms_are_batched() -> None:
    v, g = mq.rand(5, 3, 4), mq.rand(3, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = maquette.func.vmap(lambda v: mq._weight_norm(v, g, 0))(v)
    assert mq.allclose(found, mq.stack([mq._weight_norm(x, g, 0) for x in v]))
