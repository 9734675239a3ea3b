"""Passes of graphs that come often are a program of arrays: the engine's gradients, bit by bit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import maquette as mq
from maquette.autograd.anomaly import detect_anomaly
from maquette.dispatch.modes import TorchDispatchMode
from maquette.library import Library
from maquette.nn import functional as F
from maquette.transforms import grad, grad_and_value, gradients, replayed, vmap

W = mq.linspace(-1, 1, 32).reshape(4, 8)
V = mq.linspace(1, -1, 8).reshape(8, 1)
OFTEN = replayed.OFTEN + 1
Tensors = Callable[..., Any]


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    replayed._known.clear()
    replayed._counts.clear()


def often(f: Callable[[], Any]) -> Any:
    """What the last of so many calls gives that a program is there."""
    return [f() for _ in range(OFTEN)][-1]


def without_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: object, **kwargs: object) -> None:
        raise AssertionError("the engine was asked")

    monkeypatch.setattr(gradients, "run_backward", refused)


FUNCTIONS: dict[str, Callable[[mq.Tensor], mq.Tensor]] = {
    "a product": lambda x: (x * x).sum(),
    "a chain": lambda x: x.sin().exp().mean(),
    "products of matrices": lambda x: (x @ x.t()).relu().sum(),
    "a network": lambda x: F.mse_loss(mq.tanh(x @ W) @ V, mq.ones(4, 1)),
    "a constant gradient": lambda x: x.sum() * 3.5,
    "a layer norm": lambda x: F.layer_norm(x, (4,)).pow(2).sum(),
    "a cross entropy": lambda x: F.cross_entropy(x, mq.arange(4)),
    "lists and views": lambda x: mq.cat([x, x * 2], 0).select(0, 2).sum(),
    "indices": lambda x: x[1].sum() * x[0, 0],
    "equal maxima": lambda x: (x * 0 + x.amax(1)).sum(),
    "three paths": lambda x: (x.sin() + x.cos() + x.exp() * x).sum(),
    "several results": lambda x: mq.var_mean(x, 1)[0].sum() + x.split(2)[1].sum(),
    "a number on the left": lambda x: (1 / (x + 3) - 2.5 * x).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_pass_that_comes_often_gives_the_engines_gradient(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, x = grad(FUNCTIONS[name]), mq.linspace(-1, 1, 16).reshape(4, 4).sin()
    other = x.flip(1).contiguous() * 2
    expected = [f(x), f(other)]
    often(lambda: f(x))
    without_engine(monkeypatch)
    assert all(mq.equal(a, b) for a, b in zip([f(x), f(other)], expected))


def test_gradients_of_several_arguments_have_zeros_where_nothing_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def f(a: mq.Tensor, b: dict[str, mq.Tensor]) -> mq.Tensor:
        return (a * b["used"]).sum()

    run = grad_and_value(f, argnums=(0, 1))
    given = mq.arange(3.0), {"used": mq.ones(3) * 2, "idle": mq.ones(2)}
    (first, of_dict), value = often(lambda: run(*given))
    without_engine(monkeypatch)
    assert mq.equal(run(*given)[0][0], first)
    assert first.tolist() == [2.0, 2.0, 2.0]
    assert of_dict["used"].tolist() == [0.0, 1.0, 2.0]
    assert of_dict["idle"].tolist() == [0.0, 0.0]
    assert value.item() == 6.0


@pytest.mark.parametrize("f", [lambda x: x.sum(), lambda x: (x * x).sum(), lambda x: x.exp().sum()])
def test_each_gradient_is_the_callers_own(f: Tensors) -> None:
    x = mq.ones(3)
    expected = grad(f)(x).clone()
    often(lambda: grad(f)(x)).mul_(0)
    assert mq.equal(grad(f)(x), expected)
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_numbers_that_a_function_uses_are_part_of_what_is_known() -> None:
    x = mq.ones(2)
    often(lambda: grad(lambda x: (x * 2.0).sum())(x))
    assert grad(lambda x: (x * 3.0).sum())(x).tolist() == [3.0, 3.0]
    zeros = [often(lambda: grad(lambda x: (x * z).sum())(x)) for z in (0.0, -0.0)]  # noqa: B023
    assert [str(z[0].item()) for z in zeros] == ["0.0", "-0.0"]


def test_hooks_of_the_function_are_called_in_each_pass() -> None:
    seen: list[object] = []

    def f(x: mq.Tensor) -> mq.Tensor:
        y = x * x
        y.register_hook(seen.append)
        return y.sum()

    often(lambda: grad(f)(mq.ones(2)))
    assert len(seen) == OFTEN


def test_a_hook_of_the_argument_is_called_in_each_pass() -> None:
    seen: list[object] = []

    def f(x: mq.Tensor) -> mq.Tensor:
        x.register_hook(seen.append)
        return (x * x).sum()

    often(lambda: grad(f)(mq.ones(2)))
    assert len(seen) == OFTEN


class Names(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func._opname)
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_the_pass_of_a_known_graph() -> None:
    f, x = grad(lambda x: x.sin().sum()), mq.ones(2)
    often(lambda: f(x))
    with Names() as names:
        f(x)
    assert "cos" in names.seen


def test_a_known_graph_is_differentiated_again_and_batched() -> None:
    f, x = grad(lambda x: (x * x * x).sum()), mq.arange(3.0)
    often(lambda: f(x))
    assert grad(lambda x: f(x).sum())(x).tolist() == [0.0, 6.0, 12.0]
    assert vmap(f)(x[:, None]).flatten().tolist() == [0.0, 3.0, 12.0]
    leaf = mq.arange(3.0, requires_grad=True)
    f(leaf).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [0.0, 6.0, 12.0]


def test_the_gradient_by_a_captured_tensor_is_recorded() -> None:
    w = mq.ones(2, requires_grad=True)
    f = grad(lambda x: (x * x * w).sum())
    often(lambda: f(mq.ones(2))).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [2.0, 2.0]


def test_what_was_mutated_since_is_refused_as_ever() -> None:
    def f(x: mq.Tensor) -> mq.Tensor:
        y = x * 1
        z = y.exp()
        z.add_(1)
        return z.sum()

    x = mq.ones(2)
    for _ in range(OFTEN):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            grad(f)(x)


def test_random_numbers_differ_in_each_pass() -> None:
    f = grad(lambda x: F.dropout(x, 0.5).sum())
    found = [tuple(f(mq.ones(32)).tolist()) for _ in range(OFTEN)]
    assert len(set(found)) > 1


def test_a_kernel_that_is_registered_later_is_run() -> None:
    f, x = grad(lambda x: x.sin().sum()), mq.zeros(2)
    assert often(lambda: f(x)).tolist() == [1.0, 1.0]
    library = Library("aten", "IMPL")
    try:
        with pytest.warns(UserWarning, match="overridden"):
            library.impl("cos", lambda t: mq.full_like(t, 7.0), "CPU")
        assert often(lambda: f(x)).tolist() == [7.0, 7.0]
    finally:
        library._destroy()
    assert often(lambda: f(x)).tolist() == [1.0, 1.0]


def test_a_search_for_nan_checks_the_pass_of_a_known_graph() -> None:
    f, x = grad(lambda x: x.sqrt().sum() * 0), mq.zeros(2)
    often(lambda: f(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with detect_anomaly(), pytest.raises(RuntimeError, match="nan"):
            f(x)


def test_gradients_of_tensors_without_data_have_none() -> None:
    f = grad(lambda x: (x * 2).sum())
    often(lambda: f(mq.ones(2)))
    assert often(lambda: f(mq.ones(2, device="meta"))).device.type == "meta"
    with mq.FakeTensorMode() as mode:
        fake = mq.ones(2)
    assert often(lambda: f(fake)).fake_mode is mode


def test_large_tensors_go_through_the_engine() -> None:
    x = mq.ones(replayed.LARGE + 1)
    often(lambda: grad(lambda x: (x * x).sum())(x))
    assert not replayed._known


@pytest.mark.parametrize("dtype", [mq.float64, mq.bfloat16, mq.complex64])
def test_other_dtypes_agree(dtype: mq.dtype) -> None:
    x = mq.linspace(-1, 1, 4).to(dtype)
    f = grad(lambda x: (x * x.conj()).real.sum())
    expected = f(x)
    assert mq.equal(often(lambda: f(x)), expected)


def test_data_that_a_formula_reads_is_read_in_each_pass() -> None:
    """The gradient of a product looks whether an element is zero."""
    f = grad(lambda x: x.prod())
    often(lambda: f(mq.tensor([1.0, 2.0, 3.0])))
    assert f(mq.tensor([0.0, 2.0, 3.0])).tolist() == [6.0, 0.0, 0.0]
