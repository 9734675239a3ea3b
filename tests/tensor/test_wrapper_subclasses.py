"""Wrappers without data and memory of other tensors, as tensors of a subclass (finding 26)."""

from collections.abc import Callable
from typing import Any

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import Tensor


class Wrapper(Tensor):
    @staticmethod
    def __new__(cls: type, inner: Tensor, requires_grad: bool = False) -> Any:
        made = Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), requires_grad=requires_grad
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        tree_map = torch.utils._pytree.tree_map
        given, named = tree_map(
            lambda t: t.inner if isinstance(t, Wrapper) else t, (args, kwargs or {})
        )
        result = func(*given, **named)
        return tree_map(lambda t: Wrapper(t) if isinstance(t, Tensor) else t, result)


def test_T12_a_wrapper_has_sizes_and_no_data() -> None:
    w = Wrapper(mq.ones(2, 3).t())
    assert w.shape == (3, 2)
    assert w.stride() == (1, 3)
    assert w.data_ptr() == 0


def test_T12_gradients_go_through_wrappers() -> None:
    w = Wrapper(mq.ones(2), requires_grad=True)
    (w * 2).sum().backward()
    assert type(w.grad) is Wrapper
    assert w.grad.inner.tolist() == [2.0, 2.0]


VIEWS: list[Callable[[Tensor], Tensor]] = [
    lambda t: t.view(-1),
    lambda t: t[:1],
    lambda t: t.unsqueeze(0).transpose(0, 1),
    lambda t: t.chunk(2)[0],
]


@pytest.mark.parametrize("view", VIEWS)
def test_T23_a_view_of_a_wrapper_counts_its_writes(view: Callable[[Tensor], Tensor]) -> None:
    w = Wrapper(mq.ones(4))
    made = view(w)
    made.add_(1)
    assert (w._version, made._version) == (1, 1)
    assert made._is_view()
    assert made._base is w


def test_T23_a_detached_wrapper_counts_writes_and_is_no_view() -> None:
    w = Wrapper(mq.ones(4))
    w.detach().add_(1)
    assert w._version == 1
    assert not w.detach()._is_view()
    w.clone().add_(1)
    assert w._version == 1


def test_T24_a_saved_wrapper_that_was_mutated_through_an_alias_is_refused() -> None:
    w = Wrapper(mq.ones(4), requires_grad=True) * 1
    total = (w * w).sum()
    w.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_T25_a_mutated_view_of_a_wrapper_rebases_the_history() -> None:
    w = Wrapper(mq.ones(4), requires_grad=True)
    base = w * 1
    base[:2].mul_(3)
    base.sum().backward()
    assert w.grad.inner.tolist() == [3, 3, 1, 1]


def test_T51_a_wrapper_has_no_array() -> None:
    with pytest.raises(RuntimeError, match=r"not supported for tensor subclasses\. This Wrapper"):
        Wrapper(mq.ones(2)).numpy()


def test_T12_a_wrapper_needs_a_handler() -> None:
    class Plain(Tensor):
        pass

    with pytest.raises(TypeError, match="Plain must define __torch_dispatch__"):
        Tensor._make_wrapper_subclass(Plain, (2,))


def test_T12_memory_of_a_tensor_as_a_leaf_of_a_subclass() -> None:
    class Named(Tensor):
        pass

    x = mq.ones(2)
    made = Tensor._make_subclass(Named, x, True)
    assert type(made) is Named
    assert made.is_leaf
    assert made.requires_grad
    assert made.data_ptr() == x.data_ptr()


def test_T12_the_data_of_a_subclass_is_of_the_subclass() -> None:
    class Named(Tensor):
        pass

    assert type(mq.ones(2).as_subclass(Named).data) is Named


