"""`dispatch_sizes_strides_policy`, `dispatch_device`, `dispatch_layout`: handlers tell geometry."""

import pytest

import maquette as mq
from maquette import Tensor

aten, prim = mq.ops.aten, mq.ops.prim


def made_with(answers, *, wrapper=True, **options):
    """A tensor of float32[3, 3] whose handler answers operators, and what it was asked."""
    asked = []

    class Telling(Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            asked.append((func, *args[1:]))
            return answers.get(func, NotImplemented)

    if wrapper:
        return Tensor._make_wrapper_subclass(Telling, (3, 3), **options), asked
    return Tensor._make_subclass(Telling, mq.ones(3, 3), **options), asked


@pytest.mark.parametrize("wrapper", [True, False])
def test_a_handler_tells_sizes(wrapper):
    answers = {aten.sym_size.default: (5, 2), aten.dim.default: 2, aten.numel.default: 10}
    t, asked = made_with(answers, wrapper=wrapper, dispatch_sizes_strides_policy="sizes")
    assert (t.size(), t.shape, t.size(1), t.dim(), t.ndim, t.numel()) == (
        (5, 2), (5, 2), 2, 2, 2, 10,
    )  # fmt: skip
    assert asked[0] == (aten.sym_size.default,)


@pytest.mark.parametrize("policy", ["strides", "sizes"])
def test_a_handler_tells_strides(policy):
    answers = {aten.sym_stride.default: (4, 2), aten.is_contiguous.default: True}
    answers |= {aten.is_contiguous.memory_format: False, aten.dim.default: 2}
    t, asked = made_with(answers, dispatch_sizes_strides_policy=policy)
    assert (t.stride(), t.stride(0), t.is_contiguous()) == ((4, 2), 4, True)
    assert not t.is_contiguous(memory_format=mq.channels_last)
    assert asked[-1] == (aten.is_contiguous.memory_format, mq.channels_last)


def test_sizes_are_not_asked_under_the_policy_of_strides():
    t, asked = made_with({}, dispatch_sizes_strides_policy="strides")
    assert (t.shape, t.dim()) == ((3, 3), 2)
    assert asked == []


def test_a_handler_tells_device_and_layout():
    answers = {prim.device.default: mq.device("meta"), prim.layout.default: mq.sparse_csr}
    t, _ = made_with(answers, dispatch_device=True, dispatch_layout=True)
    assert (t.device, t.layout) == (mq.device("meta"), mq.sparse_csr)


def test_none_says_that_what_it_was_made_with_is_right():
    answers = dict.fromkeys((aten.sym_size.default, aten.sym_stride.default))
    t, _ = made_with(answers, dispatch_sizes_strides_policy="sizes")
    assert (t.shape, t.stride()) == ((3, 3), (3, 1))


def test_a_handler_that_declines_is_named():
    t, _ = made_with({}, dispatch_sizes_strides_policy="sizes", dispatch_device=True)
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch\.ops\.aten\.dim'"):
        t.dim()
    with pytest.raises(TypeError, match=r"failed for 'torch\.ops\.prim\.device'"):
        _ = t.device


def test_composite_operators_and_other_members_ask_too():
    answers = {aten.is_contiguous.default: True, prim.device.default: mq.device("meta")}
    t, asked = made_with(answers, dispatch_sizes_strides_policy="strides", dispatch_device=True)
    assert t.contiguous() is t
    assert mq.ones(1).type_as(t).device == mq.device("meta")
    assert t.is_meta
    assert asked[0] == (aten.is_contiguous.default,)


def test_the_class_keeps_its_members():
    t, _ = made_with({}, dispatch_sizes_strides_policy="sizes")
    assert type(t).shape is Tensor.shape
    assert type(t).size is Tensor.size


def test_what_is_made_of_the_tensor_below_its_handler_is_not_asked_about():
    asked = []

    class Telling(Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            asked.append(func)
            with mq.dispatch.no_dispatch():
                return func(*args, **(kwargs or {}))

    t = Tensor._make_subclass(Telling, mq.ones(3, 3), dispatch_sizes_strides_policy="sizes")
    made = [t.view(9), t.t(), t + 1]
    asked.clear()
    assert [len(x.shape) for x in made] == [1, 2, 2]
    assert asked == []


def test_other_tensors_of_the_class_are_not_asked_about():
    t, asked = made_with({aten.sym_size.default: (1,)}, dispatch_sizes_strides_policy="sizes")
    other = mq.ones(2).as_subclass(type(t))
    assert other.shape == (2,)
    assert asked == []


def test_another_policy_is_refused():
    with pytest.raises(RuntimeError, match="Unknown sizes_strides_policy: all"):
        made_with({}, dispatch_sizes_strides_policy="all")


def test_a_wrapper_may_have_further_keys():
    keys = mq.dispatch.DispatchKeySet("NestedTensor")
    t, _ = made_with({}, _extra_dispatch_keys=keys)
    assert mq.dispatch.keys(t).has("NestedTensor")


@pytest.mark.parametrize("answer", [True, None])
def test_a_handler_tells_the_order_of_strides(answer):
    op = aten.is_strides_like_format.default
    t, asked = made_with({op: answer}, dispatch_sizes_strides_policy="strides")
    assert op(t, mq.channels_last) is bool(answer)
    assert asked == [(op, mq.channels_last)]


def test_contiguous_strides_are_like_those_of_no_format():
    op = aten.is_strides_like_format.default
    x = mq.ones(1, 2, 3, 4)
    assert not op(x, mq.contiguous_format)
    assert op(x.to(memory_format=mq.channels_last), mq.channels_last)
