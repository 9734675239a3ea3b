"""Programs on XLA by JAX: what the engine adds to `test_compiled.py`."""

import importlib.util
import sys

import pytest

import maquette as mq
import maquette.torch as torch

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed; pip install jax"
)
X = mq.linspace(-1, 1, 12).reshape(4, 3)


def test_kernels_of_the_host_are_all_named_before_anything_runs():
    ran = []

    def f(x):
        ran.append(1)
        return torch.special.bessel_j0(x) + x.sin(), torch.special.bessel_y0(x)

    with pytest.raises(mq.compile.CompileError) as error:
        mq.compile(f, backend="jax")(X)
    for name in ("special_bessel_j0", "special_bessel_y0"):
        assert f"aten.{name}.default: " in str(error.value)
    assert "aten.sin" not in str(error.value)
    assert len(ran) == 1


def test_state_is_donated():
    from maquette import nn
    from maquette.optim import SGD

    model = nn.Linear(3, 3)
    optimizer = SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = mq.compile(step, backend="jax")
    compiled(X)
    assert "tf.aliasing_output" in compiled.lowered(X).as_text() or (
        "jax.buffer_donor" in compiled.lowered(X).as_text()
    )


@pytest.fixture
def no_jax(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)


def test_without_jax_the_error_says_how_to_install_it(no_jax):
    with pytest.raises(NotImplementedError, match=r"pip install 'maquette\[jax\]'"):
        mq.compile(lambda x: x, backend="jax")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("steps", [(1, 1, 1, 1), (2, 1, 1, 2), (2, 0, 2, 1), (3, 1, 1, 4)])
def test_convolutions_and_their_gradients(steps, transposed):
    stride, padding, dilation, groups = steps
    name = "conv_transpose2d" if transposed else "conv2d"
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

    def f(x, w):
        out = getattr(torch.nn.functional, name)(x, w, **options)
        return out.detach(), *[g.detach() for g in torch.autograd.grad((out * out).sum(), (x, w))]

    mq.manual_seed(0)
    x, w = mq.randn(2, 4, 9, 8), mq.randn(4, 4 // groups if not transposed else 2, 3, 3)
    given = [t.requires_grad_() for t in (x, w)]
    for a, b in zip(f(*given), mq.compile(f, backend="jax")(*given)):
        assert torch.allclose(a, b, atol=1e-3, rtol=1e-4)


def test_what_is_used_often_is_computed_once():
    def f(x, w):
        made = mq.nn.functional.conv2d(x, w)
        return made.relu(), made.sum((0, 2)), mq.nn.functional.max_pool2d(made, 2)

    given = mq.ones(2, 3, 8, 8), mq.ones(4, 3, 3, 3)
    text = mq.compile(f, backend="jax").lowered(*given).compile().as_text()
    assert "opt-barrier" in text
    assert " convolution(" not in text  # 27 products are one loop


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("options", [{}, {"padding": 2}, {"dilation": 2}, {"stride": 2}])
def test_convolutions_of_groups(groups, options):
    def gradients_of(x, weight):
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        out = mq.nn.functional.conv2d(x, weight, groups=groups, **options)
        return out.detach(), *mq.autograd.grad((out**2).sum(), [x, weight])

    mq.manual_seed(0)
    given = mq.randn(2, 4, 7, 6), mq.randn(8, 4 // groups, 3, 2)
    for a, b in zip(mq.compile(gradients_of, backend="jax")(*given), gradients_of(*given)):
        assert mq.allclose(a, b, atol=1e-4)
