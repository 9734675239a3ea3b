"""Dispatch modes and wrapper subclasses: who sees a call, and when (D94-D110)."""

import threading

import pytest

import maquette as mq
from maquette.dispatch import (
    BaseTorchDispatchMode,
    DispatchKey,
    DispatchKeySet,
    IncludeDispatchKeyGuard,
    TorchDispatchMode,
    TorchDispatchModeKey,
    any_torch_dispatch_mode_on_stack,
    autograd_would_have_decomposed,
    detect_infra_mode,
    disable_current_modes,
    disabled_torch_function,
    enable_reentrant_dispatch,
    get_current_dispatch_mode,
    get_current_dispatch_mode_stack,
    get_dispatch_mode,
    get_dispatch_stack_at,
    get_dispatch_stack_at_pre_dispatch,
    get_mode_pre_dispatch,
    is_in_torch_dispatch_mode,
    is_traceable_wrapper_subclass,
    len_torch_dispatch_stack,
    len_torch_dispatch_stack_pre_dispatch,
    no_dispatch,
    pop_mode,
    pop_mode_pre_dispatch,
    pop_mode_temporarily,
    pop_torch_dispatch_stack,
    push_mode,
    return_and_correct_aliasing,
    set_mode_pre_dispatch,
    tls_is_dispatch_key_included,
    tls_local_include_set,
    transform_subclass,
    unset_dispatch_mode,
    unset_infra_mode,
    unset_mode_pre_dispatch,
)

K = DispatchKey
KS = DispatchKeySet
FAKE, PROXY, FUNCTIONAL = TorchDispatchModeKey
aten = mq.ops.aten


class Seeing(TorchDispatchMode):
    """Writes down what reaches it, in a list that modes may share."""

    def __init__(self, seen=None, name="mode", answer=None):
        super().__init__()
        self.seen = [] if seen is None else seen
        self.name = name
        self.answer = answer

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append((self.name, str(func), types))
        return func(*args, **(kwargs or {})) if self.answer is None else self.answer

    def operators(self):
        return [operator for _, operator, _ in self.seen]


class Proxy(Seeing):
    _mode_key = PROXY


class Functional(Seeing):
    _mode_key = FUNCTIONAL


class S(mq.Tensor):
    """A subclass that declines, and one below that answers."""

    __torch_function__ = disabled_torch_function

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Sub(S):
    seen: list

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen = [func, types, args, kwargs]
        with no_dispatch():
            return mq.zeros(1)


@pytest.fixture
def s(x):
    return x.as_subclass(S)


@pytest.fixture
def sub(x):
    return x.as_subclass(Sub)


# --- the class -------------------------------------------------------------------------------


def test_D94_the_base_class_answers_nothing(x):
    with TorchDispatchMode(), pytest.raises(NotImplementedError, match="__torch_dispatch__"):
        x + x
    with BaseTorchDispatchMode():
        assert (x + x).tolist() == [[2.0] * 3] * 2


def test_D94_a_mode_entered_twice_sees_a_call_twice(x):
    mode = Seeing()
    with mode, mode:
        aten.add.Tensor(x, x)
    assert mode.operators() == ["aten.add.Tensor"] * 2


def test_D94_the_constructor_need_not_be_called(x):
    class Mode(TorchDispatchMode):
        def __init__(self):
            pass

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return "seen"

    with Mode(), pytest.raises(RuntimeError, match="must return"):
        x + x


def test_D94_push_warns():
    with pytest.warns(UserWarning, match="push"):
        assert isinstance(BaseTorchDispatchMode.push(), BaseTorchDispatchMode)


def test_D94_a_classmethod_handler_is_an_error(x):
    class Mode(TorchDispatchMode):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Mode(), pytest.raises(RuntimeError, match="plain method"):
        x + x


def test_D95_only_pre_dispatch_may_be_named(x):
    with pytest.raises(AssertionError, match="str"):
        TorchDispatchMode("CPU")
    with pytest.raises(AssertionError, match="CPU"), TorchDispatchMode(K.CPU):
        pass
    assert len_torch_dispatch_stack() == 0


