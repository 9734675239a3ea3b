"""Members of tensors under function modes: each is seen, once, by the name that it has (D135)."""

import copy
import threading

import pytest

import maquette as mq
from maquette.dispatch import (
    BaseTorchFunctionMode,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
)
from maquette.higher_order.checkpoint import checkpoint

T = mq.Tensor


@pytest.fixture
def x():
    return mq.arange(6.0).reshape(2, 3)


class Seeing(TorchFunctionMode):
    """Writes down the functions and their classes, and goes on."""

    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append((func, types, args, kwargs))
        return func(*args, **(kwargs or {}))


def seen(call):
    with Seeing() as mode:
        call()
    return [(func, types) for func, types, *_ in mode.seen]


def test_D135_modes_see_properties_of_plain_tensors(x):
    for name in ("shape", "dtype", "device", "ndim", "requires_grad", "is_cpu", "grad", "T"):
        getter = getattr(T, name).__get__
        assert seen(lambda name=name: getattr(x, name)) == [(getter, (T,))]


def test_D135_modes_see_what_sets_a_property(x):
    x.grad = None
    assert seen(lambda: setattr(x, "grad", None)) == [(T.grad.__set__, (T,))]
    assert seen(lambda: setattr(x, "requires_grad", False)) == [(T.requires_grad.__set__, (T,))]


@pytest.mark.parametrize("name", ["dim", "numel", "data_ptr", "is_complex", "storage_offset"])
def test_D135_modes_see_methods_that_take_nothing(x, name):
    assert seen(getattr(x, name)) == [(getattr(T, name), (T,))]


def test_D135_modes_see_conversions_that_change_nothing(x):
    for call, func in ((x.float, T.float), (x.cpu, T.cpu), (lambda: x.to("cpu"), T.to)):
        assert seen(call) == [(func, ())]


def test_D135_modes_see_a_conversion_as_it_was_called_and_nothing_inside_of_it(x):
    assert seen(lambda: x.to(mq.float64)) == [(T.to, ())]
    assert seen(x.double) == [(T.double, ())]
    assert seen(lambda: x.size(0)) == [(T.size, ())]


def test_D135_modes_see_what_gives_python_values():
    one = mq.ones(1)
    assert seen(one.item) == [(T.item, (T,))]
    assert seen(one.tolist) == [(T.tolist, (T,))]
    assert seen(one.numpy) == [(T.numpy, ())]
    for convert, name in ((bool, "__bool__"), (float, "__float__"), (len, "__len__")):
        assert seen(lambda convert=convert: convert(one)) == [(getattr(T, name), (T,))]


def test_D135_methods_of_operators_that_take_nothing_tell_of_plain_tensors(x):
    assert seen(x.abs) == [(T.abs, (T,))]
    assert seen(x.sum) == [(T.sum, ())]
    assert seen(lambda: x.frexp()) == [(T.frexp, (T,))]


def test_D135_operators_of_python_that_PyTorch_writes_in_python(x):
    assert seen(lambda: x**2) == [(T.__pow__, (T,))]
    assert seen(lambda: 2 - x) == [(T.__rsub__, (T,))]
    n = mq.arange(3)
    assert seen(lambda: n.__iand__(1)) == [(T.__iand__, ())]


def test_D135_iteration_is_seen_as_its_two_calls(x):
    assert [func for func, _ in seen(lambda: iter(x))] == [T.dim, T.unbind]


def test_D135_an_older_form_of_a_call_is_seen_too(x):
    with pytest.warns(UserWarning, match="deprecated"):
        assert seen(lambda: x.addcmul_(2, x, x)) == [(T.addcmul_, ())]


def test_D135_members_pass_from_the_inner_mode_to_the_outer(x):
    with Seeing() as outer, Seeing() as inner:
        assert x.shape == (2, 3)
    assert [m.seen[0][0] for m in (outer, inner)] == [T.shape.__get__] * 2
    assert len(outer.seen) == len(inner.seen) == 1


def test_D135_switches_hold_for_members(x):
    with Seeing() as mode, DisableTorchFunction():
        assert x.dim() == 2
    assert mode.seen == []
    with Seeing() as mode, DisableTorchFunctionSubclass():
        assert x.dim() == 2
    assert [entry[0] for entry in mode.seen] == [T.dim]


