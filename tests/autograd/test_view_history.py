"""Views under mutation: gradients go through what a view changes, dtype and bits included."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

import maquette as mq
from maquette import Tensor

tensors = sys.modules["maquette.tensor.up_to_date"]


def pairs() -> Tensor:
    return mq.ones(2, 2, requires_grad=True)


def complex_leaf() -> Tensor:
    return mq.tensor([1 + 2j, 3 - 1j], requires_grad=True)


def test_T25_gradients_go_through_a_mutated_complex_view() -> None:
    """Finding 2: half of the gradient was lost."""
    x = pairs()
    whole = x.clone()
    mq.view_as_complex(whole).mul_(2)
    whole.sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_T25_gradients_go_through_a_mutated_real_view() -> None:
    """Finding 2: backward was refused."""
    a = complex_leaf()
    whole = a.clone()
    mq.view_as_real(whole).mul_(2)
    whole.real.sum().backward()
    assert a.grad.tolist() == [2, 2]


def test_T25_a_mutated_imaginary_part_leaves_the_real_one() -> None:
    a = complex_leaf()
    whole = a.clone()
    whole.imag.mul_(3)
    mq.view_as_real(whole).sum().backward()
    assert a.grad.tolist() == [1 + 3j, 1 + 3j]


def test_T25_a_conjugate_view_follows_its_mutated_base() -> None:
    a = complex_leaf()
    whole = a.clone()
    view = whole.conj()
    whole.mul_(1j)
    view.real.sum().backward()
    assert a.grad.tolist() == [-1j, -1j]


def test_T25_a_mutated_conjugate_view_of_a_slice_changes_the_base() -> None:
    a = complex_leaf()
    whole = a.clone()
    whole[:1].conj().mul_(1j)
    whole.real.sum().backward()
    assert a.grad.tolist() == [1j, 1 + 0j]


def test_T25_a_part_of_a_real_view_of_a_part_is_mutated() -> None:
    a = complex_leaf()
    whole = a.clone()
    mq.view_as_real(whole[1:])[0, 1:].mul_(5)
    mq.view_as_real(whole).sum().backward()
    assert a.grad.tolist() == [1 + 1j, 1 + 5j]


def test_T25_gradients_through_overlapping_elements_add_up() -> None:
    """Finding 60: overlapping as_strided views of a base that is mutated."""
    x = mq.ones(3, requires_grad=True)
    base = x * 1
    view = base.as_strided((2, 2), (1, 1))
    base.mul_(2)
    view.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 2.0]


@pytest.mark.parametrize(
    "overwrite",
    [
        lambda y: y.zero_(),
        lambda y: y.fill_(3),
        lambda y: y.copy_(mq.ones(3)),
        lambda y: y.normal_(),
        lambda y: y.uniform_(),
        lambda y: y.__setitem__(slice(None), 1.0),
        lambda y: y.masked_fill_(mq.tensor([True] * 3), 1.0),
    ],
)
def test_T25_what_is_overwritten_has_gradient_zero(overwrite: object) -> None:
    """Finding 1: it had none."""
    x = mq.ones(3, requires_grad=True)
    y = x * 2
    overwrite(y)  # type: ignore[operator]
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_T58_a_retained_gradient_is_what_hooks_made_of_it() -> None:
    """Finding 4."""
    y = mq.ones(2, requires_grad=True) * 1
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    assert y.grad.tolist() == [2.0, 2.0]


def test_T58_a_hook_stays_with_the_value_and_retain_grad_with_the_tensor() -> None:
    x = mq.ones(2, requires_grad=True)
    y = x * 1
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.mul_(3)
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [30.0, 30.0]


def test_T25_views_require_grad_as_soon_as_their_base_does() -> None:
    base = mq.ones(2)
    view = base[:1]
    base.requires_grad_()
    assert view.requires_grad
    base.requires_grad_(False)
    assert not view.requires_grad


def _parameter() -> object:
    memory = mq.empty(2)
    return mq.nn.Parameter(memory), memory


def _detached() -> object:
    return mq.ones(2).detach().requires_grad_()


def _written() -> object:
    whole = mq.zeros(2)
    whole[0] = mq.ones((), requires_grad=True)
    return whole


@pytest.mark.parametrize("make", [_parameter, _detached, _written])
def test_T25_memory_that_is_shared_costs_later_calls_nothing(
    make: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(tensors, "ask_tensors_first", lambda: asked.append(True))
    make()
    assert not asked  # every operator would ask its arguments, for good
    base = mq.ones(2)
    view = base[0]
    base.requires_grad_()
    assert asked == [True], view


def test_T64_views_of_inference_tensors_have_no_base() -> None:
    """Finding 14."""
    with mq.inference_mode():
        c = mq.ones(2)
    assert not c.view(1, 2)._is_view()


def test_T5_resizing_to_the_same_sizes_is_no_mutation() -> None:
    """Finding 11."""
    a = mq.ones(2, 2)
    a.resize_(2, 2)
    assert a._version == 0
    a.resize_(4)
    assert a._version == 1


def test_T24_an_operand_that_is_the_mutated_tensor_itself_is_refused_in_backward() -> None:
    x = mq.ones(2, requires_grad=True)
    y = x * 2
    y.addcmul_(y, y)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()


def test_T25_turning_a_view_in_place_leaves_its_base_alone() -> None:
    x = mq.ones(2, 2, requires_grad=True)
    base = -x
    view = base[...]
    view.as_strided_((2,), (1,))
    (base.sum() + view.sum()).backward()
    assert x.grad.tolist() == [[-2.0, -2.0], [-1.0, -1.0]]


def test_T25_a_lazily_negated_complex_tensor_has_negated_parts() -> None:
    """Findings 2 and 3: the bit was lost where the dtype changes."""
    z = mq.ops.aten._neg_view(mq.tensor([1 + 2j]))
    assert z.imag.tolist() == [-2.0]
    assert mq.view_as_real(z).tolist() == [[-1.0, -2.0]]


def test_T25_the_gradient_of_a_negated_view_has_its_sign() -> None:
    """Finding 3."""
    x = complex_leaf()
    y = x.detach().neg().requires_grad_()
    mq.ops.aten._neg_view(x).angle().sum().backward()
    y.angle().sum().backward()
    assert (x.grad + y.grad).abs().max().item() < 1e-6


def test_T57_a_leaf_that_requires_grad_no_more_gets_none() -> None:
    x = mq.ones(2, requires_grad=True)
    y = x * 2
    x.requires_grad_(False)
    y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: x * 2, "MulBackward0"),
        (lambda x: x.sum(0), "SumBackward1"),
        (lambda x: x[:], "SliceBackward0"),
        (lambda x: x[...], "AliasBackward0"),
        (lambda x: x.clone().fill_(mq.tensor(1.0)), "FillBackward3"),
        (lambda x: x.clone().copy_(x), "torch::autograd::CopyBackwards"),
        (lambda x: x.clone()[0].zero_(), "AsStridedBackward0"),
        (lambda x: x.clone().squeeze_(), "SqueezeBackward3"),
        (lambda x: x.log1p(), "Log1PBackward0"),
    ],
)
def test_T56_nodes_have_the_names_of_pytorch(make: object, name: str) -> None:
    """Finding 61."""
    x = mq.ones(2, 2, requires_grad=True)
    assert make(x).grad_fn.name() == name  # type: ignore[operator]


def test_T25_a_function_that_mutates_a_view_is_in_the_history_of_the_view() -> None:
    """The view kept the history that it had: half of the gradient, silently."""

    class Double(mq.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 2

    a = mq.ones(1, requires_grad=True)
    view = a.clone()[:]
    Double.apply(view).backward()
    assert a.grad.tolist() == [2.0]


def test_T25_the_gradient_of_a_gradient_through_a_mutated_view() -> None:
    x = mq.tensor([1.0, -2.0], requires_grad=True)
    y = x.clone().view_as(x).exp_()
    (g,) = mq.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = mq.autograd.grad(g.sum(), x)
    assert mq.allclose(second, x.detach().exp())


def test_T58_hooks_see_that_no_gradient_came() -> None:
    seen = []
    first, second = mq.ones(2, requires_grad=True).unbind()
    first.register_hook(lambda g: seen.append(g))
    second.backward()
    assert seen == [None]


def test_T60_backward_to_inputs_runs_the_hooks_of_leaves() -> None:
    seen = []
    x, other = mq.ones(1, requires_grad=True), mq.ones(1, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.item()))
    (x * 2 + other).sum().backward(inputs=[x])
    assert seen == [2.0]
    assert other.grad is None


def test_T49_a_view_that_was_mutated_against_the_rules_can_be_printed() -> None:
    a = mq.ones(1, requires_grad=True)
    with mq.no_grad():
        b = a[:]
        b *= 2
    assert repr(b) == "tensor([2.], grad_fn=<Invalid>)"


def test_T24_nothing_is_saved_for_a_parameter_whose_gradient_goes_nowhere() -> None:
    """Finding 60: such a view requires grad because its base, a leaf, does."""
    x, leaf = mq.ones(2, requires_grad=True), mq.ones(2, requires_grad=True)
    with mq.no_grad():
        view = leaf[:]
    factor = x.abs()
    product = factor * view
    assert product.grad_fn._saved_self is None
    factor.zero_()
    product.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_T56_a_view_of_a_turned_view_is_one_of_its_own() -> None:
    """Finding 60: once the base is mutated, the last step back to it is as_strided."""
    base = mq.ones(2, requires_grad=True) * 1
    view = mq._neg_view(base).view(-1)
    base.mul_(2)
    assert view.grad_fn.name() == "AsStridedBackward0"


class Plain(Tensor):
    pass


def test_D136_backward_asks_no_class_about_its_own_operators() -> None:
    """Finding 60: gradients are added up in place, and are plain tensors inside."""
    called = []

    class Telling(Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            called.append(getattr(func, "__name__", ""))
            return super().__torch_function__(func, types, args, kwargs)

    leaf = mq.ones(2, requires_grad=True)
    x = leaf.as_subclass(Telling)
    loss = (x * x).sum()
    called.clear()
    loss.backward()
    assert [name for name in called if name != "__get__"] == ["backward"]
    assert type(leaf.grad) is Tensor


def test_D136_the_gradient_is_of_the_class_of_the_input() -> None:
    """Finding 60: `grad` is a call as any other."""
    x = mq.ones(2, requires_grad=True).as_subclass(Plain)
    (found,) = mq.autograd.grad((x * x).sum(), x)
    assert type(found) is Plain
    assert found._version == 1


def test_T60_a_mutated_view_is_differentiated_once() -> None:
    """Finding 60: even if the write saved nothing, its backward is gone."""
    x = mq.ones(2, requires_grad=True)
    y = x - 1
    y[:1].zero_()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()


def test_T60_a_leaf_that_became_the_result_of_a_call_takes_no_gradient() -> None:
    """Finding 60: the tensor is no leaf any more when its gradient comes."""
    x = mq.ones(2, requires_grad=True)
    y = x - 1
    x.detach_().copy_(y)
    with pytest.raises(RuntimeError, match="leaf variable has been moved into the graph interior"):
        y.sum().backward()


def test_T64_an_inference_tensor_stays_one_when_it_is_laid_anew() -> None:
    """Finding 60: a vector times a matrix ends in squeeze_."""
    with mq.inference_mode():
        assert (mq.ones(2) @ mq.ones(2, 2)).is_inference()
        assert mq.ones(2, 1).t_().is_inference()
        assert mq.ones(2).resize_(4).is_inference()


def test_T25_a_view_of_another_dtype_that_was_turned_in_place_is_turned_back() -> None:
    """Finding 2: PyTorch leaves this gradient turned."""
    grads = []
    for turn in ("transpose", "transpose_"):
        leaf = mq.zeros(2, 2, dtype=mq.complex64, requires_grad=True)
        view = getattr(mq.view_as_real(leaf.clone()), turn)(0, 1)
        view += 1
        view.backward(mq.arange(8.0).view(2, 2, 2))
        grads.append(leaf.grad)
    assert mq.equal(*grads)


def test_a_view_is_made_again_of_another_root_and_turned_back() -> None:
    x = mq.arange(6.0)
    part = x.view(2, 3)[1]
    again = part._view_func_unsafe(mq.ones(6))
    assert again.tolist() == [1.0, 1.0, 1.0]
    whole = part._rev_view_func_unsafe(part.detach())
    assert whole.tolist() == x.tolist()
    assert x._view_func_unsafe(mq.ones(6)) is None


@pytest.mark.parametrize("view", [mq.conj, mq.view_as_real, lambda t: t.conj().imag])
def test_a_view_made_again_keeps_its_conjugation(view) -> None:
    base, other = mq.tensor([1 + 2j, 3 - 1j]), mq.tensor([5 + 1j, 2 + 2j])
    again = view(base)._view_func(other)
    assert again.tolist() == view(other).tolist()
    turned = view(base)
    assert mq.equal(turned._rev_view_func_unsafe(turned.detach()), base)