# --- handlers --------------------------------------------------------------------------------


def test_D96_modes_are_asked_from_the_top(x):
    seen = []
    with Seeing(seen, "A"), Seeing(seen, "B"):
        aten.add.Tensor(x, x)
    assert [name for name, *_ in seen] == ["B", "A"]


def test_D96_what_an_operator_writes_is_its_result_whatever_a_mode_gives(x):
    with Seeing(answer=mq.zeros(3)):
        assert x.add_(1) is x


def test_D96_a_mode_is_off_the_stack_in_its_handler(x):
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            assert get_current_dispatch_mode() is None
            raise ValueError("handler")

    with Mode() as mode:
        for _ in range(2):
            with pytest.raises(ValueError, match="handler"):
                x + x
            assert get_current_dispatch_mode() is mode


def test_D96_a_mode_may_enter_itself_in_its_handler(x):
    class Mode(Seeing):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append((self.name, str(func), types))
            if len(self.seen) > 1:
                return func(*args, **(kwargs or {}))
            with self:
                return func(*args, **(kwargs or {}))

    with Mode() as mode:
        aten.add.Tensor(x, x)
    assert len(mode.seen) == 2


def test_D97_autograd_does_not_act_in_a_handler():
    inside = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            inside.append((out.requires_grad, mq.is_grad_enabled()))
            return out

    y = mq.ones(2).requires_grad_()
    with Mode():
        out = y * y
    assert inside == [(False, True)]
    assert out.requires_grad


def test_D97_reentrant_dispatch_brings_autograd_back():
    inside = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            with enable_reentrant_dispatch():
                z = mq.ones(2).requires_grad_()
                inside.append((z * z).requires_grad)
            return func(*args, **(kwargs or {}))

    y = mq.ones(2)
    with Mode():
        y * y
    assert inside == [True]


def test_D97_reentrant_dispatch_is_for_handlers():
    with pytest.raises(RuntimeError, match="inside a __torch_dispatch__"):
        with enable_reentrant_dispatch():
            pass


def test_D98_types_are_the_classes_with_a_handler_subclasses_first(s, sub, x, define):
    op = define("f(Tensor a, Tensor[] b) -> Tensor", CPU=lambda a, b: a)
    op(s, [x, sub, sub])
    assert Sub.seen[1] == (Sub, S)
    op(sub, [s])
    assert Sub.seen[1] == (Sub, S)


def test_D98_plain_and_fake_tensors_have_none(x):
    with Seeing() as mode:
        aten.add.Tensor(x, x)
        with mq.FakeTensorMode() as fake:
            aten.add.Tensor(fake.from_tensor(x), 1)
    assert [types for *_, types in mode.seen][-1] == ()
    assert mode.seen[0][2] == ()


def test_D99_a_mode_that_declines_leaves_it_to_the_classes(sub):
    with Seeing(answer=NotImplemented) as mode:
        assert aten.add.Tensor(sub, sub).shape == (1,)
    assert len(mode.seen) == 1


def test_D99_handlers_of_classes_run_with_the_modes_back(x):
    stacks = []

    class Looking(S):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            stacks.append(get_current_dispatch_mode_stack())
            return mq.dispatch.keys(args[0])

    t = x.as_subclass(Looking)
    with Seeing(answer=NotImplemented) as mode, pytest.raises(RuntimeError, match="must return"):
        aten.neg.default(t)
    assert stacks == [[mode]]


def test_D99_outer_modes_are_not_tried(x):
    with Seeing() as outer, Seeing(answer=NotImplemented) as inner:
        with pytest.raises(TypeError, match=r"aten\.add\.Tensor.*Seeing object") as caught:
            aten.add.Tensor(x, x)
        with pytest.raises(TypeError, match="NotImplemented"):
            x + x
    assert repr(inner) in str(caught.value)
    assert outer.seen == []


