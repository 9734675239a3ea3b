"""Nodes, edges, hooks on them and on what they save (findings 21 and 22)."""

from collections.abc import Callable
from typing import Any

import pytest

import maquette as mq
from maquette import Tensor
from maquette.autograd import graph


def leaf() -> Tensor:
    return mq.tensor([1.0, 2.0], requires_grad=True)


# --- hooks on nodes ------------------------------------------------------------------------------


def test_T58_hooks_run_in_pytorchs_order() -> None:
    seen: list[str] = []

    def note(name: str) -> Callable[..., None]:
        return lambda *grads: seen.append(name)

    a = leaf()
    b = a * 2
    b.grad_fn.register_hook(note("after"))
    b.grad_fn.register_prehook(note("before"))
    b.register_hook(note("tensor"))
    accumulator = b.grad_fn.next_functions[0][0]
    accumulator.register_hook(note("leaf after"))
    accumulator.register_prehook(note("leaf before"))
    a.register_hook(note("leaf tensor"))
    a.register_post_accumulate_grad_hook(note("accumulated"))
    b.sum().backward()
    leafs = ["leaf tensor", "leaf before", "accumulated", "leaf after"]
    assert seen == ["tensor", "before", "after", *leafs]


def test_T58_hooks_on_nodes_may_replace_gradients() -> None:
    a = leaf()
    b = a * 2
    b.grad_fn.register_prehook(lambda grads: (grads[0] + 1,))
    b.grad_fn.register_hook(lambda gone, came: (gone[0] * 10, None))
    b.sum().backward()
    assert a.grad.tolist() == [40.0, 40.0]


@pytest.mark.parametrize(
    ("answer", "error"), [(3, "expected tuple"), ((), "incorrect number of values")]
)
def test_T58_what_hooks_on_nodes_return_is_checked(answer: object, error: str) -> None:
    b = leaf() * 2
    b.grad_fn.register_prehook(lambda grads: answer)
    with pytest.raises((TypeError, RuntimeError), match=error):
        b.sum().backward()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda g: 3, "expected Variable, but hook returned 'int'"),
        (lambda g: g.sum(), "changed the size"),
        (lambda g: g.double(), "changed the type"),
    ],
)
def test_T58_what_hooks_on_tensors_return_is_checked(change: Any, error: str) -> None:
    b = leaf() * 2
    b.register_hook(change)
    with pytest.raises((TypeError, RuntimeError), match=error):
        b.sum().backward()


def test_T56_nodes_carry_the_users_notes() -> None:
    node = (leaf() * 2).grad_fn
    node.metadata["who"] = "me"
    assert node.metadata == {"who": "me"}


# --- what nodes saved ----------------------------------------------------------------------------


def test_T66_nodes_show_what_they_saved() -> None:
    x = leaf()
    assert (x * x).grad_fn._saved_self is x
    assert (x**3).grad_fn._saved_exponent == 3
    e = x.exp()
    assert e.grad_fn._saved_result.grad_fn is e.grad_fn


def test_T66_what_was_freed_is_not_shown() -> None:
    y = leaf().exp()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.grad_fn._saved_result  # noqa: B018  # asking refuses


@pytest.mark.parametrize("name", ["self", "other"])
def test_T66_a_saved_tensor_may_have_hooks_of_its_own(name: str) -> None:
    x = leaf()
    y = x * x
    raw = getattr(y.grad_fn, f"_raw_saved_{name}")
    raw.register_hooks(lambda t: t.tolist(), lambda kept: mq.tensor(kept) * 10)
    y.sum().backward()
    assert x.grad.tolist() == [11.0, 22.0]


def test_T66_a_saved_result_may_have_hooks_of_its_own() -> None:
    x = leaf()
    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t * 0, lambda t: t)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_T66_a_saved_tensor_has_one_pair_of_hooks() -> None:
    raw = leaf().exp().grad_fn._raw_saved_result
    raw.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="only one pair of hooks"):
        raw.register_hooks(lambda t: t, lambda t: t)


def test_T66_hooks_on_saved_tensors_may_be_disabled() -> None:
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not"):
        graph.saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()


