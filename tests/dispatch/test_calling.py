"""Calls: from what is written to what kernels and handlers get, and back (D38-D51)."""

import threading

import numpy as np
import pytest

import maquette as mq
from maquette.dispatch import DispatchKeySet, TorchDispatchMode
from maquette.dispatch.call import build_entry, new_entry
from maquette.tensor.tensor import Tensor

aten = mq.ops.aten


class Seen(TorchDispatchMode):
    """Keeps the arguments of the calls it sees; answers with `answer` if that is given."""

    def __init__(self, *answer):
        super().__init__()
        self.answer = answer
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((args, kwargs))
        return self.answer[0] if self.answer else func(*args, **kwargs)


class Overriding(Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "handled", args, kwargs


def overriding() -> Overriding:
    return mq.ones(2, 3).as_subclass(Overriding)


def seen(op, *args, **kwargs):
    """The call a handler sees."""
    mode = Seen()
    with mode:
        op(*args, **kwargs)
    return mode.calls[-1]


def echo(*args, **kwargs):
    return args[0].clone()


# --- binding ---------------------------------------------------------------------------------


def test_D38_torch_function_comes_before_matching(x):
    handled, _args, kwargs = aten.add.Tensor(overriding(), x, nonsense=1)
    assert handled == "handled"
    assert kwargs == {"nonsense": 1}
    with pytest.raises(RuntimeError, match="nonsense"):
        aten.add.Tensor(x, x, nonsense=1)


def test_D38_torch_function_gets_the_call_as_written(x):
    s = overriding()
    assert aten.add.Tensor(s, x, alpha=1)[2] == {"alpha": 1}
    assert aten.add.Tensor(self=s, other=2.0)[1:] == ((), {"self": s, "other": 2.0})
    assert aten.sum.dim_IntList(s, [0])[1] == (s, [0])


def test_D39_every_parameter_may_be_a_keyword(x, define):
    assert aten.add.Tensor(self=x, other=x).shape == (2, 3)
    op = define(
        "f(Tensor self, int keyset, int dispatch_key, int op, int args, int kwargs) -> Tensor",
        CPU=echo,
    )
    assert op(self=x, keyset=1, dispatch_key=2, op=3, args=4, kwargs=5).shape == (2, 3)


def test_D39_redispatch_leaves_all_names_to_the_operator(x, define):
    op = define("f(Tensor self, int keyset, int key) -> Tensor", CPU=echo)
    cpu = DispatchKeySet("CPU")
    assert op.redispatch(cpu, self=x, keyset=1, key=2).shape == (2, 3)


def test_D39_names_that_python_uses_work_too(x, define):
    op = define("f(Tensor self, int lambda, int tuple, int[] list) -> Tensor", CPU=echo)
    assert op(x, 1, 2, [3]).shape == (2, 3)
    assert op(self=x, tuple=2, list=[3], **{"lambda": 1}).shape == (2, 3)


def test_D40_the_first_missing_argument_is_named(x):
    with pytest.raises(RuntimeError, match=r"(?s)aten::add\.Tensor.*'other'.*-> Tensor"):
        aten.add.Tensor(x)
    with pytest.raises(RuntimeError, match="'self'"):
        aten.add.Tensor()


def test_D40_a_list_without_default_after_a_default_is_missed(x, define):
    op = define("f(Tensor x, int a=1, int[] b) -> Tensor", CPU=echo)
    with pytest.raises(RuntimeError, match=r"missing.*'b'"):
        op(x)
    assert op(x, b=[1]).shape == (2, 3)


def test_D41_too_many_positionals_are_counted(x):
    with pytest.raises(RuntimeError, match=r"aten::add\.Tensor.*2 .*3 .*Tensor self"):
        aten.add.Tensor(x, x, 2)


def test_D42_unknown_and_repeated_keywords_are_named(x):
    with pytest.raises(RuntimeError, match=r"'beta'.*aten::add"):
        aten.add.Tensor(x, x, beta=1)
    with pytest.raises(RuntimeError, match=r"'self'.*positional and keyword"):
        aten.add.Tensor(x, other=x, self=x)


def test_D43_a_wrong_type_says_all_there_is_to_say(x):
    with pytest.raises(RuntimeError) as caught:
        aten.unsqueeze.default(x, 0.0)
    text = str(caught.value)
    for part in ("aten::unsqueeze", "'int'", "'dim'", "'float'", "Position: 1", "Value: 0.0", "->"):
        assert part in text
    with pytest.raises(RuntimeError, match=r"List\[Tensor\]"):
        aten.cat.default(x)


def test_D43_errors_of_the_slow_path_hide_how_it_was_reached(x):
    with pytest.raises(RuntimeError) as caught:
        aten.add.Tensor("a", x)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


# --- values ----------------------------------------------------------------------------------


def test_D44_what_passes_for_an_int(x, define):
    for dim in (1, True, np.int64(1), mq.tensor(1), mq.tensor([1.0])):
        assert aten.unsqueeze.default(x, dim).shape == (2, 1, 3)
    with pytest.raises(RuntimeError, match="64 bits"):
        define("f(Tensor x, int n, int[] many) -> Tensor", CPU=echo)(x, 2**70, [1])
    with pytest.raises(IndexError, match="out of range"):
        aten.unsqueeze.default(x, 2**70)


def test_D45_what_passes_for_a_float_and_a_bool(x, define):
    op = define("f(Tensor x, float p, bool train) -> Tensor", CPU=echo)
    (_, p, train), _ = seen(op, x, 0, 1)
    assert (p, type(p), train) == (0.0, float, True)
    (_, p, train), _ = seen(op, x, mq.tensor(2), mq.tensor(1))
    assert (p, type(p), train) == (2.0, float, True)
    for p, train in ((1j, True), (0.5, "yes"), (None, True), (0.5, None), (0.5, 1.0)):
        with pytest.raises(RuntimeError, match="expected a value of type"):
            op(x, p, train)


def test_D46_a_scalar_is_a_number_and_no_tensor(x):
    for number in (1, 1.5, True):
        assert aten.add.Scalar(x, number).shape == (2, 3)
    with pytest.raises(RuntimeError, match="'number'"):
        aten.add.Scalar(x, mq.tensor(2))


def test_D47_numbers_for_tensors_in_few_operators_only(x, lib, ns):
    assert aten.mul.Tensor(mq.ones(2, dtype=mq.int32), 2.5).dtype is mq.float32
    with pytest.raises(RuntimeError, match="'mat2'"):
        aten.mm.default(x, 2)
    lib.define("add(Tensor self, Tensor other) -> Tensor")
    with pytest.raises(RuntimeError, match="'other'"):
        getattr(mq.ops, ns).add(x, 2)


@pytest.mark.parametrize("again", [False, True])
def test_D47_a_number_is_no_tensor_to_be_mutated(x, again):
    if again:  # the operator's own entry, made by its first call
        mq.ops.aten.add_.Tensor(x, 1)
    with pytest.raises(RuntimeError, match="'Tensor' for argument 'self' but found type 'int'"):
        mq.ops.aten.add_.Tensor(0, 1.5)


def test_D47_handlers_see_the_number(x):
    assert seen(aten.add.Tensor, x, 2)[0] == (x, 2)


def test_D48_what_passes_for_a_list(x):
    t = mq.ones(6)
    for size in ([2, 3], (2, 3), mq.Size((2, 3)), range(2, 4), np.array([2, 3])):
        assert aten.view.default(t, size).shape == (2, 3)
    for wrong in (6, {2, 3}, {2: 3}, iter([2, 3])):
        with pytest.raises(RuntimeError, match="'size'"):
            aten.view.default(t, wrong)


def test_D48_one_number_for_a_sized_list_and_lists_for_handlers(x):
    assert seen(aten.sum.dim_IntList, x, 0)[0] == (x, [0])
    assert seen(aten.sum.dim_IntList, x, (0, 1))[0] == (x, [0, 1])


def test_D49_dtypes_devices_and_none(x):
    assert aten.zeros.default([2], dtype=6, device="cpu").dtype is mq.float32
    for wrong in ({"dtype": "float"}, {"dtype": float}):
        with pytest.raises(RuntimeError, match=r"Optional\[int\]"):
            aten.zeros.default([2], **wrong)
    with pytest.raises(RuntimeError, match="'device'"):
        aten.zeros.default([2], device=0)
    with pytest.raises(RuntimeError, match="NoneType"):
        aten.add.Tensor(x, None)


# --- what handlers see -----------------------------------------------------------------------


def test_D50_defaults_are_dropped_from_the_end(x):
    assert seen(aten.sum.dim_IntList, x, [0], False, dtype=None) == ((x, [0]), {})
    assert seen(aten.add.Tensor, self=x, other=x, alpha=1) == ((x, x), {})
    assert seen(aten.add.Tensor, x, x, alpha=2) == ((x, x), {"alpha": 2})


def test_D50_a_default_before_a_given_argument_stays(x, define):
    op = define("f(Tensor x, int a=1, int b=2) -> Tensor", CPU=echo)
    assert seen(op, x, b=3) == ((x, 1, 3), {})


@pytest.mark.parametrize(
    "schema, wrong",
    [
        ("f(Tensor x) -> Tensor", "s"),
        ("f(Tensor x) -> ()", 1),
        ("f(Tensor x) -> (Tensor, Tensor)", (1,)),
        ("f(Tensor x) -> int", "s"),
        ("f(Tensor x) -> Tensor[]", 3),
    ],
)
def test_D51_a_wrong_result_names_the_operator(x, define, schema, wrong):
    op = define(schema, CPU=echo)
    with Seen(wrong), pytest.raises(RuntimeError, match=f"{op.name()}: .* must return"):
        op(x)


def test_D51_results_come_in_one_form(x, define):
    pair = define("pair(Tensor x) -> (Tensor, Tensor)", CPU=lambda x: [x.clone(), x.clone()])
    several = define("several(Tensor x) -> Tensor[]", CPU=lambda x: (x.clone(), x.clone()))
    one = define("one(Tensor x) -> int", CPU=lambda x: 7)
    none = define("none(Tensor x) -> ()", CPU=lambda x: None)
    assert type(pair(x)) is tuple
    assert type(several(x)) is list
    assert one(x) == 7
    assert none(x) is None


# --- the generated entry ---------------------------------------------------------------------

_CALLS = [
    lambda t: ((t, t), {}),
    lambda t: ((t,), {"other": t, "alpha": 2}),
    lambda t: ((t, 2.5), {}),
    lambda t: ((t, True), {"alpha": 1.5}),
    lambda t: ((), {"self": t, "other": 3}),
    lambda t: ((t,), {}),
    lambda t: ((t, t, t), {}),
    lambda t: ((t, "2"), {}),
    lambda t: ((t, t), {"alpha": t}),
]


@pytest.mark.parametrize("call", _CALLS)
def test_D38_the_generated_entry_does_what_the_plain_one_does(x, call):
    op = aten.add.Tensor

    def outcome(run):
        try:
            return run().tolist()
        except RuntimeError as error:
            return str(error)

    args, kwargs = call(x)
    plain = outcome(lambda: op.call_slow(args, kwargs))
    assert outcome(lambda: op(*args, **kwargs)) == plain


def test_D38_errors_of_kernels_are_not_taken_for_errors_of_calls(x, define):
    def kernel(x):
        raise TypeError("from the kernel")

    with pytest.raises(TypeError, match="from the kernel"):
        define("f(Tensor x) -> Tensor", CPU=kernel)(x)


def test_D21_only_arguments_typed_as_tensors_give_keys(x, define):
    op = define("f(Tensor x, Any y) -> Tensor", CPU=echo)
    assert op(x, mq.empty(2, device="meta")).shape == (2, 3)
    nested = define("g(Tensor?[] x) -> int", CPU=lambda x: 1, Meta=lambda x: 2)
    assert nested([None, x]) == 1
    assert nested([None, mq.empty(2, device="meta")]) == 2


def test_D138_first_calls_in_many_threads_compile_one_entry(x, define):
    op = define("f(Tensor x) -> Tensor", CPU=echo)
    threads = [threading.Thread(target=op, args=(x,)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    built = new_entry(op, "f")
    build_entry(built, op)
    assert op.public_call.__code__.co_filename == built.__code__.co_filename


def test_D46_a_number_of_a_class_of_its_own_is_quick(x):
    class Own(int):
        pass

    assert aten.add.Scalar(x, Own(2)).tolist()[0] == [3.0, 3.0, 3.0]