def test_D99_the_error_names_every_class_that_declined(s):
    with pytest.raises(TypeError, match=r"aten\.neg\.default.*asked were S$"):
        aten.neg.default(s)


def test_D100_modes_see_the_pieces_of_a_composite():
    a = mq.ones(2, 2)
    with Seeing() as mode:
        mq.matmul(a, a)
    assert mode.operators() == ["aten.mm.default"]
    with Seeing() as mode, mq.inference_mode():
        aten.reshape.default(a, [4])
    assert mode.operators() == ["aten.reshape.default"]


def test_D100_whether_autograd_would_have_decomposed(x):
    assert autograd_would_have_decomposed(aten.matmul.default, (x, x))
    assert not autograd_would_have_decomposed(aten.mm.default, (x, x))


def test_D16_python_alone_in_the_set_is_passed_over(x):
    with IncludeDispatchKeyGuard(K.Python):
        assert aten.add.Tensor(x, x).shape == (2, 3)


# --- the stack -------------------------------------------------------------------------------


def test_D20_the_stack_includes_its_keys():
    before = tls_local_include_set()
    with Seeing(), Seeing():
        assert tls_local_include_set() == before | KS("Python", "PythonTLSSnapshot")
    assert tls_local_include_set() == before
    with mq.FakeTensorMode():
        assert tls_local_include_set() == before | KS("Fake")


def test_D101_infra_modes_stand_below_user_modes():
    fake, proxy, functional, user = mq.FakeTensorMode(), Proxy(), Functional(), Seeing()
    with user, functional, proxy, fake:
        assert get_current_dispatch_mode_stack() == [fake, proxy, functional, user]
        assert get_dispatch_stack_at(0) is fake
        assert get_current_dispatch_mode() is user
    assert len_torch_dispatch_stack() == 0


def test_D101_a_user_mode_sees_the_operator_before_a_fake_mode_outside_or_inside(x):
    with Seeing() as user, mq.FakeTensorMode(), Proxy(user.seen, "proxy"):
        aten.add.Tensor(mq.ones(2), 1)
    assert [name for name, operator, _ in user.seen if "add" in operator] == ["mode", "proxy"]


def test_D101_pop_mode_takes_the_last_listed():
    user, proxy, fake = Seeing(), Proxy(), mq.FakeTensorMode()
    with fake:
        push_mode(user)
        push_mode(proxy)
        assert [pop_mode(), pop_mode(), pop_mode()] == [user, proxy, fake]
        assert not tls_is_dispatch_key_included(K.Fake)


def test_D102_there_is_one_mode_of_a_kind():
    with Proxy(), pytest.raises(RuntimeError, match=r"Proxy.*already exists"), Proxy():
        pass
    outer, inner = mq.FakeTensorMode(), mq.FakeTensorMode()
    with outer:
        with inner:
            assert get_dispatch_mode(FAKE) is inner
        assert get_dispatch_mode(FAKE) is outer


def test_D102_slots_can_be_emptied():
    assert unset_dispatch_mode(PROXY) is None
    proxy = Proxy()
    push_mode(proxy)
    assert unset_dispatch_mode(PROXY) is proxy
    with pytest.raises(RuntimeError, match="PROXY"):
        pop_torch_dispatch_stack(PROXY)
    with pytest.raises(RuntimeError, match="no dispatch mode"):
        pop_torch_dispatch_stack()


def test_D103_which_modes_are_infra():
    assert Proxy.is_infra_mode()
    assert Proxy.ignore_compile_internals()
    assert not Seeing.is_infra_mode()
    assert not Seeing.ignore_compile_internals()


def test_D103_whether_a_mode_is_active():
    assert not is_in_torch_dispatch_mode()
    with Proxy():
        assert is_in_torch_dispatch_mode()
        assert not is_in_torch_dispatch_mode(include_infra_modes=False)
        assert not any_torch_dispatch_mode_on_stack()
    with Seeing():
        assert is_in_torch_dispatch_mode(False)
        assert any_torch_dispatch_mode_on_stack()
    with mq.FakeTensorMode():
        assert is_in_torch_dispatch_mode()
        assert not is_in_torch_dispatch_mode(False)