def test_T66_what_is_saved_on_cpu_comes_back() -> None:
    x = leaf()
    with graph.save_on_cpu():
        y = x * x
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_T66_saved_tensors_may_be_mutated_where_that_is_allowed() -> None:
    x = leaf()
    with graph.allow_mutation_on_saved_tensors() as saved:
        y = x.clone()
        z = y**2
        y.sin_()
        assert len(saved.cloned) == 1
        z.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_T66_backward_outside_of_where_mutation_was_allowed_is_refused() -> None:
    x = leaf()
    with graph.allow_mutation_on_saved_tensors():
        y = x**2
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation"):
        y.sum().backward()


# --- edges ---------------------------------------------------------------------------------------


def test_T60_gradients_are_taken_from_edge_to_edge() -> None:
    x = leaf()
    y = x * x
    out, into = graph.get_gradient_edge(y), graph.get_gradient_edge(x)
    (found,) = mq.autograd.grad(out, into, mq.ones(2))
    assert found.tolist() == [2.0, 4.0]


def test_T60_what_requires_no_grad_has_no_edge() -> None:
    with pytest.raises(RuntimeError, match="does not require gradients"):
        graph.get_gradient_edge(mq.ones(2))


def test_T58_a_hook_on_several_tensors_waits_for_those_that_backward_reaches() -> None:
    a, b, seen = leaf(), leaf(), []
    handle = graph.register_multi_grad_hook(
        (a, b), lambda grads: seen.append([g is not None for g in grads])
    )
    (a * 2 + b).sum().backward()
    (a * 3).sum().backward()
    handle.remove()
    (a + b).sum().backward()
    assert seen == [[True, True], [True, False]]


def test_T58_a_hook_on_any_of_several_tensors_runs_once_a_backward() -> None:
    a, b, seen = leaf(), leaf(), []
    graph.register_multi_grad_hook((a, b), seen.append, mode="any")
    (a * 2 + b * 3).sum().backward()
    assert len(seen) == 1


def test_T24_a_version_may_be_counted_by_hand() -> None:
    t = mq.ones(2)
    graph.increment_version([t, t[:1]])
    assert t._version == 2


# --- ways to run ---------------------------------------------------------------------------------


def test_T60_batched_gradients_have_a_row_each() -> None:
    x = leaf()
    (found,) = mq.autograd.grad(x * 2, x, mq.eye(2), is_grads_batched=True)
    assert found.tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_T57_backward_within_backward_goes_200_deep() -> None:
    """Finding 23."""

    class Nested(mq.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, depth: int) -> Tensor:
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
            if ctx.depth:
                with mq.enable_grad():
                    inner = mq.ones(1, requires_grad=True)
                    Nested.apply(inner, ctx.depth - 1).sum().backward()
                    assert inner.grad.item() == 1
            return grad, None

    x = mq.ones(1, requires_grad=True)
    Nested.apply(x, 200).sum().backward()
    assert x.grad.item() == 1


def test_T57_threads_are_allowed_and_forbidden_as_in_pytorch() -> None:
    from maquette.autograd.grad_mode import is_multithreading_enabled

    with mq.autograd.set_multithreading_enabled(False):
        assert not is_multithreading_enabled()
    assert is_multithreading_enabled()


def test_T24_a_saved_tensor_that_was_detached_in_place_is_refused() -> None:
    # A second derivative would take it for a constant.
    x = mq.tensor(1.0, requires_grad=True)
    middle = x.clone()
    out = middle.sin()
    middle.detach_()
    with pytest.raises(RuntimeError, match="detached in-place"):
        mq.autograd.grad(out, x, create_graph=True)


def test_T66_hooks_that_backward_enters_end_with_it() -> None:
    packed: list[mq.Tensor] = []
    late = mq.autograd.graph.saved_tensors_hooks(packed.append, lambda t: t)
    x = mq.ones(2, requires_grad=True)
    y = x.clone()
    y.register_hook(lambda grad: late.__enter__())
    y.sum().backward()
    (x * x).sum()
    assert packed == []


def test_T66_a_pack_hook_gets_the_tensor_itself() -> None:
    x = mq.ones(2, requires_grad=True)
    seen: list[mq.Tensor] = []
    with mq.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        x.sin()
    assert seen[0] is x


def test_T60_an_edge_of_one_number_starts_from_one() -> None:
    x = mq.tensor([1.0, 2.0], requires_grad=True)
    edge = mq.autograd.graph.get_gradient_edge((x * x).sum())
    assert mq.autograd.grad(edge, x)[0].tolist() == [2, 4]
    several = mq.autograd.graph.get_gradient_edge(x * x)
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        mq.autograd.grad(several, x)