class Calling(mq.Tensor):
    """Its handler calls the one above."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return super().__torch_dispatch__(func, types, args, kwargs)


def test_D14_the_handler_above_runs_the_operator_without_handlers():
    x = mq.ones(2).as_subclass(Calling).requires_grad_()
    y = (x * 3).sum()
    assert type(y) is mq.Tensor
    (slope,) = mq.autograd.grad(y, x)
    assert slope.tolist() == [3, 3]


def test_D136_a_class_with_a_handler_of_operators_only_has_results_as_that_gives_them():
    assert Calling.__torch_function__ is mq.dispatch.disabled_torch_function
    assert type(mq.ones(2).as_subclass(Calling) + 1) is mq.Tensor


def test_a_wrapper_may_keep_what_it_wraps_under_any_name() -> None:
    class Wrapper(mq.Tensor):
        def __new__(cls, data: mq.Tensor) -> "Wrapper":
            made = mq.Tensor._make_wrapper_subclass(cls, data.shape, dtype=data.dtype)
            made._data = data
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return cls(func(*[a._data if isinstance(a, cls) else a for a in args], **kwargs or {}))

    x = Wrapper(mq.arange(4.0))
    assert x.narrow(0, 1, 2)._data.tolist() == [1.0, 2.0]
    assert isinstance(x._data, mq.Tensor)


def test_D99_what_an_operator_writes_is_its_result_whatever_the_handler_gives() -> None:
    """Handlers wrap what they get anew, and the new object has no history."""
    w = Wrapper(mq.ones(1, 3), requires_grad=True)
    doubled = w * 2
    assert doubled.mul_(3) is doubled
    places = Wrapper(mq.zeros(1, dtype=mq.int64))
    found = torch.max(w.detach(), 1, out=(Wrapper(mq.zeros(1)), places))
    assert found[1] is places
    (w[0] @ Wrapper(mq.ones(3, 2))).sum().backward()  # its kernel ends with squeeze_
    assert w.grad.inner.tolist() == [[2.0] * 3]


class Plain(Tensor):
    pass


class Below(Plain):
    pass


OBJECTS: list[Callable[[type, Tensor], Tensor]] = [
    lambda cls, t: t.as_subclass(cls),
    lambda cls, t: Tensor._make_subclass(cls, t),
    lambda cls, t: cls(t),
]


@pytest.mark.parametrize("made", OBJECTS)
def test_T12_an_object_of_a_handlers_class_is_no_other_classs(
    made: Callable[[type, Tensor], Tensor],
) -> None:
    with pytest.raises(RuntimeError, match=r"subclass Plain .* python object of type Wrapper"):
        made(Plain, Wrapper(mq.ones(2)))


@pytest.mark.parametrize("made", OBJECTS)
def test_T12_what_a_handler_gives_for_the_alias_is_its_own_object(
    made: Callable[[type, Tensor], Tensor],
) -> None:
    class Giving(Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, *rest: Any, **named: Any) -> Any:
            return mq.zeros(2)

    with pytest.raises(RuntimeError, match="python object of type Tensor"):
        made(Plain, mq.ones(2).as_subclass(Giving))


@pytest.mark.parametrize("made", OBJECTS)
def test_F9_a_fake_is_no_object_of_a_programs_class(made: Callable[[type, Tensor], Tensor]) -> None:
    with mq.FakeTensorMode():
        fake = mq.ones(2)
    with pytest.raises(RuntimeError, match="python object of type FakeTensor"):
        made(Plain, fake)
    assert fake.as_subclass(Tensor).fake_mode is fake.fake_mode


@pytest.mark.parametrize("made", OBJECTS)
def test_T12_classes_without_handlers_take_each_others_objects(
    made: Callable[[type, Tensor], Tensor],
) -> None:
    t = mq.ones(2)
    for source in (Plain(t), Below(t), mq.nn.Parameter(t)):
        assert [type(made(cls, source)) for cls in (Plain, Below)] == [Plain, Below]
        assert type(Tensor(source)) is Tensor


def test_D94_modes_are_not_told_of_new_objects() -> None:
    told: list[Any] = []

    class Noting(mq.dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            told.append(func)
            return func(*args, **(kwargs or {}))

    t = mq.ones(2)
    with Noting():
        made = t.as_subclass(Plain)
        Tensor._make_subclass(Wrapper, made)
        made + 1
    assert told == [mq.ops.aten.add.Tensor]


def test_T12_the_storage_of_a_wrapper_has_no_address() -> None:
    storage = Wrapper(mq.ones(2)).untyped_storage()
    assert storage.nbytes() == 8
    for use in (storage.data_ptr, lambda: storage.resize_(16), storage.clone):
        with pytest.raises(RuntimeError, match="invalid python storage"):
            use()
    assert Wrapper(mq.ones(0)).untyped_storage().data_ptr() == 0


@pytest.mark.parametrize("requires_grad", [True, False])
def test_D100_a_handler_may_answer_none_for_a_tensor(requires_grad: bool) -> None:
    class Answering(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func: Any, *rest: Any, **named: Any) -> Any:
            return None

    t = Answering(mq.ones(2), requires_grad=requires_grad)
    assert (t * 2, t + t, t.exp()) == (None,) * 3


def test_D98_questions_of_geometry_by_name_ask_no_handler() -> None:
    aten = mq.ops.aten
    asked: list[Any] = []

    class Asked(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func: Any, *rest: Any, **named: Any) -> Any:
            asked.append(func)
            return True

    t = Asked(mq.ones(2, 3))
    assert aten.sym_size.default(t) == [2, 3]
    assert aten.sym_stride.default(t) == [3, 1]
    assert aten.is_same_size.default(t, t)
    assert asked == [aten.is_same_size.default]
