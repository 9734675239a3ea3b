"""Operators of a namespace of its own for every test."""

import itertools

import pytest

import maquette as mq
from maquette.library import Library, custom_op

_numbers = itertools.count()


@pytest.fixture
def ns():
    """A namespace that no other test uses."""
    return f"opcheck_test_{next(_numbers)}"


@pytest.fixture
def lib(ns):
    """A FRAGMENT library of `ns`, destroyed after the test."""
    made = Library(ns, "FRAGMENT")
    yield made
    made._destroy()


@pytest.fixture
def square(ns):
    """A right operator: x * x, with a fake and a formula."""

    @custom_op(f"{ns}::square", mutates_args=())
    def square(x: mq.Tensor) -> mq.Tensor:
        return x * x

    square.register_fake(lambda x: mq.empty_like(x))
    square.register_autograd(
        lambda ctx, grad: 2 * ctx.saved_tensors[0] * grad,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return square
