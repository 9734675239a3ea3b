"""`__torch_function__`: modes, classes, and what happens without a handler (D135, D136)."""

import operator
import subprocess
import sys

import numpy as np
import pytest

import maquette as mq
from maquette.dispatch import (
    BaseTorchFunctionMode,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchDispatchMode,
    TorchFunctionMode,
    disabled_torch_function,
    get_current_function_mode,
    get_current_function_mode_stack,
)
from maquette.tensor.parameter import Parameter

aten = mq.ops.aten


class Seeing(TorchFunctionMode):
    def __init__(self, seen=None, name="mode", answer=None):
        self.seen = [] if seen is None else seen
        self.name = name
        self.answer = answer

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append((self.name, func, types, args, kwargs))
        return func(*args, **(kwargs or {})) if self.answer is None else self.answer


class A(mq.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "A", func, types, args, kwargs


class B(A):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Plain(mq.Tensor):
    pass


class Off(mq.Tensor):
    __torch_function__ = disabled_torch_function


@pytest.fixture
def a(x):
    return x.as_subclass(A)


@pytest.fixture
def b(x):
    return x.as_subclass(B)


# --- who is asked ----------------------------------------------------------------------------


def test_D135_what_was_called_is_handed_over(a, x):
    for func in (aten.add, aten.add.Tensor, aten.mm, aten.sum):
        assert func(a, x)[1] is func


def test_D135_the_call_is_handed_over_as_written(a, x):
    for func in (aten.add, aten.add.Tensor):
        for _ in range(2):  # the second time by a remembered choice
            assert func(a, other=x, alpha=1)[3:] == ((a,), {"other": x, "alpha": 1})
    assert aten.sum(a, (0, 1))[3] == (a, (0, 1))
    assert aten.cat([x, a])[3] == ([x, a],)


def test_D135_modes_are_asked_from_the_top_and_first(a):
    seen = []
    with Seeing(seen, "outer"), Seeing(seen, "inner"):
        assert aten.add(a, a)[0] == "A"
    assert [name for name, *_ in seen] == ["inner", "outer"]
    assert seen[0][1] is aten.add
    assert seen[0][2] == (A,)


def test_D135_a_mode_is_popped_while_it_runs(x):
    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            assert get_current_function_mode() is None
            raise ValueError("handler")

    with Mode() as mode:
        with pytest.raises(ValueError, match="handler"):
            aten.add(x, x)
        assert get_current_function_mode_stack() == [mode]
    assert get_current_function_mode_stack() == []


def test_D135_a_mode_alone_gets_no_types_and_the_call_as_written(x):
    with Seeing() as mode:
        aten.add(x, x, alpha=1)
        aten.sum.dim_IntList(x, dim=0)
    assert [entry[1:] for entry in mode.seen] == [
        (aten.add, (), (x, x), {"alpha": 1}),
        (aten.sum.dim_IntList, (), (x,), {"dim": 0}),
    ]


def test_D135_modes_see_calls_that_do_not_match(x):
    with Seeing(answer="seen"):
        assert aten.add(x, nonsense=1) == "seen"
        assert aten.add.Tensor("x") == "seen"


def test_D135_types_are_distinct_subclasses_first(a, b, x):
    assert aten.cat([x, a, b, a])[2] == (B, A)
    assert aten.add(a, x)[2] == (A,)


def test_D135_not_implemented_moves_on_to_the_classes_not_to_outer_modes(a, b, x):
    with Seeing() as outer, Seeing(answer=NotImplemented):
        assert aten.add(b, a)[0] == "A"
    assert outer.seen == []
    with pytest.raises(TypeError, match=r"aten\.add.*Seeing object.*, B$"):
        with Seeing(answer=NotImplemented):
            aten.add(b, x)


def test_D135_any_class_may_override(x):
    class NoTensor:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "overridden", types

    assert aten.add(x, NoTensor()) == ("overridden", (NoTensor,))
    assert aten.add.Tensor(NoTensor(), x) == ("overridden", (NoTensor,))


def test_D135_the_switches(a, x):
    with DisableTorchFunctionSubclass():
        assert type(aten.add(a, x)) is mq.Tensor
        with Seeing() as mode:
            aten.add(a, x)
        with DisableTorchFunction(), Seeing() as inner:
            aten.add(a, x)
    assert mode.seen[0][2] == ()
    assert inner.seen == []
    with Seeing() as mode, DisableTorchFunction():
        assert type(aten.add(a, x)) is mq.Tensor
    assert mode.seen == []
    assert aten.add(a, x)[0] == "A"


def test_D135_the_base_mode_passes_on(x):
    with BaseTorchFunctionMode():
        assert aten.add(x, x).tolist() == (x.numpy() + np.ones((2, 3))).tolist()
    with TorchFunctionMode(), pytest.raises(NotImplementedError, match="__torch_function__"):
        aten.add(x, x)


def test_D38_function_modes_come_before_dispatch_modes(x):
    order = []

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append("dispatch")
            return func(*args, **(kwargs or {}))

    class Function(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append("function")
            return func(*args, **(kwargs or {}))

    with Function(), Dispatch():
        aten.add.Tensor(x, x)
    assert order == ["function", "dispatch"]


# --- without a handler -----------------------------------------------------------------------


def test_D136_results_are_of_the_class_of_the_argument(x):
    plain, off, parameter = x.as_subclass(Plain), x.as_subclass(Off), Parameter(x)
    assert type(aten.add(plain, x)) is Plain
    assert type(aten.add.Tensor(x, plain)) is Plain
    assert type(aten.add(off, x)) is mq.Tensor
    assert type(aten.add(parameter, x)) is mq.Tensor


def test_D136_the_first_call_of_an_operator_is_handed_over_too():
    """Finding 60: before its entry function was built, nobody was asked."""
    script = (
        "import maquette as mq\n"
        "Plain = type('Plain', (mq.Tensor,), {})\n"
        "x = mq.ones(2).as_subclass(Plain)\n"
        "assert [type(f(x)) for f in (lambda t: t - 1, lambda t: 2 * t, abs)] == [Plain] * 3\n"
        "assert type(mq.ones(2) / x) is type(x.__add__(x)) is Plain\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_D136_every_result_in_a_list_or_tuple(x):
    plain = x.as_subclass(Plain)
    assert {type(t) for t in aten.split(plain, 1)} == {Plain}
    assert {type(t) for t in aten.max.dim(plain, 0)} == {Plain}


def test_D136_autograd_goes_on_through_the_class():
    y = mq.ones(2).requires_grad_()
    out = aten.mul(y.as_subclass(Plain), 2)
    assert type(out) is Plain
    assert out.requires_grad
    aten.sum(out).backward()
    assert y.grad.tolist() == [2.0, 2.0]


def test_D136_a_handler_may_call_the_default(x):
    class Noting(mq.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs)

    assert type(aten.add(x.as_subclass(Noting), x)) is Noting


def test_D136_unrelated_classes_are_left_to_themselves(x):
    class Other(mq.Tensor):
        pass

    with pytest.raises(TypeError, match="Plain, Other"):
        aten.add(x.as_subclass(Plain), x.as_subclass(Other))


def test_D136_a_subclass_wins_over_its_base(x):
    class Below(Plain):
        pass

    assert type(aten.add(x.as_subclass(Plain), x.as_subclass(Below))) is Below


def test_as_subclass_takes_classes_of_tensors(x):
    with pytest.raises(TypeError, match="subclass of Tensor"):
        x.as_subclass(int)
    assert x.as_subclass(Plain).untyped_storage() is x.untyped_storage()


def test_D135_subscripts_are_handed_over_as_methods_of_tensors(x):
    """Finding 27: not as the operators that they come to."""
    seen = []

    class Telling(mq.Tensor):
        @classmethod
        def __torch_function__(cls, func, *rest):
            seen.append(func)
            return super().__torch_function__(func, *rest)

    t = mq.ones(2).as_subclass(Telling)
    assert type(t[0]) is Telling
    t[t > 0] = 1
    assert seen[0] is mq.Tensor.__getitem__
    assert seen[-1] is mq.Tensor.__setitem__
    mode = Seeing()
    with mode:
        mq.ones(2)[0]
    assert mode.seen[-1][1] is mq.Tensor.__getitem__


def test_D135_errors_of_handlers_stand_alone(x):
    class Refusing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise ValueError("handler")

    calls = (lambda: x + x, lambda: x % 2, lambda: x.add(x), lambda: mq.zeros(2))
    for call in (*calls, lambda: aten.add(x, x), lambda: aten.add.Tensor(x, x)):
        with Refusing(), pytest.raises(ValueError, match="handler") as caught:
            call()
        assert caught.value.__context__ is None


def _told(*calls):
    with Seeing() as mode:
        for call in calls:
            call()
    return [(func, args, kwargs) for _, func, _, args, kwargs in mode.seen]


def test_D135_functions_and_methods_hand_over_what_was_written(x):
    """Sizes one by one, synonyms of parameters, no defaults."""
    assert _told(lambda: x.view(3, 2), lambda: x.sum(axis=0), lambda: mq.zeros(2, dtype=float)) == [
        (mq.Tensor.view, (x, 3, 2), {}),
        (mq.Tensor.sum, (x,), {"axis": 0}),
        (mq.zeros, (2,), {"dtype": float}),
    ]
    assert _told(lambda: mq.max(x, dim=0), lambda: mq.stack([x], 1)) == [
        (mq.max, (x,), {"dim": 0}),
        (mq.stack, ([x], 1), {}),
    ]


def test_D135_operators_of_python_are_handed_over_as_methods(x):
    assert _told(lambda: x + 1, lambda: 2 * x, lambda: x % 2, lambda: x == x) == [
        (mq.Tensor.add, (x, 1), {}),
        (mq.Tensor.mul, (x, 2), {}),
        (mq.Tensor.remainder, (x, 2), {}),
        (mq.Tensor.__eq__, (x, x), {}),
    ]


def test_D135_functional_that_is_an_operator_is_handed_over_as_written(x):
    F = mq.nn.functional
    w = mq.ones(4, 3)
    assert _told(lambda: F.linear(x, w), lambda: F.linear(x, weight=w), lambda: F.gelu(x)) == [
        (F.linear, (x, w), {}),
        (F.linear, (x,), {"weight": w}),
        (F.gelu, (x,), {}),
    ]


def test_D135_functional_in_python_is_handed_over_with_its_defaults(x):
    F = mq.nn.functional
    assert _told(lambda: F.relu(x), lambda: F.silu(x, True)) == [
        (F.relu, (x,), {"inplace": False}),
        (F.silu, (x,), {"inplace": True}),
    ]


def test_D135_an_operator_within_another_is_not_handed_over(a):
    seen = []

    class Telling(mq.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    t = a.as_subclass(Telling)
    aten.reshape(t, (3, 2))
    t.var(0)
    assert seen == [aten.reshape, mq.Tensor.var]


def test_D135_a_page_that_was_overridden_takes_no_call_from_a_function(a, x):
    from maquette.aten.elementwise.comparison import isclose

    assert isclose(a, x)[1] is aten.isclose.default
    assert mq.isclose(a, x)[1] is mq.isclose


class Own(mq.Tensor):
    """Writes down what it is asked, and answers as usual."""

    seen: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append((func, types, args, kwargs))
        return super().__torch_function__(func, types, args, kwargs)


@pytest.fixture
def own(x):
    Own.seen.clear()
    return x.as_subclass(Own)


def asked(call):
    Own.seen.clear()
    call()
    return [(func, args, kwargs) for func, _, args, kwargs in Own.seen]


def test_D135_operators_with_a_number_on_the_left_keep_their_names(own):
    T = mq.Tensor
    pairs = {"__rsub__": lambda: 2 - own, "__rdiv__": lambda: 2 / own, "__rpow__": lambda: 2**own}
    pairs |= {"__rmod__": lambda: 2 % own, "__rfloordiv__": lambda: 2 // own}
    for name, call in pairs.items():
        assert asked(call) == [(getattr(T, name), (own, 2), {})]


def test_D135_methods_in_python_are_handed_over_as_written(own, x):
    T = mq.Tensor
    assert asked(lambda: own.to(mq.float64)) == [(T.to, (own, mq.float64), {})]
    assert asked(own.float) == [(T.float, (own,), {})]
    assert asked(lambda: own.where(x > 0, 0.0))[0][0] is T.where
    assert asked(lambda: own.size(0)) == [(T.size, (own, 0), {})]
    assert asked(lambda: len(own)) == [(T.__len__, (own,), {})]
    assert [func for func, *_ in asked(lambda: own.sum().item())] == [T.sum, T.item]


def test_D135_properties_are_handed_over_by_their_getters(own):
    T = mq.Tensor
    assert asked(lambda: own.shape) == [(T.shape.__get__, (own,), {})]
    assert asked(lambda: own.T) == [(T.T.__get__, (own,), {})]
    assert asked(lambda: setattr(own, "grad", None)) == [(T.grad.__set__, (own, None), {})]
    assert own.shape == (2, 3)


def test_D135_a_member_of_the_class_itself_is_its_own(x):
    class Sized(Own):
        @property
        def shape(self):
            return "mine"

    assert x.as_subclass(Sized).shape == "mine"
    assert x.as_subclass(Plain).shape == (2, 3)


def test_D135_plain_tensors_count_among_the_classes_of_functions_in_python(own, x):
    mq.nn.functional.mse_loss(own, x)
    assert Own.seen[0][1] == (Own, mq.Tensor)
    Own.seen.clear()
    mq.add(own, x)
    assert Own.seen[0][1] == (Own,)


def test_D135_setting_up_a_tensor_of_a_class_asks_no_handler_twice(own):
    """What Tensor does within an offered call is not offered again."""
    assert [func for func, *_ in asked(lambda: own.requires_grad_())] == [mq.Tensor.requires_grad_]
    assert [func for func, *_ in asked(own.tolist)] == [mq.Tensor.tolist]


@pytest.mark.parametrize(
    "make",
    [mq.tensor, mq.as_tensor, mq.asarray, lambda v: mq.sparse_coo_tensor([v], [1.0], (2,))],
)
def test_D135_modes_answer_for_data_that_is_no_tensor(make):
    with Seeing(answer=-1) as mode:
        assert make([1]) == -1
    assert len(mode.seen) == 1


def test_D135_old_constructors_are_not_offered():
    with Seeing() as mode:
        mq.Tensor([1.0])
    assert not mode.seen


@pytest.mark.parametrize("name", ["sub", "truediv", "floordiv", "mod", "pow", "matmul", "rshift"])
def test_D135_the_class_on_the_right_is_asked_where_all_gave_not_implemented(name):
    class Right(mq.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__ if func.__name__.startswith("__r") else NotImplemented

    class Left(mq.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    assert getattr(operator, name)(Left(), Right()).startswith("__r")
    with pytest.raises(TypeError, match="unsupported operand type"):
        getattr(operator, name)(Left(), Left())


def test_D136_modes_do_not_see_results_become_subclasses():
    class Plain(mq.Tensor):
        pass

    with Seeing() as mode:
        mq.neg(Plain())
    assert {func.__name__ for _, func, *_ in mode.seen} == {"neg"}


def test_D135_a_mode_with_a_classmethod_is_refused():
    class Wrong(TorchFunctionMode):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Wrong(), pytest.raises(RuntimeError, match="classmethod is not supported"):
        mq.ones(2)


def test_D135_handlers_get_outputs_and_inputs_of_grad_in_tuples():
    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return args

    x = Like()
    assert mq.autograd.grad(x, inputs=x) == ((x,), (x,))
