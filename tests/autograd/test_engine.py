"""backward and grad: what leaves get, which calls are refused, hooks."""

from collections.abc import Callable

import pytest

import maquette as mq
from maquette import Tensor
from maquette.autograd import graph
from maquette.dispatch.tls import DispatchState


def leaf(*values: float) -> Tensor:
    return mq.tensor(values, requires_grad=True)


# --- leaves --------------------------------------------------------------------------


def test_T58_only_leaves_fill_their_grad() -> None:
    a = leaf(1.0)
    b = a * 2
    b.sum().backward()
    assert (a.is_leaf, b.is_leaf) == (True, False)
    assert a.grad.tolist() == [2.0]
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert b.grad is None


def test_T58_retain_grad_follows_later_writes() -> None:
    b = leaf(1.0, 2.0) * 2
    b.retain_grad()
    b.mul_(3)
    b.sum().backward()
    assert b.grad.tolist() == [1.0, 1.0]


def test_T58_retain_grad_of_a_base_follows_writes_to_its_views() -> None:
    b = leaf(1.0, 2.0) * 2
    b.retain_grad()
    b[:1].mul_(3)
    b.sum().backward()
    assert b.grad.tolist() == [1.0, 1.0]


def test_T58_retain_grad_of_a_view_follows_writes_to_its_base() -> None:
    b = leaf(1.0, 2.0) * 2
    v = b[:1]
    v.retain_grad()
    b.mul_(3)
    (v * 7).sum().backward()
    assert v.grad.tolist() == [7.0]


def test_T58_retain_grad_of_what_needs_none_is_refused() -> None:
    with pytest.raises(RuntimeError, match="requires_grad=False"):
        mq.zeros(1).retain_grad()


def test_T59_the_first_grad_has_the_leaf_s_strides() -> None:
    a = mq.empty_strided((2, 3), (1, 2)).fill_(1).requires_grad_()
    (a * mq.ones(2, 3)).sum().backward()
    first = a.grad
    assert first.stride() == (1, 2)
    (a * 2).sum().backward()
    assert a.grad is first
    assert first.tolist() == [[3.0] * 3] * 2


def test_T59_a_leaf_with_gaps_gets_a_contiguous_grad() -> None:
    a = mq.zeros(2, 4)[:, :3].detach().requires_grad_()
    (a * 2).sum().backward()
    assert a.grad.is_contiguous()


def test_T59_under_create_graph_grads_add_up_out_of_place() -> None:
    a = leaf(2.0)
    (a * a).sum().backward(create_graph=True)
    first = a.grad
    (a * a).sum().backward(create_graph=True)
    assert a.grad is not first
    assert (first.tolist(), a.grad.tolist()) == ([4.0], [8.0])


def test_T59_under_create_graph_each_leaf_has_a_grad_of_its_own() -> None:
    a, b = leaf(1.0), leaf(2.0)
    (a + b).sum().backward(create_graph=True)
    a.grad.add_(1)
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0], [1.0])


def test_T59_grad_leaves_grad_alone() -> None:
    a = leaf(3.0)
    (g,) = mq.autograd.grad((a * a).sum(), a)
    assert g.tolist() == [6.0]
    assert a.grad is None


def test_T59_inputs_limit_backward() -> None:
    a, b = leaf(3.0), leaf(4.0)
    (a * b).sum().backward(inputs=[a])
    assert a.grad.tolist() == [4.0]
    assert b.grad is None


# --- refusals ------------------------------------------------------------------------


def test_T60_only_scalars_need_no_gradient() -> None:
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (leaf(1.0, 2.0) * 2).backward()


def test_T60_roots_require_grad() -> None:
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        mq.zeros(()).backward()


def test_T60_a_gradient_has_its_output_s_shape() -> None:
    with pytest.raises(RuntimeError, match=r"\[3\].*\[2\]"):
        (leaf(1.0, 2.0) * 2).backward(mq.ones(3))


def test_T60_a_freed_graph_is_refused() -> None:
    a = leaf(1.0)
    out = (a * a).sum()
    out.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        out.backward()


def test_T60_a_graph_that_saved_nothing_runs_again() -> None:
    a = leaf(1.0)
    out = (a + 1).sum()
    out.backward()
    out.backward()
    assert a.grad.tolist() == [2.0]


