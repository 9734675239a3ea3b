"""Rules for modes and tensor classes, autocast of users' operators, compiled kernels (L33-L53)."""

import pytest

import maquette as mq
from maquette.amp import autocast
from maquette.dispatch.modes import TorchDispatchMode, no_dispatch
from maquette.library import custom_op, register_autocast, register_torch_dispatch

SCHEMA = "f(Tensor x, Tensor[] more=[], *, Tensor? last=None) -> Tensor"


@pytest.fixture
def op(ns):
    """An operator that notes the dtypes it runs on, in ``op.seen``."""
    with mq.library._scoped_library(ns, "FRAGMENT") as lib:
        lib.define(SCHEMA)
        found = getattr(mq.ops, ns).f.default
        seen = []

        def kernel(x, more=(), *, last=None):
            seen.append([t.dtype for t in (x, *more, *([] if last is None else [last]))])
            return x + 1

        lib.impl("f", kernel, "CPU")
        found.lib, found.seen = lib, seen
        yield found


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Sub(Mode):
    pass


def answers(mode, op, types, args, kwargs):
    return op(*args, **kwargs) * 10


# --- L52 --------------------------------------------------------------------------------------


def test_L52_a_rule_answers_under_exactly_its_mode(op):
    register_torch_dispatch(op, Mode, answers, lib=op.lib)
    x = mq.ones(1)
    with Mode():
        assert op(x).tolist() == [20]
    with Sub():
        assert op(x).tolist() == [2]
    assert op(x).tolist() == [2]


def test_L52_a_rule_gets_mode_operator_types_arguments_and_keywords(op):
    seen = []
    decorate = register_torch_dispatch(op.name(), Mode, lib=op.lib)
    assert decorate(answers) is answers
    op.lib._destroy()
    with mq.library._scoped_library(op.namespace, "FRAGMENT") as lib:
        lib.define(SCHEMA)
        lib.impl("f", lambda x, more=(), *, last=None: x + 1, "CPU")
        again = getattr(mq.ops, op.namespace).f.default
        register_torch_dispatch(again, Mode, lambda *given: seen.append(given) or mq.ones(1))
        x, mode = mq.ones(1), Mode()
        with mode:
            again(x, [x], last=x)
    ((got, called, types, args, kwargs),) = seen
    assert got is mode
    assert called is again
    assert types == ()
    assert [a is x for a in (args[0], args[1][0], kwargs["last"])] == [True] * 3


