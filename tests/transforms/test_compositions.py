"""Transforms in any order, over data, fakes and symbols, and traced: all of them agree.

A program is a number: it chooses steps, which suit tensors of any rank, and what is around them.
"""

import random

import pytest

import maquette as mq
from maquette.fake.mode import FakeTensorMode
from maquette.fx import make_fx
from maquette.symbolic import ShapeEnv
from maquette.transforms import (
    functionalize,
    grad,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)


def written(y):
    y = y.clone().mul_(0.5)
    y.view(-1)[0].add_(1.0)
    return y


def still(y):
    with mq.no_grad():
        return y.cos()


STEPS = (
    mq.sin,
    mq.tanh,
    lambda y: y * y,
    lambda y: mq.where(y > 0, y, y * 0.1),
    lambda y: y - y.mean(-1, keepdim=True) if y.ndim else y * 2,
    lambda y: y.softmax(-1) if y.ndim else y.sigmoid(),
    lambda y: y.cumsum(-1) if y.ndim else y + 1,
    lambda y: y.logcumsumexp(-1) if y.ndim else y.exp(),
    lambda y: y / (y.norm() + 1),
    lambda y: mq.cat([y, y.sin()], -1)[..., : y.shape[-1]] if y.ndim else -y,
    lambda y: y.unsqueeze(0).expand(2, *y.shape).mean(0),
    lambda y: y * y.var(-1, keepdim=True, correction=0) if y.ndim else y,
    lambda y: mq.nn.functional.layer_norm(y, y.shape[-1:]) if y.ndim else y,
    lambda y: mq.nn.functional.pad(y, (1, 1)).narrow(-1, 1, y.shape[-1]) if y.ndim else y,
    lambda y: y * still(y),
    lambda y: y * y.detach(),
    written,
)
AROUND = (
    lambda f: lambda x: grad(lambda z: f(z).sum())(x),
    lambda f: lambda x: vmap(f)(x) if x.ndim else f(x),
    lambda f: lambda x: vmap(f, in_dims=-1, out_dims=-1)(x) if x.ndim else f(x),
    lambda f: lambda x: jvp(f, (x,), (x.cos(),))[1],
    lambda f: lambda x: pulled(*vjp(f, x)),
    lambda f: lambda x: jacrev(f)(x).sum(0) if x.ndim else jacrev(f)(x),
    lambda f: lambda x: jacfwd(f)(x).sum(0) if x.ndim else jacfwd(f)(x),
    lambda f: functionalize(f),
    lambda f: lambda x: linearize(f, x)[1](x.sin()),
)


def pulled(value, pull):
    return pull(value.cos())[0]


def program(number):
    """A function of one tensor, and the tensor."""
    choose = random.Random(number)
    steps = [choose.choice(STEPS) for _ in range(choose.randint(1, 3))]

    def function(y):
        for step in steps:
            y = step(y)
        return y

    for _ in range(choose.randint(1, 3)):
        function = choose.choice(AROUND)(function)
    shape = choose.choice([(3,), (2, 3)])
    x = mq.linspace(-1.1, 1.3, 3 if len(shape) == 1 else 6, dtype=mq.float64).reshape(shape)
    return function, x


def described(t):
    return tuple(map(int, t.shape)), tuple(map(int, t.stride())), t.dtype


def differences(number):
    """In which settings a program is not what it is on data."""
    function, x = program(number)
    expected = function(x)
    found = []
    for name, env in (("fake", None), ("symbolic", ShapeEnv())):
        mode = FakeTensorMode(shape_env=env)
        given = mode.from_tensor(x)
        with mode:
            if described(function(given)) != described(expected):
                found.append(name)
    for mode_name in ("real", "fake", "symbolic"):
        traced = make_fx(function, tracing_mode=mode_name)(x)
        if not mq.allclose(traced(x), expected, 1e-6, 1e-8, equal_nan=True):
            found.append(f"traced {mode_name}")
    return found


@pytest.mark.parametrize("number", range(12))
def test_T68_compositions_agree_in_every_setting(number):
    assert differences(number) == []


@pytest.mark.verify
def test_T68_many_compositions_agree_in_every_setting():
    assert {n: found for n in range(12, 400) if (found := differences(n))} == {}


def test_T71_second_derivatives_of_a_norm_by_linearize():
    x = mq.tensor([3.0, 4.0])
    along = lambda x: linearize(mq.linalg_vector_norm, x)[1](x * x)  # noqa: E731
    expected = jacfwd(lambda x: jvp(mq.linalg_vector_norm, (x,), (x * x,))[1])(x)
    assert mq.allclose(jacrev(along)(x), expected)


def test_T70_gradients_of_gradients_warn_of_nothing(recwarn):
    grad(lambda x: grad(lambda y: (y * y * y).sum())(x).sum())(mq.ones(2))
    assert not recwarn.list


def test_T68_the_gradient_of_a_norm_has_tangents_that_are_differentiated():
    def gradient(z):
        return grad(lambda y: (y * y.norm()).sum())(z)

    x = mq.linspace(-1.1, 1.3, 3, dtype=mq.float64)
    expected = jacrev(jacrev(gradient))(x) @ x.sin()
    found = jacrev(lambda z: jvp(gradient, (z,), (x.sin(),))[1])(x)
    assert mq.allclose(found, expected)