def test_D103_a_mode_is_active_while_its_handler_runs(x):
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            assert is_in_torch_dispatch_mode(False)
            assert not any_torch_dispatch_mode_on_stack()
            return func(*args, **(kwargs or {}))

    with Mode():
        x + x


def test_D104_a_mode_is_popped_for_a_block(x):
    with Seeing() as mode, Proxy() as proxy:
        with pop_mode_temporarily() as popped:
            assert popped is mode
            assert get_current_dispatch_mode_stack() == [proxy]
        with pop_mode_temporarily(PROXY) as popped:
            assert popped is proxy
            assert get_current_dispatch_mode_stack() == [mode]
        assert get_current_dispatch_mode_stack() == [proxy, mode]


def test_D104_all_modes_are_off_for_a_block():
    with mq.FakeTensorMode() as fake, Seeing() as user, TracingBefore(K.PreDispatch) as before:
        with disable_current_modes() as popped:
            assert popped == [before, user, fake]
            assert type(mq.ones(2)) is mq.Tensor
            assert user.seen == []
        assert get_current_dispatch_mode_stack() == [fake, user]
        assert get_mode_pre_dispatch(PROXY) is before


def test_D104_a_kind_stands_on_one_stack():
    with Proxy(), TracingBefore(K.PreDispatch), pytest.raises(AssertionError, match="PROXY"):
        with disable_current_modes():
            pass


def test_D104_infra_modes_are_found_on_both_stacks():
    with TracingBefore(K.PreDispatch) as before, Functional() as functional:
        assert detect_infra_mode(PROXY) is before
        assert detect_infra_mode(FUNCTIONAL) is functional
        assert detect_infra_mode(FAKE) is None
    set_mode_pre_dispatch(before)
    assert unset_infra_mode(PROXY) is before
    assert unset_infra_mode(PROXY) is None


def test_D104_no_dispatch_skips_modes_and_classes(s):
    with Seeing() as mode, mq.FakeTensorMode(), no_dispatch():
        assert type(mq.ones(2)) is mq.Tensor
        assert aten.neg.default(s).shape == (2, 3)
    assert mode.seen == []


# --- the PreDispatch stack -------------------------------------------------------------------


class TracingBefore(TorchDispatchMode):
    _mode_key = PROXY


class FunctionalBefore(TorchDispatchMode):
    _mode_key = FUNCTIONAL


class Checking(TorchDispatchMode):
    _schema_check = True


@pytest.fixture
def slots():
    """Three modes for the PreDispatch stack, which is left empty."""
    yield TracingBefore(), FunctionalBefore(), Checking()
    while len_torch_dispatch_stack_pre_dispatch():
        pop_mode_pre_dispatch()


def test_D107_only_these_kinds_and_each_once(slots):
    with pytest.raises(AssertionError, match="Seeing"):
        set_mode_pre_dispatch(Seeing())
    set_mode_pre_dispatch(slots[0])
    with pytest.raises(AssertionError, match=r"taken by .*TracingBefore"):
        set_mode_pre_dispatch(TracingBefore())
    assert get_dispatch_stack_at_pre_dispatch(0) is slots[0]
    with pytest.raises(AssertionError, match="not 2"):
        get_dispatch_stack_at_pre_dispatch(2)


def test_D108_functional_is_popped_before_proxy(slots):
    set_mode_pre_dispatch(slots[1])
    set_mode_pre_dispatch(slots[0])
    assert [pop_mode_pre_dispatch(), pop_mode_pre_dispatch()] == [slots[1], slots[0]]
    with pytest.raises(AssertionError, match="empty"):
        pop_mode_pre_dispatch()


@pytest.mark.parametrize("order", [(2, 0), (1, 2)])
def test_D109_a_schema_check_stands_alone(slots, order):
    first, second = (slots[i] for i in order)
    set_mode_pre_dispatch(first)
    with pytest.raises(AssertionError, match="exclusively"):
        set_mode_pre_dispatch(second)


