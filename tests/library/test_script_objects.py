"""Script objects: classes as schema types, fake classes and objects (D125-D130, D132)."""

import pytest

import maquette as mq
from maquette.dispatch.operator import OpOverload, TorchBindOpOverload
from maquette.library import (
    FakeScriptObject,
    deregister_fake_class,
    get_effect,
    maybe_to_fake_obj,
    maybe_unwrap_fake_script_object,
    register_class,
    register_effectful_op,
    register_fake_class,
)
from maquette.library.effects import EffectType


class Queue:
    def __init__(self, start):
        self.items = [start]

    def push(self, x):
        self.items.append(x)

    def top(self):
        return self.items[-1]

    def __obj_flatten__(self):
        return (("items", list(self.items)),)


class FakeQueue:
    def __init__(self, items):
        self.items = items

    @classmethod
    def __obj_unflatten__(cls, flattened):
        return cls(dict(flattened)["items"])

    def push(self, x):
        self.items.append(x)

    def top(self):
        return self.items[-1]


register_class("script_test::Queue", Queue)
TYPE = "__torch__.torch.classes.script_test.Queue"


@pytest.fixture
def fakes():
    register_fake_class("script_test::Queue", FakeQueue)
    yield
    deregister_fake_class("script_test::Queue")


@pytest.fixture
def pushed():
    with mq.library._scoped_library("script_test_ops", "DEF") as lib:
        lib.define(f"pushed({TYPE} queue, Tensor x) -> Tensor")
        lib.impl("pushed", lambda queue, x: (queue.push(x), x + 1)[1], "CompositeExplicitAutograd")
        yield mq.ops.script_test_ops.pushed.default


def test_D125_a_registered_class_is_a_schema_type():
    with mq.library._scoped_library("script_test_types", "DEF") as lib:
        with pytest.raises(RuntimeError, match=r"my\.Foo"):
            lib.define("f(Tensor x, __torch__.torch.classes.my.Foo w) -> ()")
        lib.define(f"f(Tensor x, {TYPE} w) -> Tensor")
        lib.impl("f", lambda x, w: w.top() + x, "CPU")
        f = mq.ops.script_test_types.f
        assert f(mq.ones(1), Queue(mq.ones(1))).tolist() == [2]
        with pytest.raises(RuntimeError, match="Queue"):
            f(mq.ones(1), object())


def test_D126_overloads_that_take_objects_are_of_a_class_of_their_own(pushed):
    assert type(pushed) is TorchBindOpOverload
    assert type(mq.ops.aten.add.Tensor) is OpOverload
    queue = Queue(mq.zeros(2))
    assert pushed(queue, mq.ones(2)).tolist() == [2, 2]
    assert len(queue.items) == 2


def test_D127_refusals_of_fake_classes():
    class Bare:
        pass

    with pytest.raises(ValueError, match="namespace::Name"):
        register_fake_class("Queue")(FakeQueue)
    with pytest.raises(RuntimeError, match="no class is registered"):
        register_fake_class("script_test::Unknown")(FakeQueue)
    with pytest.raises(RuntimeError, match="__obj_unflatten__"):
        register_fake_class("script_test::Queue")(Bare)


def test_D127_registering_again_warns_and_withdrawing_gives_it_back(fakes):
    with pytest.warns(UserWarning, match="already"):
        register_fake_class("script_test::Queue")(FakeQueue)
    assert deregister_fake_class("script_test::Queue") is FakeQueue
    with pytest.warns(UserWarning, match="no fake class"):
        assert deregister_fake_class("script_test::Queue") is None
    register_fake_class("script_test::Queue")(FakeQueue)


def test_D128_a_fake_object_leaves_the_real_one_alone(fakes):
    queue = Queue(mq.zeros(2))
    with mq.FakeTensorMode() as mode:
        fake = maybe_to_fake_obj(mode, queue)
        fake.push(mq.ones(3))
        assert fake.top().shape == (3,)
    assert isinstance(fake.wrapped_obj.items[0], mq.FakeTensor)
    assert len(queue.items) == len(fake.real_obj.items) == 1


