"""Weights of a given length along a dimension."""

import pytest
from gradcheck import check_gradients

from maquette.api import functions as mq


@pytest.mark.parametrize("dim", [0, 2])
def test_a_weight_of_given_lengths_is_one_operator_with_its_gradients(dim):
    shape = [3 if d == dim else 1 for d in range(3)]
    v, g = mq.randn(3, 2, 3).double(), mq.rand(shape).double()
    found = mq._weight_norm(v, g, dim)
    others = [d for d in range(3) if d != dim]
    assert mq.allclose(mq.linalg_vector_norm(found, 2, others, True), g)
    check_gradients(lambda v, g: mq._weight_norm(v, g, dim), v.numpy(), g.numpy())