def test_D110_the_key_is_included_while_a_slot_is_taken(slots):
    included = []
    for act in (
        lambda: set_mode_pre_dispatch(slots[0]),
        lambda: set_mode_pre_dispatch(slots[1]),
        pop_mode_pre_dispatch,
        pop_mode_pre_dispatch,
    ):
        act()
        included.append(tls_is_dispatch_key_included(K.PreDispatch))
    assert included == [True, True, True, False]


def test_D110_slots_are_emptied_by_kind(slots):
    set_mode_pre_dispatch(slots[2])
    assert unset_mode_pre_dispatch(None, schema_check=True) is slots[2]
    assert unset_mode_pre_dispatch(PROXY) is None
    with pytest.raises(AssertionError, match="FAKE"):
        unset_mode_pre_dispatch(FAKE)
    with pytest.raises(AssertionError, match="PROXY"):
        unset_mode_pre_dispatch(PROXY, schema_check=True)


def test_D110_the_stack_is_per_thread(slots):
    set_mode_pre_dispatch(slots[0])
    lengths = []
    thread = threading.Thread(
        target=lambda: lengths.append(len_torch_dispatch_stack_pre_dispatch())
    )
    thread.start()
    thread.join()
    assert lengths == [0]


# --- wrapper subclasses ----------------------------------------------------------------------


class Wrapper(mq.Tensor):
    """Holds one tensor; its own storage is a stand-in of the same geometry."""

    __torch_function__ = disabled_torch_function
    inner: mq.Tensor

    @staticmethod
    def of(inner):
        made = aten.alias.default(inner.detach().clone()).as_subclass(Wrapper)
        made.inner = inner
        return made

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, outer_size, outer_stride):
        return Wrapper.of(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [a.inner if isinstance(a, Wrapper) else a for a in args]
        out = func(*plain, **(kwargs or {}))
        wrapped = Wrapper.of(out) if isinstance(out, mq.Tensor) else out
        return return_and_correct_aliasing(func, args, kwargs, wrapped)


@pytest.fixture
def wrapped(x):
    return Wrapper.of(x.clone())


def test_D105_what_a_traceable_wrapper_is(wrapped, s, x):
    assert is_traceable_wrapper_subclass(wrapped)
    for other in (x, s, Wrapper, None):
        assert not is_traceable_wrapper_subclass(other)


def test_D105_a_wrapper_is_rebuilt_from_its_parts(wrapped):
    names = []
    made = transform_subclass(wrapped, lambda name, t: names.append(name) or t)
    assert type(made) is Wrapper
    assert made.inner is wrapped.inner
    assert names == ["inner"]


def test_D105_the_geometry_must_be_the_one_asked_for(wrapped):
    with pytest.raises(AssertionError, match=r"\(2, 3\).*\(6,\)"):
        transform_subclass(wrapped, lambda name, t: t.reshape(6))


def test_D106_views_share_storage(wrapped):
    view = aten.view.default(wrapped, [6])
    assert type(view) is Wrapper
    assert view.untyped_storage() is wrapped.untyped_storage()


def test_D106_written_arguments_are_returned(wrapped):
    assert aten.add_.Tensor(wrapped, 1) is wrapped
    assert wrapped.inner.tolist() == [[2.0] * 3] * 2


def test_D106_views_in_place_change_the_wrapper(wrapped):
    assert aten.t_.default(wrapped) is wrapped
    assert wrapped.shape == (3, 2)
    assert wrapped.inner.shape == (3, 2)


def test_D106_partly_written_returns_are_refused(x, define):
    op = define("f(Tensor(a!) x) -> (Tensor(a!), Tensor)", CPU=lambda x: (x, x.clone()))
    with pytest.raises(RuntimeError, match=r"f\(Tensor\(a!\) x\)"):
        return_and_correct_aliasing(op, (x,), {}, (x, x))