def test_L52_a_rule_answers_for_exactly_its_tensor_class(op):
    class Mine(mq.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func is op:
                return "handler"
            with no_dispatch():
                return func(*args)

    class Other(Mine):
        pass

    seen = []

    def rule(cls, called, types, args, kwargs):
        seen.append((cls, types))
        return mq.full((1,), 7.0)

    register_torch_dispatch(op, Mine, rule, lib=op.lib)
    x, y = (mq.ones(1).as_subclass(cls) for cls in (Mine, Other))
    assert float(op(x)) == 7
    assert seen == [(Mine, (Mine,))]
    with pytest.raises(RuntimeError, match="str"):  # the handler's answer, which fits no schema
        op(y)


def test_L52_a_second_rule_of_a_class_is_refused_with_both_places(op):
    register_torch_dispatch(op, Mode, answers, lib=op.lib)
    with pytest.raises(RuntimeError, match=r"Mode(.|\n)*test_dispatch_rules(.|\n)*test_dispatch_r"):
        register_torch_dispatch(op, Mode, answers, lib=op.lib)
    register_torch_dispatch(op, Sub, answers, lib=op.lib)


def test_L52_an_opdefs_rule_is_replaced(ns):
    opdef = custom_op(f"{ns}::g", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    for factor in (10, 100):
        register_torch_dispatch(
            opdef, Mode, lambda mode, op, types, args, kwargs, n=factor: op(*args) * n
        )
    with Mode():
        assert opdef(mq.ones(1)).tolist() == [200]


def test_L52_not_implemented_by_all_is_a_type_error(op):
    register_torch_dispatch(op, Mode, lambda *given: NotImplemented, lib=op.lib)
    with Mode(), pytest.raises(TypeError, match="NotImplemented"):
        op(mq.ones(1))


def test_L33_destroying_a_library_undoes_its_rule(op):
    with mq.library._scoped_library(op.namespace, "FRAGMENT") as lib:
        lib._register_torch_dispatch_rule("f", Mode, answers)
        with Mode():
            assert op(mq.ones(1)).tolist() == [20]
    with Mode():
        assert op(mq.ones(1)).tolist() == [2]
    register_torch_dispatch(op, Mode, answers, lib=op.lib)


@pytest.mark.parametrize("cls", [int, "Mode", None])
def test_L52_what_is_no_class_of_modes_or_tensors_is_refused(op, cls):
    with pytest.raises(ValueError, match="class of modes"):
        register_torch_dispatch(op, cls, answers, lib=op.lib)


# --- L53 --------------------------------------------------------------------------------------


def mixed():
    return mq.ones(1), [mq.ones(1, dtype=mq.int64), mq.ones(1, dtype=mq.float64)]


@pytest.mark.parametrize("region", [mq.float16, mq.bfloat16])
def test_L53_floating_tensors_but_float64_are_cast_whatever_the_region(op, region):
    register_autocast(op, "cpu", mq.bfloat16, lib=op.lib)
    x, more = mixed()
    with autocast("cpu", dtype=region):
        op(x, more)
    op(x, more)
    kept = [mq.int64, mq.float64]
    assert op.seen == [[mq.bfloat16, *kept], [mq.float32, *kept]]


def test_L53_keyword_arguments_are_cast(op):
    register_autocast(op, "cpu", mq.bfloat16, lib=op.lib)
    with autocast("cpu"):
        op(mq.ones(1), last=mq.ones(1))
    assert op.seen == [[mq.bfloat16, mq.bfloat16]]


def test_L53_the_operator_runs_outside_of_the_region(ns):
    inside = []

    def kernel(x: mq.Tensor) -> mq.Tensor:
        inside.append(mq.mm(x, x).dtype)
        return x + 1

    op = custom_op(f"{ns}::g", kernel, mutates_args=())
    op.register_autocast("cpu", mq.float32)
    with autocast("cpu"):
        op(mq.ones(1, 1))
    assert inside == [mq.float32]


def test_L53_the_last_registration_counts_and_ends_with_its_library(op):
    register_autocast(op, "cpu", mq.bfloat16, lib=op.lib)
    with mq.library._scoped_library(op.namespace, "IMPL") as lib:
        register_autocast(op, "cpu", mq.float16, lib=lib)
        with autocast("cpu"):
            op(mq.ones(1))
    with autocast("cpu"):
        op(mq.ones(1))
    assert op.seen == [[mq.float16], [mq.bfloat16]]


def test_L53_an_opdefs_own_method_casts_too(ns):
    seen = []
    opdef = custom_op(
        f"{ns}::g", lambda x: seen.append(x.dtype) or x + 1, mutates_args=(),
        schema="(Tensor x) -> Tensor",
    )  # fmt: skip
    opdef.register_autocast("cpu", mq.float16)
    with autocast("cpu"):
        opdef(mq.ones(1))
    assert seen == [mq.float16]


def test_L53_an_unsupported_device_is_a_value_error_that_names_it(op):
    with pytest.raises(ValueError, match="nodevice"):
        register_autocast(op, "nodevice", mq.float16, lib=op.lib)


# --- L34 --------------------------------------------------------------------------------------


@pytest.fixture
def compiled(ns):
    """A library with an operator that compiled kernels serve, and what its provider was asked."""
    with mq.library._scoped_library(ns, "FRAGMENT") as lib:
        lib.define("f(Tensor x, int n) -> Tensor")
        asked = []

        @lib._impl_with_aoti_compile("f", "CPU")
        def provider(op, args, kwargs):
            asked.append((op, args, kwargs))
            return lambda x, n: x * n

        yield lib, getattr(mq.ops, ns).f.default, asked


def test_L34_a_provider_is_asked_once_for_equal_calls(compiled):
    _, f, asked = compiled
    assert f(mq.ones(2), 3).tolist() == [3, 3]
    assert f(mq.zeros(2), 3).tolist() == [0, 0]
    assert len(asked) == 1
    assert asked[0][0] is f
    assert asked[0][1][1] == 3


@pytest.mark.parametrize(
    "call", [(mq.ones(3), 3), (mq.ones(2, dtype=mq.float64), 3), (mq.ones(2), 4)]
)
def test_L34_it_is_asked_again_for_another_signature(compiled, call):
    _, f, asked = compiled
    f(mq.ones(2), 3)
    f(*call)
    assert len(asked) == 2


@pytest.mark.parametrize("key", ["AutogradCPU", "CompositeImplicitAutograd", "SparseCPU", ""])
def test_L34_a_key_without_a_dense_backend_is_an_assertion_error(compiled, key):
    with pytest.raises(AssertionError, match="dense"):
        compiled[0]._impl_with_aoti_compile("f", key)


def test_L34_a_key_that_is_held_is_refused(compiled):
    with pytest.raises(RuntimeError, match=r"CPU already, from .*test_dispatch_rules"):
        compiled[0]._impl_with_aoti_compile("f", "CPU")
    compiled[0]._impl_with_aoti_compile("f", "CUDA")


def test_L34_without_a_provider_the_call_says_so(ns):
    with mq.library._scoped_library(ns, "FRAGMENT") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib._impl_with_aoti_compile("f", "CPU")
        with pytest.raises(NotImplementedError, match=f"{ns}::f has no provider"):
            getattr(mq.ops, ns).f(mq.ones(1))


def test_L34_it_ends_with_the_library(compiled):
    lib, f, _ = compiled
    lib._destroy()
    with pytest.raises(RuntimeError):
        f(mq.ones(2), 3)
