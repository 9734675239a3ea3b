"""Writes and the graph: versions of saved tensors, views and their bases, refusals."""

import pytest

import maquette as mq
from maquette import Tensor
from maquette.dispatch.modes import TorchDispatchMode


def leaf(*values: float) -> Tensor:
    return mq.tensor(values, requires_grad=True)


# --- saved tensors -------------------------------------------------------------------


def test_T24_a_written_output_that_was_saved_is_refused() -> None:
    e = leaf(1.0, 2.0).exp()
    e.add_(1)
    with pytest.raises(RuntimeError, match=r"\[2\].*output 0 of .*version 1; expected version 0"):
        e.sum().backward()


def test_T24_a_written_input_that_was_saved_is_refused() -> None:
    b = leaf(1.0) * 1
    out = b * b
    b.add_(1)
    with pytest.raises(RuntimeError, match=r"MulBackward0|AddBackward0"):
        out.sum().backward()


def test_T24_a_write_through_an_alias_counts() -> None:
    x = mq.ones(2)
    out = leaf(1.0, 2.0) * x
    x.detach()[:1].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        out.sum().backward()


def test_T24_what_was_not_saved_may_be_written() -> None:
    a = leaf(1.0)
    b = a + 1
    b.mul_(2)
    b.sum().backward()
    assert a.grad.tolist() == [2.0]


# --- views and bases -----------------------------------------------------------------


def test_T25_a_write_to_the_base_updates_the_history_of_views() -> None:
    a = leaf(1.0, 1.0, 1.0, 1.0)
    b = a.clone()
    v = b[:2]
    b.mul_(3)
    v.sum().backward()
    assert a.grad.tolist() == [3.0, 3.0, 0.0, 0.0]


def test_T25_a_write_to_a_view_rewrites_the_history_of_the_base() -> None:
    a = leaf(1.0, 1.0, 1.0)
    b = a.clone()
    b[:2].mul_(3)
    b.sum().backward()
    assert a.grad.tolist() == [3.0, 3.0, 1.0]


def test_T25_the_base_of_a_written_view_may_become_no_leaf() -> None:
    w = leaf(2.0)
    x = mq.zeros(3)
    x[:1].add_(w)
    assert x.requires_grad
    assert not x.is_leaf
    x.sum().backward()
    assert w.grad.tolist() == [1.0]


def test_T25_views_of_a_base_that_starts_to_require_grad_get_history() -> None:
    w = leaf(2.0)
    x = mq.ones(4)
    v = x[:2]
    x.mul_(w)
    assert v.requires_grad
    v.sum().backward()
    assert w.grad.tolist() == [2.0]


def test_T25_operators_on_such_views_are_recorded() -> None:
    w = leaf(2.0)
    x = mq.ones(4)
    v = x[:2]
    x.mul_(w)
    (v * 3).sum().backward()
    assert w.grad.tolist() == [6.0]


def test_T25_views_beside_a_written_view_get_history() -> None:
    w = leaf(2.0)
    x = mq.ones(4)
    head, tail = x[:2], x[1:]
    head.mul_(w)
    (tail * 1).sum().backward()
    assert w.grad.tolist() == [1.0]


def test_T25_gradients_of_overwritten_elements_are_zero() -> None:
    a = leaf(1.0, 1.0, 1.0)
    b = a * 1
    b[1:].zero_()
    b.sum().backward()
    assert a.grad.tolist() == [1.0, 0.0, 0.0]


def test_T25_views_of_views() -> None:
    a = mq.ones(2, 3, requires_grad=True)
    b = a.clone()
    b.t()[1].mul_(5)
    b.sum().backward()
    assert a.grad.tolist() == [[1.0, 5.0, 1.0]] * 2


# --- refusals ------------------------------------------------------------------------


def test_T26_leaves_are_not_written() -> None:
    a = leaf(1.0)
    with pytest.raises(RuntimeError, match="leaf"):
        a.add_(1)


def test_T26_views_of_leaves_are_not_written() -> None:
    a = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        a[:1].add_(1)


def test_T26_under_no_grad_leaves_are_written() -> None:
    a = leaf(1.0)
    with mq.no_grad():
        a.add_(1)
    assert a.tolist() == [2.0]
    assert a.is_leaf


def test_T26_views_made_under_no_grad_are_not_written() -> None:
    b = leaf(1.0, 2.0) * 1
    with mq.no_grad():
        v = b[:1]
    with pytest.raises(RuntimeError, match="no_grad"):
        v.add_(1)


def test_T26_a_view_of_a_leaf_made_under_no_grad_has_no_gradient() -> None:
    a = leaf(1.0, 2.0)
    with mq.no_grad():
        v = a[:1]
    (v * 3).sum().backward()
    assert v.is_leaf
    assert v.requires_grad
    assert v.grad is None
    assert a.grad is None


def test_T26_views_made_in_inference_mode_are_not_written() -> None:
    b = leaf(1.0, 2.0) * 1
    with mq.inference_mode():
        v = b[:1]
    with pytest.raises(RuntimeError, match="inference_mode"):
        v.add_(1)


@pytest.mark.parametrize("split", ["unbind", "split", "chunk"])
def test_T26_one_of_many_views_is_not_written(split: str) -> None:
    b = leaf(1.0, 2.0) * 1
    views = b.unbind(0) if split == "unbind" else getattr(b, split)(1)
    with pytest.raises(RuntimeError, match=r"(?s)[Oo]utput 0 of .*multiple views"):
        views[0].add_(1)


def test_T26_an_operand_that_requires_grad_counts_too() -> None:
    views = mq.zeros(2, 2).unbind(0)
    with pytest.raises(RuntimeError, match="multiple views"):
        views[0].add_(leaf(1.0))