def test_T60_a_retained_graph_runs_again() -> None:
    a = leaf(2.0)
    out = (a * a).sum()
    out.backward(retain_graph=True)
    out.backward()
    assert a.grad.tolist() == [8.0]


def test_T60_unused_inputs() -> None:
    a, b = leaf(1.0), leaf(1.0)
    out = (a * 2).sum()
    with pytest.raises(RuntimeError, match=r"index 1.*allow_unused=True"):
        mq.autograd.grad(out, [a, b], retain_graph=True)
    assert mq.autograd.grad(out, [a, b], allow_unused=True, retain_graph=True)[1] is None
    assert mq.autograd.grad(out, [a, b], materialize_grads=True)[1].tolist() == [0.0]


def test_T60_inputs_of_grad_require_grad() -> None:
    with pytest.raises(RuntimeError, match="does not require grad"):
        mq.autograd.grad(leaf(1.0).sum(), mq.zeros(1))


@pytest.mark.parametrize(
    "given, words",
    [
        (mq.zeros(2), r"\[3\].*\[2\]"),
        (mq.zeros(3, dtype=mq.float64), r"float64.*float32"),
        (mq.zeros(3, device="meta"), "meta"),
    ],
)
def test_T61_a_grad_is_like_its_tensor(given: Tensor, words: str) -> None:
    p = leaf(1.0, 2.0, 3.0)
    with pytest.raises(RuntimeError, match=words):
        p.grad = given


def test_T61_a_grad_is_another_tensor() -> None:
    p = leaf(1.0)
    with pytest.raises(RuntimeError, match="own grad"):
        p.grad = p
    with pytest.raises(TypeError, match="float"):
        p.grad = 1.0


# --- graphs of graphs ----------------------------------------------------------------


def test_T62_second_derivatives() -> None:
    x = leaf(2.0)
    (first,) = mq.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = mq.autograd.grad(first.sum(), x)
    assert second.tolist() == [12.0]


def test_T62_without_create_graph_there_are_none() -> None:
    x = leaf(2.0)
    (first,) = mq.autograd.grad((x**3).sum(), x)
    with pytest.raises(RuntimeError, match="does not require grad"):
        mq.autograd.grad(first.sum(), x)


def test_T62_broadcast_inputs_get_summed_grads() -> None:
    a = leaf(1.0)
    (a * mq.ones(2, 3)).sum().backward()
    assert a.grad.tolist() == [6.0]


# --- hooks ---------------------------------------------------------------------------


def test_T65_a_hook_replaces_the_gradient() -> None:
    a = leaf(1.0)
    handle = a.register_hook(lambda g: g * 2)
    a.sum().backward()
    assert a.grad.tolist() == [2.0]
    handle.remove()
    a.sum().backward()
    assert a.grad.tolist() == [3.0]


def test_T65_hooks_of_results_run_before_their_node() -> None:
    a = leaf(1.0)
    b = a * 3
    b.register_hook(lambda g: g + 1)
    b.sum().backward()
    assert a.grad.tolist() == [6.0]


def test_T65_a_hook_keeps_the_shape() -> None:
    a = leaf(1.0)
    a.register_hook(lambda g: mq.zeros(2))
    with pytest.raises(RuntimeError, match="hook"):
        a.sum().backward()


def test_T65_post_accumulate_hooks_see_the_grad() -> None:
    a = leaf(1.0)
    seen: list[object] = []
    handle = a.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    a.sum().backward()
    handle.remove()
    a.sum().backward()
    assert seen == [[1.0]]


@pytest.mark.parametrize(
    "register", [Tensor.register_hook, Tensor.register_post_accumulate_grad_hook]
)
def test_T65_hooks_need_grad(register: Callable[..., object]) -> None:
    with pytest.raises(RuntimeError, match="require"):
        register(mq.zeros(1), lambda g: None)


def test_T65_post_accumulate_hooks_are_for_leaves() -> None:
    with pytest.raises(RuntimeError, match="leaf"):
        (leaf(1.0) * 2).register_post_accumulate_grad_hook(lambda t: None)