def test_T58_hooks_before_a_node_run_where_its_gradient_is_accumulated() -> None:
    x = mq.ones(2, requires_grad=True)
    y = x.clone()
    seen: list[object] = []
    assert y.grad_fn is not None
    y.grad_fn.register_prehook(seen.append)
    y.sum().backward(inputs=[y])
    assert len(seen) == 1


def test_T60_undefined_gradients_reach_functions_as_zeros() -> None:
    from maquette.autograd.probing_nodes import DelayedError, UndefinedGrad

    x = mq.ones(2, requires_grad=True)
    UndefinedGrad()(x * 2).sum().backward()
    assert x.grad is None
    with pytest.raises(RuntimeError, match="late"):
        DelayedError("late", 1)(x).sum().backward()


def test_T58_a_hook_on_what_backward_passes_by_is_not_run() -> None:
    x = mq.ones(2, requires_grad=True)
    y = mq.ones(2, requires_grad=True)
    middle = x.clone()
    middle.register_hook(lambda grad: pytest.fail("its gradient is not wanted"))
    mq.autograd.grad((middle * y).sum(), y)


def test_T59_sparse_gradients_of_an_element_each_are_merged() -> None:
    class Fixed(mq.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: mq.Tensor, at: int) -> mq.Tensor:
            ctx.at = at  # type: ignore[attr-defined]  # any attribute
            return x * 1

        @staticmethod
        def backward(ctx: object, grad: mq.Tensor) -> tuple[mq.Tensor, None]:
            at = ctx.at  # type: ignore[attr-defined]
            return mq.sparse_coo_tensor([[at]], [1.0], (3,)), None

    x = mq.ones(3, requires_grad=True)
    (Fixed.apply(x, 2) + Fixed.apply(x, 0)).sum().backward()
    assert x.grad._indices().tolist() == [[0, 2]]


def test_T66_nodes_show_the_sizes_that_their_formulas_need() -> None:
    x = mq.ones(2, 3, requires_grad=True)
    assert x.sum(0).grad_fn._saved_self_sym_sizes == (2, 3)
    assert x.view(6).grad_fn._saved_self_sym_sizes == (2, 3)


def test_a_gradient_of_a_scalar_that_was_broadcast_is_no_view() -> None:
    x = mq.tensor(2.0, requires_grad=True)
    (grad,) = mq.autograd.grad((x.expand(2) ** 2).sum(), x, create_graph=True)
    assert grad._base is None
    assert grad.grad_fn is not None
    assert grad.grad_fn.name() == "SumBackward0"


def test_T59_a_sparse_gradient_that_nobody_else_holds_is_taken_uncopied() -> None:
    seen: list[int] = []
    weight, rows = mq.ones(4, 2, requires_grad=True), mq.tensor([1, 3])
    out = mq.nn.functional.embedding(rows, weight, sparse=True)
    out.grad_fn.register_hook(lambda came, gone: seen.append(came[0]._values().data_ptr()))
    out.sin().sum().backward()
    assert weight.grad._values().data_ptr() == seen[0]


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (lambda a, b: a * b, "ba"),  # other, self
        (lambda a, b: mq.addcmul(a, a, b), "ab"),  # tensor1, tensor2
        (lambda a, b: mq.hypot(a, b), "ba="),  # other, self, result
    ],
)
def test_hooks_see_what_is_saved_by_name_arguments_first(
    compute: Callable[[Tensor, Tensor], Tensor], expected: str
) -> None:
    a, b = mq.tensor([3.0], requires_grad=True), mq.tensor([4.0], requires_grad=True)
    seen = []

    def pack(t: Tensor) -> Tensor:
        seen.append({3.0: "a", 4.0: "b"}.get(t.item(), "="))
        return t

    with graph.saved_tensors_hooks(pack, lambda t: t):
        compute(a, b)
    assert "".join(seen) == expected


def test_an_accumulator_prints_as_its_class() -> None:
    x = mq.ones(1, requires_grad=True)
    accumulator, _ = (x * 2).grad_fn.next_functions[0]
    assert repr(accumulator).startswith("<AccumulateGrad object at")
    assert accumulator.name() == "torch::autograd::AccumulateGrad"
