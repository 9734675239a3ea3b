"""Higher-order operators: names, keys, modes, subclasses, transforms (D69, D70, D91, D112-D123)."""

import copy
import itertools

import pytest

import maquette as mq
from maquette.dispatch import TorchDispatchMode, TransformType
from maquette.dispatch.guards import AutoDispatchBelowAutograd, IncludeDispatchKeyGuard
from maquette.dispatch.higher_order import HigherOrderOperator
from maquette.dispatch.schemas.parser import parse_schema
from maquette.transforms import functionalize, grad, vmap

K = mq.DispatchKey
numbers = itertools.count()


class Hop(HigherOrderOperator):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)


def hop(**options):
    return Hop(f"hop{next(numbers)}", **options)


def below(kernel=lambda *args, **kwargs: "kernel"):
    """An operator that skips Autograd and has a kernel for every backend."""
    h = hop()
    h.fallthrough(K.Autograd)
    h.py_impl(K.CompositeExplicitAutograd)(kernel)
    return h


class Sub(mq.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Sub2(Sub):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


x = mq.ones(2, 3)


def sub(cls=Sub):
    return mq.ones(2).as_subclass(cls)


def test_D112_the_class_itself_has_no_instances():
    with pytest.raises(TypeError, match="HigherOrderOperator"):
        HigherOrderOperator("f")


def test_D112_a_class_without_call_has_none_either():
    class Silent(HigherOrderOperator):
        pass

    with pytest.raises(TypeError, match="Silent"):
        Silent("f")


def test_D112_names_and_identity():
    h = Hop("plain", cacheable=True)
    assert h.name() == str(h) == h.__name__ == "plain"
    assert h.namespace == "higher_order"
    assert h.cacheable()
    assert copy.deepcopy(h) is h


def test_D91_the_namespace_has_the_newest_of_a_name():
    first, second = Hop("renewed"), Hop("renewed")
    assert mq.ops.higher_order.renewed is second is not first
    with pytest.raises(AttributeError, match="never_made"):
        _ = mq.ops.higher_order.never_made


def test_D113_keys_that_are_skipped_until_a_kernel_is_there():
    h = below()
    assert not h.non_fallthrough_keys.has(K.BackendSelect)
    assert h(x) == "kernel"
    h.py_impl(K.BackendSelect)(lambda *args: "select")
    assert h(x) == "select"


def test_D113_falling_through_one_autograd_key_drops_all():
    h = hop()
    h.fallthrough(K.AutogradCPU)
    h.py_impl(K.CompositeExplicitAutograd)(lambda t: "kernel")
    assert h(mq.ones(2, device="meta")) == "kernel"


def test_D114_without_tensors_the_explicit_kernel_serves():
    h = hop()
    h.py_impl(K.CompositeExplicitAutograd)(lambda: "kernel")
    assert h() == "kernel"


def test_D114_inside_vmap_its_rule_runs_even_without_arguments():
    h = below()
    h.py_impl(TransformType.Vmap)(lambda level, *args: mq.zeros(2))
    seen = []
    vmap(lambda t: (seen.append(h()), t)[1])(x)
    assert seen[0].shape == (2,)


def test_D114_torch_function_sees_any_leaf():
    class Answering(mq.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, types

    h = below()
    assert h({"a": [mq.ones(1).as_subclass(Answering)]}) == (h, (Answering,))


def test_D21_D115_a_tensor_anywhere_brings_autograd():
    h = hop()
    h.py_impl(K.CompositeExplicitAutograd)(lambda *args: "kernel")
    assert h() == "kernel"
    with pytest.raises(NotImplementedError, match=f"{h.name()}.*AutogradCPU"):
        h({"a": [x]})


class Plain(TorchDispatchMode):
    pass


class Derived(Plain):
    pass


class Taking(TorchDispatchMode):
    supports_higher_order_operators = True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return "taken", func, types, args


def test_D116_the_rule_of_the_exact_class_the_flag_or_an_error():
    h = below()
    h.py_impl(Plain)(lambda mode, t: ("rule", mode))
    with Plain() as mode:
        assert h(x) == ("rule", mode)
    with Taking():
        assert h(x) == ("taken", h, [], (x,))
    with pytest.raises(NotImplementedError, match="supports_higher_order_operators"), Derived():
        h(x)


def test_D116_the_mode_is_popped_for_its_rule():
    h = below()
    h.py_impl(Plain)(lambda mode, t: h(t))
    with Plain():
        assert h(x) == "kernel"


def test_D117_subclasses_answer_in_the_order_of_arguments():
    h = below()
    h.py_impl(Sub)(lambda *args: NotImplemented)
    h.py_impl(Sub2)(lambda *args: "second")
    assert h(sub(), [sub(Sub2)]) == "second"


def test_D117_a_subclass_without_rule_is_named():
    with pytest.raises(NotImplementedError, match="Sub"):
        below()(sub())


def test_D118_all_declined():
    h = below()
    h.py_impl(Sub)(lambda *args: NotImplemented)
    with pytest.raises(TypeError, match=rf"{h.name()}.*None.*\['Sub'\]"):
        h(sub())


def test_D119_the_rule_gets_the_mode_of_a_fake_argument_or_the_active_one():
    h = below()
    h.py_impl(mq.FakeTensorMode)(lambda mode, t: (mode, mq.dispatch.get_current_dispatch_mode()))
    mode = mq.FakeTensorMode()
    fake = mode.from_tensor(x)
    assert h(fake) == (mode, None)
    with mode:
        assert h(x) == (mode, None)


def test_D119_a_missing_rule_is_an_error_that_names_the_mode():
    with pytest.raises(NotImplementedError, match="FakeTensorMode"), mq.FakeTensorMode():
        below()(x)


def test_D120_at_pre_dispatch_the_mode_is_popped():
    class Tracing(TorchDispatchMode):
        _mode_key = mq.dispatch.TorchDispatchModeKey.PROXY

        def __init__(self):
            super().__init__(K.PreDispatch)

    h = below()
    with Tracing() as mode:
        with pytest.raises(AssertionError, match="Tracing"):
            h(x)
        h.py_impl(Tracing)(lambda mode, t: (mode, h(t)))
        assert h(x) == (mode, "kernel")


def recording(**options):
    h = hop(**options)
    h.py_impl(K.CompositeExplicitAutograd)(lambda *args: "below")
    h.py_autograd_impl(lambda *args: "recorded")
    return h


def test_D121_recording_calls_reach_the_rule():
    h, y = recording(), mq.ones(2, requires_grad=True)
    assert h({"a": [y]}) == "recorded"
    assert h(x) == "below"
    with mq.no_grad():
        assert h({"a": [y]}) == "below"


def test_D121_mutation_in_training_is_refused():
    class Mutating(Hop):
        def gen_schema(self, *args, **kwargs):
            return parse_schema("h(Tensor(a!) x) -> (Tensor)")

    y = mq.ones(2, requires_grad=True)
    for supported in (False, True):
        h = Mutating(f"mutating{supported}", supports_training_input_mutation=supported)
        h.py_autograd_impl(lambda t: "recorded")
        if supported:
            assert h(y) == "recorded"
        else:
            with pytest.raises(RuntimeError, match="mutatingFalse: in-place"):
                h(y)


def test_D122_no_schema_unless_it_is_said():
    h = hop()
    with pytest.raises(NotImplementedError, match=f"{h.name()}.*functional"):
        h.gen_schema(x)


def test_D123_transforms_lift_tensors_to_their_level():
    h = below()
    h.py_impl(TransformType.Grad)(lambda level, t: (t * 2).sum() + (t._interpreter is level))
    assert grad(lambda t: h(t) + t.sum())(mq.ones(2)).tolist() == [3, 3]


def test_D123_a_missing_rule_names_operator_and_transform():
    h = below()
    with pytest.raises(NotImplementedError, match=rf"{h.name()}.*Vmap"):
        vmap(h)(x)


def test_D123_overloads_ignore_the_table():
    sin = mq.ops.aten.sin.default
    sin.py_impl(TransformType.Vmap)(lambda *args: "rule")
    try:
        assert (vmap(sin)(x) == x.sin()).all()
    finally:
        sin.functorch_table.clear()


def test_D69_one_rule_for_three_forms_of_functionalization():
    h = below()

    @h.py_functionalize_impl
    def rule(ctx, t):
        return t

    assert [len(t) for t in (h.py_kernels, h.python_key_table, h.functorch_table)] == [2, 1, 1]
    with pytest.raises(RuntimeError, match="already"):
        h.py_functionalize_impl(rule)


def test_D70_contexts_unwrap_wrap_and_redispatch():
    h = below(lambda ts: (ts[0] + 1, [ts[1]]))
    seen = []

    @h.py_functionalize_impl
    def rule(ctx, ts):
        values = ctx.unwrap_tensors(ts)
        seen.append(type(values[0]))
        with ctx.redispatch_to_next():
            return ctx.wrap_tensors(h(values))

    found = functionalize(lambda t: h((t.add_(1), t))[0])(mq.ones(2))
    assert (found.tolist(), seen) == ([3, 3], [mq.Tensor])


def test_D64_D65_what_operators_share_holds_for_them():
    h = hop()
    f = h.py_impl(K.CPU)(lambda t: "cpu")
    assert h.py_kernels == {K.CPU: f}
    with AutoDispatchBelowAutograd(), IncludeDispatchKeyGuard(K.CPU):
        assert h(x) == "cpu"