def test_T59_only_inputs_is_the_sixth_argument_of_grad() -> None:
    x = leaf(2.0)
    (g,) = mq.autograd.grad((x * x).sum(), x, None, None, False, True)
    assert g.tolist() == [4.0]
    with pytest.warns(FutureWarning, match="only_inputs=False does nothing"):
        mq.autograd.grad((x * x).sum(), x, only_inputs=False)


def test_T60_materialized_gradients_of_inputs_that_may_not_be_unused_are_refused() -> None:
    x = leaf(2.0)
    with pytest.raises(ValueError, match="Expected allow_unused to be True"):
        mq.autograd.grad(x.sum(), x, materialize_grads=True, allow_unused=False)


def test_a_leaf_used_twice_gets_its_gradient_once_and_whole() -> None:
    x = leaf(2.0)
    seen: list[float] = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.item()))
    (x * 3 + x * 4).sum().backward()
    assert seen == [7.0]


def test_accumulators_are_named_as_programs_that_draw_graphs_expect() -> None:
    (accumulator, _), *_ = (leaf(1.0) * 2).grad_fn.next_functions
    assert accumulator.name() == "torch::autograd::AccumulateGrad"


@pytest.mark.parametrize("switch", ["set_grad_enabled", "put_back"])
def test_T63_an_interrupt_during_backward_leaves_grad_mode_as_it_was(monkeypatch, switch):
    """Finding 17."""
    x = mq.ones(2, requires_grad=True)
    loss = (x * x).sum()
    calls, real = [], getattr(DispatchState, switch)

    def interrupted(st, given):
        calls.append(given)
        if len(calls) == 1:
            raise KeyboardInterrupt
        real(st, given)

    monkeypatch.setattr(DispatchState, switch, interrupted)
    with pytest.raises(KeyboardInterrupt):
        loss.backward()
    assert mq.is_grad_enabled()
    assert (x * x).requires_grad