def test_D135_a_mode_may_answer_for_a_member(x):
    class Answering(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return "mine" if func is T.dim else func(*args, **(kwargs or {}))

    with Answering():
        assert x.dim() == x.ndimension() == "mine"


def test_D135_members_are_seen_in_the_mode_s_thread_alone(x):
    with Seeing() as mode:
        found = []
        other = threading.Thread(target=lambda: found.append((x.shape, x.float(), x.dim())))
        other.start()
        other.join()
    assert found[0][0] == (2, 3)
    assert mode.seen == []


def test_D135_a_copy_under_a_mode_that_passes_on_is_equal(x):
    with BaseTorchFunctionMode():
        copied = copy.deepcopy(x)
        assert repr(copied) == repr(x)
        assert copied.tolist() == x.tolist()


def test_D135_the_class_of_a_parameter_is_told_although_it_answers_nothing(x):
    parameter = mq.nn.Parameter(x)
    assert seen(lambda: parameter.shape) == [(T.shape.__get__, (mq.nn.Parameter,))]
    assert seen(lambda: len(parameter)) == [(T.__len__, ())]

    class Declining(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with Declining():
        assert parameter.shape == (2, 3)


def test_D135_making_a_parameter_shows_nothing(x):
    assert seen(lambda: mq.nn.Parameter(x)) == []
    assert seen(lambda: mq.nn.Parameter(x, requires_grad=False)) == []


def test_D135_backward_is_one_call(x):
    y = (x * mq.nn.Parameter(x)).sum()
    assert [func for func, _ in seen(lambda: mq.autograd.backward(y))] == [mq.autograd.backward]


def test_D135_modes_see_the_gradients_that_a_module_drops():
    layer = mq.nn.Linear(2, 2)
    layer(mq.ones(2)).sum().backward()
    both = [T.grad.__get__, T.grad.__set__]
    assert [func for func, _ in seen(layer.zero_grad)] == both * 2
    assert layer.weight.grad is None


def test_D135_modes_see_the_calls_inside_of_a_checkpoint(x):
    parameter = mq.nn.Parameter(x)
    calls = seen(lambda: checkpoint(mq.sin, parameter, use_reentrant=False))
    assert calls[-1][0] is mq.sin


def test_D135_a_mode_entered_where_all_is_disabled_sees_nothing(x):
    with DisableTorchFunction(), Seeing() as mode:
        assert (x + 1).dim() == 2
    assert mode.seen == []
    assert x.dim() == 2
    with Seeing() as mode:
        x.dim()
    assert len(mode.seen) == 1


def test_D135_a_function_s_own_reads_are_not_seen(x):
    class Double(mq.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    parameter = mq.nn.Parameter(x)
    assert [func for func, _ in seen(lambda: Double.apply(parameter))] == [T.mul]
    called = [func for func, _ in seen(lambda: mq.func.grad(lambda a: (a * 2).sum())(x))]
    assert called == [T.mul, T.sum]


def test_D135_functional_tells_the_pooling_with_indices_and_the_method(x):
    F = mq.nn.functional
    image = mq.ones(1, 1, 4, 4)
    assert [f for f, _ in seen(lambda: F.max_pool2d(image, 2))] == [F.max_pool2d]
    told = seen(lambda: F.max_pool2d(image, 2, return_indices=True))
    assert [f for f, _ in told] == [F.max_pool2d_with_indices]
    with BaseTorchFunctionMode(), BaseTorchFunctionMode():
        assert len(F.max_pool2d(image, 2, return_indices=True)) == 2
    assert [f for f, _ in seen(lambda: F.sigmoid(x))] == [T.sigmoid]


def test_D135_split_is_told_with_its_dimension():
    x = mq.ones(4, 2)
    for call in (lambda: x.split(2), lambda: x.split(2, 0), lambda: x.split(split_size=2)):
        with Seeing() as mode:
            assert len(call()) == 2
        assert mode.seen == [(T.split, (T,), (x, 2), {"dim": 0})]


def test_D135_a_step_asks_its_count_by_item_and_reads_nothing_else():
    weight = mq.nn.Parameter(mq.ones(2))
    weight.grad = mq.ones(2)
    optimizer = mq.optim.AdamW([weight], foreach=False)
    functions = [func for func, _ in seen(optimizer.step)]
    assert T.item in functions
    assert not {T.__float__, T.is_complex, T.dtype.__get__} & set(functions)
