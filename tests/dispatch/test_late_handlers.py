"""`__torch_function__` and `__torch_dispatch__` set, replaced or deleted after a class was made."""

import pytest

import maquette as mq
from maquette.dispatch import disabled_torch_dispatch, disabled_torch_function
from maquette.nn import Parameter
from maquette.nn import functional as F

aten = mq.ops.aten


def answering(asked, answer=-1):
    def handler(cls, func, types, args=(), kwargs=None):
        asked.append(func)
        return answer

    return classmethod(handler)


def with_dispatch():
    return type("Late", (mq.Tensor,), {"__torch_dispatch__": answering([], mq.zeros(3))})


def with_function_off():
    return type("Late", (mq.Tensor,), {"__torch_function__": disabled_torch_function})


def with_nothing():
    return type("Late", (mq.Tensor,), {})


def of_parameters():
    return type("Late", (Parameter,), {})


@pytest.fixture(params=[with_dispatch, with_function_off, with_nothing, of_parameters])
def late(request):
    """An object of a class that gets a handler after it, and what the handler was told."""
    cls = request.param()
    t = cls(mq.ones(2)) if cls.__base__ is Parameter else mq.ones(2).as_subclass(cls)
    asked = []
    cls.__torch_function__ = answering(asked)
    return t, asked


def test_D135_a_handler_that_is_set_late_answers_operators(late):
    t, asked = late
    x = mq.ones(2)
    calls = (t + 1, 1 + t, mq.add(x, t), mq.cat([x, t]), aten.add.Tensor(x, t), t.add_(1), x[t])
    assert calls == (-1,) * 7
    assert asked[2:5] == [mq.add, mq.cat, aten.add.Tensor]


def test_D135_a_handler_that_is_set_late_answers_members(late):
    t, asked = late
    T = mq.Tensor
    assert (t.shape, t.dim(), t.is_leaf, t.double(), t.item()) == (-1,) * 5
    t.requires_grad = True
    wanted = [T.shape.__get__, T.dim, T.is_leaf.__get__, T.double, T.item, T.requires_grad.__set__]
    assert asked == wanted


def test_D135_a_handler_that_is_set_late_answers_functions_in_python(late):
    t, asked = late
    assert (F.dropout(t), F.relu(t), mq.atleast_2d(t)) == (-1,) * 3
    assert asked == [F.dropout, F.relu, mq.atleast_2d]


def test_D135_a_base_that_gets_a_handler_late_answers_for_its_subclasses():
    base = with_function_off()
    t = mq.ones(2).as_subclass(type("Sub", (base,), {}))
    base.__torch_function__ = answering([])
    assert (t + 1, t.shape) == (-1, -1)


def test_D135_a_mixin_that_gets_a_handler_late_answers():
    mixin = type("Mixin", (), {"__torch_function__": disabled_torch_function})
    t = mq.ones(2).as_subclass(type("Sub", (mixin, mq.Tensor), {}))
    mixin.__torch_function__ = answering([])
    assert (t + 1, t.shape) == (-1, -1)


def test_D135_a_handler_that_is_switched_off_late_is_not_asked():
    cls = type("Late", (mq.Tensor,), {"__torch_function__": answering([])})
    t = mq.ones(2).as_subclass(cls)
    assert t + 1 == -1
    cls.__torch_function__ = disabled_torch_function
    assert type(t + 1) is mq.Tensor
    assert t.shape == (2,)


def test_D136_without_its_handler_a_class_has_the_one_of_all_classes():
    cls = type("Late", (mq.Tensor,), {"__torch_function__": answering([])})
    t = mq.ones(2).as_subclass(cls)
    del cls.__torch_function__
    assert type(t + 1) is cls
    assert t.shape == (2,)


def test_D135_a_handler_of_one_object_answers_for_it_alone():
    cls = with_nothing()
    t, other = mq.ones(2).as_subclass(cls), mq.ones(2).as_subclass(cls)
    t.__torch_function__ = lambda func, types, args=(), kwargs=None: -1
    assert t + 1 == -1
    assert type(other + 1) is cls


def test_D135_a_class_that_is_no_tensors_may_get_a_handler_late():
    cls = type("Like", (), {})
    like = cls()
    with pytest.raises(TypeError, match="must be Tensor"):
        F.dropout(like)
    cls.__torch_function__ = answering([])
    assert F.dropout(like) == -1


def test_D135_a_plain_method_as_a_handler_answers_and_warns():
    def handler(self, func, types, args=(), kwargs=None):
        return id(self)

    t = mq.ones(2).as_subclass(type("Method", (mq.Tensor,), {"__torch_function__": handler}))
    with pytest.warns(UserWarning, match="plain method is deprecated"):
        answer = t + 1
    assert answer == id(t)


def test_D98_a_dispatch_handler_that_is_set_late_answers_for_objects_made_since():
    cls = with_nothing()
    before = mq.ones(2).as_subclass(cls)
    asked = []
    cls.__torch_dispatch__ = answering(asked, mq.zeros(3))
    assert mq.add(before, 1).shape == (2,)
    since = mq.ones(2).as_subclass(cls)
    assert mq.add(since, 1).shape == (3,)
    assert mq.add(before, since).shape == (3,)
    assert asked == [aten.add.Tensor] * 2


def test_D98_a_dispatch_handler_that_is_switched_off_late_is_not_asked():
    cls = with_dispatch()
    t = mq.ones(2).as_subclass(cls)
    assert mq.add(t, 1).shape == (3,)
    cls.__torch_dispatch__ = disabled_torch_dispatch
    assert mq.add(t, 1).shape == (2,)


def test_D135_methods_of_Tensor_itself_ask_the_handlers_of_subclasses():
    asked = []
    cls = type("Asked", (mq.Tensor,), {"__torch_function__": answering(asked)})
    t, x, T = mq.ones(2).as_subclass(cls), mq.ones(2), mq.Tensor
    calls = [T.size(t), T.shape.__get__(t), T.is_nested.__get__(t), T.H.__get__(t), T.to(x, t)]
    assert calls == [-1] * 5
    assert asked == [T.size, T.shape.__get__, T.is_nested.__get__, T.H.__get__, T.to]


def test_D135_tensors_made_of_a_subclass_ask_no_handler():
    cls = type("Asked", (mq.Tensor,), {"__torch_function__": answering([])})
    t = mq.ones(2).as_subclass(cls)
    assert mq.as_tensor(t) is t
    assert mq.ones(2).new_tensor(3).shape == ()
    with pytest.warns(UserWarning, match="copy construct"):
        assert type(mq.tensor(t)) is mq.Tensor