CONSTANT = {
    "nll_loss": lambda w: mq.nn.functional.nll_loss(mq.ones(2, 3), mq.tensor([0, 1]), weight=w),
    "binary_cross_entropy": lambda w: mq.nn.functional.binary_cross_entropy(
        mq.full((3,), 0.5), mq.full((3,), 0.5), weight=w
    ),
    "multi_margin_loss": lambda w: mq.nn.functional.multi_margin_loss(
        mq.ones(2, 3), mq.tensor([0, 1]), weight=w
    ),
    "native_batch_norm": lambda w: mq.nn.functional.batch_norm(mq.ones(2, 3), w, mq.ones(3)),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_T18_an_argument_without_a_formula_may_not_require_grad(name: str) -> None:
    # It would be taken for a constant, and its gradient silently missing.
    weight = mq.ones(3)
    CONSTANT[name](weight)
    with pytest.raises(RuntimeError, match=f"'{name}.*' is not differentiable with respect to"):
        CONSTANT[name](weight.requires_grad_())


@pytest.mark.parametrize("function", [mq.igamma, mq.special_zeta])
def test_T18_a_derivative_that_nobody_knows_is_told_in_backward(
    function: Callable[..., Tensor],
) -> None:
    first, other = mq.full((2,), 1.5).requires_grad_(), mq.ones(2)
    with pytest.raises(NotImplementedError, match="is not implemented"):
        function(first, other).sum().backward()
    function(first.detach(), other.requires_grad_()).sum().backward()
    assert other.grad is not None


def test_T18_weights_of_counts_have_no_gradient_and_say_so() -> None:
    counts = mq.bincount(mq.tensor([0, 1, 1]), weights=mq.ones(3).requires_grad_())
    with pytest.raises(RuntimeError, match="bincount is not implemented"):
        counts.sum().backward()


def test_T59_strides_of_dimensions_of_size_1_ask_for_no_copy() -> None:
    leaf = mq.zeros(3, 1, 2).requires_grad_()
    made = []

    class Strided(mq.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, grad: Tensor) -> Tensor:
            made.append(mq.empty_strided((3, 1, 2), (2, 7, 1)).fill_(1))
            return made.pop()

    out = Strided.apply(leaf)
    assert isinstance(out, Tensor)
    out.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.stride() == (2, 7, 1)


class Handled(mq.Tensor):
    """Notes the operators that its handler is given."""

    seen: list[str] = []

    @staticmethod
    def __new__(cls, inner):
        made = mq.Tensor._make_wrapper_subclass(cls, inner.shape)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(str(func))
        return cls(func(*[getattr(a, "inner", a) for a in args], **(kwargs or {})))


def test_gradients_of_a_class_with_a_handler_are_added_to_a_new_tensor() -> None:
    x = Handled(mq.ones(2)).requires_grad_()
    y = (x * 2 + x * 3).sum()
    Handled.seen.clear()
    y.backward()
    assert "aten.add.Tensor" in Handled.seen
    assert "aten.add_.Tensor" not in Handled.seen
    assert x.grad.inner.tolist() == [5, 5]


def test_T65_the_hooks_of_a_tensor_are_shown_and_exchanged() -> None:
    x = mq.ones(2, requires_grad=True)
    assert x._backward_hooks is None
    handle = x.register_hook(lambda grad: grad * 3)
    assert list(x._backward_hooks) == [handle.id]
    x._backward_hooks = {0: lambda grad: grad * 5}
    x.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    x._backward_hooks.clear()
    x.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    with pytest.raises(RuntimeError, match="_backward_hooks is not allowed"):
        del x._backward_hooks


def test_T65_what_is_no_dict_of_hooks_is_kept() -> None:
    x, other = mq.ones(2), mq.ones(3)
    x._backward_hooks = other
    assert x._backward_hooks is other


def test_T58_a_graph_does_not_lead_to_a_leaf_that_got_other_memory_since() -> None:
    x = mq.ones(2, requires_grad=True)
    x.register_hook(lambda grad: grad * 3)
    edge, old = graph.get_gradient_edge(x), x * 2
    with mq.no_grad():
        x.set_(mq.zeros(2))
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        mq.autograd.grad(old.sum(), x)
    assert mq.autograd.grad(old.sum(), edge)[0].tolist() == [6.0, 6.0]
    assert mq.autograd.grad(x.sum(), x)[0].tolist() == [3.0, 3.0]


def test_T59_modes_see_a_leaf_take_its_gradient() -> None:
    seen = []

    class Log(mq.dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = mq.ones(2, requires_grad=True)
    with Log():
        (x * 2).sum().backward()
    assert seen[-1] is mq.ops.aten.detach.default


@pytest.mark.parametrize("times", [1, 20])  # by plain calls; by a function made for the subset
def test_T58_gradients_that_nobody_asks_for_are_not_computed(times: int) -> None:
    asked: list[object] = []

    class Log(mq.dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            asked.extend(args[-1:] if func is mq.ops.aten.convolution_backward.default else ())
            return func(*args, **(kwargs or {}))

    x, w, b = mq.ones(1, 2, 4, requires_grad=True), leaf(1.0, 2.0, 3.0).view(1, 1, 3), leaf(1.0)
    for _ in range(times):
        y = mq.cat([mq.nn.functional.conv1d(x, w.expand(1, 2, 3), b), x[:, :1]], 2)
        with Log():
            found = mq.autograd.grad(y.sum(), x)[0]
    assert (asked, found.tolist()) == (
        [[True, False, False]] * times,
        [[[2, 4, 6, 4], [1, 3, 5, 3]]],
    )


@pytest.mark.parametrize("anomalies", [False, True])
def test_T58_products_for_other_gradients_are_left_out(anomalies: bool) -> None:
    from maquette.torch.utils.flop_counter import FlopCounterMode

    x, w = mq.ones(2, 3, requires_grad=True), mq.ones(3, 5, requires_grad=True)
    y = (x @ w).sum()
    with FlopCounterMode(display=False) as one, mq.autograd.set_detect_anomaly(anomalies):
        mq.autograd.grad(y, x, retain_graph=True)
    with FlopCounterMode(display=False) as both:
        mq.autograd.grad(y, (x, w))
    assert (one.get_total_flops(), both.get_total_flops()) == (60, 120)


def test_T65_a_post_accumulate_hook_returns_nothing_or_the_tensor_itself() -> None:
    a, b = leaf(1.0), leaf(1.0)
    a.register_post_accumulate_grad_hook(lambda t: t.add_(1.0))
    a.sum().backward()
    assert a.item() == 2.0
    b.register_post_accumulate_grad_hook(lambda t: 5)
    with pytest.raises(TypeError, match="hook returned 'int'"):
        b.sum().backward()