def test_T26_views_remember_that_they_were_made_under_no_grad() -> None:
    """Finding 15: though nothing required grad then."""
    with mq.no_grad():
        v = mq.ones(4)[:2]
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        v.add_(leaf(1.0, 1.0))


def test_T26_a_view_of_a_view_made_under_no_grad_remembers_it_too() -> None:
    with mq.no_grad():
        v = mq.ones(4)[:2]
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        v[:1].add_(leaf(1.0))


def test_T26_history_of_a_view_is_refused_once_its_base_was_mutated() -> None:
    b = leaf(1.0, 2.0) * 1
    with mq.no_grad():
        v = b[:1]
    b.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been"):
        v.grad_fn  # noqa: B018  # asking refuses


def test_T26_views_of_a_custom_function_are_not_written() -> None:
    class Head(mq.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x[:1]

        @staticmethod
        def backward(ctx: object, grad: Tensor) -> Tensor:
            return grad

    v = Head.apply(leaf(1.0, 2.0) * 1)
    with pytest.raises(RuntimeError, match="custom Function"):
        v.add_(1)


def test_T27_views_are_not_detached_in_place() -> None:
    v = (leaf(1.0, 2.0) * 1)[:1]
    with pytest.raises(RuntimeError, match="view"):
        v.detach_()


def test_T27_results_keep_requiring_grad() -> None:
    with pytest.raises(RuntimeError, match="detach"):
        (leaf(1.0) * 1).requires_grad_(False)


@pytest.mark.parametrize("dtype", [mq.int64, mq.bool])
def test_T27_only_floats_require_grad(dtype: mq.dtype) -> None:
    with pytest.raises(RuntimeError, match="floating"):
        mq.zeros(1, dtype=dtype).requires_grad_()
    with pytest.raises(RuntimeError, match="floating"):
        mq.zeros(1, dtype=dtype, requires_grad=True)


OLDER = {
    "an argument": lambda view: view * 2,
    "a list": lambda view: mq.cat([view, view]),
    "an operator": lambda view: mq.ops.aten.mul.Tensor(view, mq.tensor(2.0)),
    "the slow form": lambda view: mq.ops.aten.mul.Tensor.call_slow((view, 2.0), {}),
}


@pytest.mark.parametrize("way", OLDER)
def test_T26_an_older_view_takes_part_in_the_history_of_its_base(way):
    base, w = mq.zeros(4), mq.ones(4, requires_grad=True)
    view = base[:2]
    base.add_(w * 3)
    OLDER[way](view).sum().backward()
    assert w.grad.tolist() == [6, 6, 0, 0]


def test_T26_views_that_cannot_or_shall_not_have_a_history_get_none():
    base, w = mq.zeros(4), mq.ones(4, requires_grad=True)
    older = base[:2]
    base.add_(w)
    with mq.no_grad():
        view = base[:2]
    assert older.grad_fn is not None
    assert view.is_leaf
    assert not base.detach().requires_grad
    assert not base.view(mq.int32).requires_grad


def test_T26_whole_numbers_seen_by_a_function_of_views_may_be_written() -> None:
    """Seed 4229 of the random programs: what has no history forbids nothing."""

    class Seen(mq.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x.view(x.shape)

    seen = Seen.apply(mq.tensor([1, 2]))
    seen.copy_(leaf(5.0, 6.0))
    assert seen.tolist() == [5, 6]
    assert not seen.requires_grad


def _written(function):
    names = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    x = mq.ones(3, requires_grad=True)
    y = x * 2
    with Watch():
        function(y)
    y.sum().backward()
    return names, x.grad.tolist()


def test_what_is_written_is_not_copied_where_no_gradient_asks_for_it():
    mask = mq.tensor([1.0, 0.0, 1.0])
    assert _written(lambda y: y.mul_(mask)) == (["aten.mul_.Tensor"], [2.0, 0.0, 2.0])


def test_what_is_written_is_copied_where_a_gradient_asks_for_it():
    other = mq.full((3,), 5.0, requires_grad=True)
    names, gradient = _written(lambda y: y.mul_(other))
    assert names == ["aten.clone.default", "aten.mul_.Tensor"]
    assert (gradient, other.grad.tolist()) == ([10.0] * 3, [2.0] * 3)


def test_nothing_is_copied_where_nothing_requires_grad():
    names = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    x = mq.ones(3)
    with Watch():
        x.mul_(mq.ones(3))
    assert "aten.clone.default" not in names


def test_a_formula_is_given_what_a_call_wrote_beside_its_result() -> None:
    mq.manual_seed(0)
    x = (mq.rand(6) - 0.5).requires_grad_()
    y = mq.rrelu_(x * 1, training=True)
    y.sum().backward()
    assert mq.allclose(x.grad, mq.where(x < 0, y / x, 1.0))


@pytest.mark.parametrize(
    "view", [lambda y: y[:], lambda y: y.view(2, 3), lambda y: y.permute(0, 1), lambda y: y.t()]
)
def test_the_backward_of_a_write_to_a_view_looks_at_it_by_one_as_strided(view):
    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.name())
            return func(*args, **(kwargs or {}))

    seen: list[str] = []
    y = mq.ones(2, 3, requires_grad=True) * 2
    view(y).mul_(2)
    with Names():
        y.sum().backward()
    expanded = seen.index("aten::new_empty_strided")
    assert seen[expanded:][:4] == [
        "aten::new_empty_strided",
        "aten::copy_",
        "aten::as_strided",
        "aten::clone",
    ]