def test_D128_flattening_must_give_pairs_and_a_fake_class_be_there(fakes):
    class Odd(Queue):
        def __obj_flatten__(self):
            return [1]

    mode = mq.FakeTensorMode()
    with pytest.raises(RuntimeError, match=r"tuple of \(name, value\) pairs"):
        maybe_to_fake_obj(mode, Odd(mq.zeros(1)))
    with pytest.raises(RuntimeError, match="register_fake_class"):
        maybe_to_fake_obj(mode, object())


def test_D128_an_object_may_ask_to_stay_real(fakes):
    class Real(Queue):
        def tracing_mode(self):
            return "real"

    real = Real(mq.zeros(1))
    assert maybe_to_fake_obj(mq.FakeTensorMode(), real) is real


def test_D129_only_methods_are_reached(fakes):
    fake = maybe_to_fake_obj(mq.FakeTensorMode(), Queue(mq.zeros(2)))
    with pytest.raises(AttributeError, match="items"):
        _ = fake.items
    with pytest.raises(AttributeError, match="items"):
        fake.items = []
    assert fake == FakeScriptObject(None, fake.script_class_name, fake.real_obj)
    assert hash(fake) == hash(fake.real_obj)
    assert maybe_unwrap_fake_script_object(fake) is fake.real_obj


def test_D130_python_kernels_get_the_fake_object(fakes, pushed):
    mode = mq.FakeTensorMode()
    fake = maybe_to_fake_obj(mode, Queue(mq.zeros(2)))
    seen = []
    pushed.py_impl(mq.DispatchKey.CPU)(lambda queue, x: (seen.append(queue), x)[1])
    pushed(fake, mq.ones(2))
    mq.ops.script_test_ops.pushed(fake, mq.ones(2))
    assert seen == [fake, fake]


def test_D130_modes_see_the_operator(fakes, pushed):
    class Seeing(mq.dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((func, args[0]))
            return args[1]

    seen = []
    fake = maybe_to_fake_obj(mq.FakeTensorMode(), Queue(mq.zeros(2)))
    x = mq.ones(2)
    with Seeing():
        pushed(fake, x)
    assert seen == [(pushed, fake)]


def test_D132_taking_an_object_is_an_effect_unless_denied(pushed):
    assert get_effect(pushed) is EffectType.ORDERED
    handle = register_effectful_op(pushed, None)
    assert get_effect(pushed) is None
    handle.destroy()
    assert get_effect(pushed) is EffectType.ORDERED


@pytest.fixture
def topped(fakes):
    """An operator of its own, without kernels yet, and a fake object for it."""
    with mq.library._scoped_library("script_test_topped", "DEF") as lib:
        lib.define(f"topped({TYPE} queue, Tensor x) -> Tensor")
        queue = maybe_to_fake_obj(mq.FakeTensorMode(), Queue(mq.zeros(2)))
        yield lib, mq.ops.script_test_topped.topped, queue


def test_D131_a_kernel_of_arrays_cannot_take_a_fake_object(topped):
    lib, op, queue = topped
    kernel = lambda xp, queue, x: x  # noqa: E731
    mq.library.register_kernel(op.default, "cpu", kernel, lib=lib, arrays=True)
    with pytest.raises(RuntimeError, match=r"topped.*CPU has no Python implementation"):
        op.default(queue, mq.ones(2))


def test_D131_without_any_kernel_the_error_is_another(topped):
    _, op, queue = topped
    with pytest.raises(NotImplementedError, match="could not find a kernel of script_test_topped"):
        op.default(queue, mq.ones(2))


def test_D131_a_packet_tells_what_each_overload_said(topped):
    with pytest.raises(RuntimeError, match=r"no overload matched(.|\n)*topped"):
        topped[1](object(), mq.ones(2))


def test_D131_kernels_of_libraries_count_as_python(topped):
    lib, op, queue = topped
    lib.impl("topped", lambda queue, x: x + 1, "CompositeExplicitAutograd")
    assert op.default(queue, mq.ones(2)).tolist() == [2, 2]
