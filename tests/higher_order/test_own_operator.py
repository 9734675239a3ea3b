"""The operator of docs/higher_order.md: what the page says works."""

from pathlib import Path

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.dispatch import HigherOrderOperator
from maquette.higher_order.utils import register_fake
from maquette.transforms import functionalize, grad, vmap

PAGE = Path(__file__).parents[2] / "docs" / "higher_order.md"
X = mq.tensor([0.5, 2.0])


@pytest.fixture(scope="module")
def twice():
    code = PAGE.read_text("utf-8").split("## Your own")[1].split("```python\n")[1].split("```")[0]
    names = {"__name__": "own_operator"}
    exec(code, names)
    return names["twice"]


def test_eager_and_recorded(twice):
    x = X.clone().requires_grad_()
    out = twice(mq.sin, x)
    assert torch.equal(out, X.sin().sin())
    out.sum().backward()
    assert torch.allclose(x.grad, X.sin().cos() * X.cos())


def test_transformed(twice):
    assert torch.equal(vmap(lambda x: twice(mq.sin, x))(X), X.sin().sin())
    assert torch.allclose(grad(lambda x: twice(mq.sin, x).sum())(X), X.sin().cos() * X.cos())


def test_functionalized(twice):
    found = functionalize(lambda x: twice(lambda y: y.clone().add_(1), x))(X)
    assert torch.equal(found, X + 2)


def test_fake_and_traced(twice):
    with mq.FakeTensorMode() as mode:
        assert twice(mq.sin, mode.from_tensor(X)).shape == (2,)
    traced = mq.fx.make_fx(lambda x: twice(mq.sin, x))(X)
    assert [n.target for n in traced.graph.nodes if n.op == "call_function"] == [twice]
    assert torch.equal(traced(X + 1), (X + 1).sin().sin())


def test_a_missing_rule_names_operator_and_place():
    class Bare(HigherOrderOperator):
        def __init__(self):
            super().__init__("bare_operator")

        def __call__(self, x):
            return super().__call__(x)

    with pytest.raises(NotImplementedError, match=r"bare_operator.*AutogradCPU"):
        Bare()(X)
    with pytest.raises(TypeError, match="expected a HigherOrderOperator"):
        register_fake(mq.ops.aten.sin)
