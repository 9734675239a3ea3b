"""PyTorch's test utilities and `opcheck`'s arguments (L111-L119)."""

import numpy as np
import pytest

import maquette as mq
from maquette.fake import MetadataMismatchError
from maquette.library import custom_op, opcheck
from maquette.opcheck import OpCheckError

ALL = [
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_static",
    "test_aot_dispatch_dynamic",
]
Tensor = mq.Tensor


def defined(ns, function, fake=mq.empty_like, mutates_args=(), schema=None):
    made = custom_op(f"{ns}::op", function, mutates_args=mutates_args, schema=schema)
    if fake is not None:
        made.register_fake(fake)
    return made


def plain(lib, function, schema="op(Tensor x) -> Tensor", fake=mq.empty_like, key="CPU"):
    lib.define(schema)
    lib.impl("op", function, key)
    if fake is not None:
        lib.impl("op", fake, "Meta")
    return getattr(mq.ops, lib.ns).op


def failure(op, args, name, **more):
    outcome = opcheck(op, args, test_utils=name, raise_exception=False, **more)
    return outcome[name]


def test_L111_it_takes_an_opdef_an_overload_and_a_packet_of_one(square):
    x = mq.ones(2, requires_grad=True)
    packet = getattr(mq.ops, square._namespace).square
    for op in (square, packet, packet.default):
        assert set(opcheck(op, (x,)).values()) == {"SUCCESS"}


def test_L111_anything_else_is_a_ValueError():
    with pytest.raises(ValueError, match=r"expected op to be an OpOverload.*got function"):
        opcheck(lambda x: x, (mq.ones(2),))


def test_L111_a_packet_of_several_overloads_lists_them():
    with pytest.raises(RuntimeError, match=r"Tensor.*Scalar"):
        opcheck(mq.ops.aten.add, (mq.ones(2), mq.ones(2)))


def test_L112_all_but_static_run_by_default_in_order(square):
    outcome = opcheck(square, (mq.ones(2),))
    assert list(outcome) == [n for n in ALL if n != "test_aot_dispatch_static"]


@pytest.mark.parametrize("names", ["ALL", ALL, tuple(reversed(ALL))])
def test_L112_test_utils_may_be_all_a_list_or_a_tuple(square, names):
    assert list(opcheck(square, (mq.ones(2),), test_utils=names)) == ALL


@pytest.mark.parametrize("names", ["test_nothing", ["test_schema", "x"], 3, {"test_schema"}])
def test_L112_other_names_are_a_ValueError_that_lists_them(square, names):
    with pytest.raises(ValueError, match="test_schema, test_autograd_registration"):
        opcheck(square, (mq.ones(2),), test_utils=names)


def test_L113_the_first_failure_raises_and_names_the_utility(ns):
    op = defined(ns, _double, fake=None)
    with pytest.raises(OpCheckError, match="test_faketensor failed with RuntimeError") as caught:
        opcheck(op, (mq.ones(2),))
    assert "no fake impl registered" in str(caught.value.__cause__)


def test_L113_without_raising_all_run_and_the_dict_has_the_exceptions(ns):
    outcome = opcheck(defined(ns, _double, fake=None), (mq.ones(2),), raise_exception=False)
    assert outcome["test_schema"] == "SUCCESS"
    assert isinstance(outcome["test_faketensor"], RuntimeError)


def test_L114_the_callers_data_is_left_alone(ns):
    def write(x: Tensor) -> None:
        x.add_(1)

    x = mq.zeros(2)
    opcheck(defined(ns, write, fake=lambda x: None, mutates_args={"x"}), (x,))
    assert x.tolist() == [0, 0]


def test_L114_copies_keep_strides_grad_and_aliasing(ns):
    seen = []

    def look(x: Tensor, y: Tensor) -> Tensor:
        seen.append((x.stride(), x is y or x._storage is y._storage))
        return x + y

    x = mq.ones(2, 3).t()
    opcheck(defined(ns, look, lambda x, y: mq.empty_like(x)), (x, x), test_utils="test_schema")
    assert seen == [((1, 3), True)]


def test_L114_a_fake_argument_passes_trivially(ns):
    with mq.FakeTensorMode():
        x = mq.ones(2)
    outcome = opcheck(defined(ns, _double, fake=None), (x,))
    assert set(outcome.values()) == {"SUCCESS"}


@pytest.mark.parametrize("given", [{"atol": 0.1}, {"rtol": 0.1}])
def test_L115_one_tolerance_alone_is_a_ValueError(square, given):
    with pytest.raises(ValueError, match="both atol and rtol"):
        opcheck(square, (mq.ones(2),), **given)


def test_L115_a_tolerance_of_0_is_honoured_and_a_loose_one_is_used(ns):
    count = [0]

    def drifts(x: Tensor) -> Tensor:
        count[0] += 1
        return x + count[0] * 1e-6

    op = defined(ns, drifts)
    name = "test_aot_dispatch_static"
    assert isinstance(failure(op, (mq.ones(2),), name, atol=0, rtol=0), AssertionError)
    assert failure(op, (mq.ones(2),), name, atol=1e-3, rtol=0) == "SUCCESS"


def _double(x: Tensor) -> Tensor:
    return x * 2


# --- the utilities ----------------------------------------------------------------------------


def test_L116_an_undeclared_write_is_named(lib):
    error = failure(plain(lib, lambda x: x.add_(1) * 1), (mq.ones(2),), "test_schema")
    assert "Argument x is not defined as mutable but was mutated" in str(error)


def test_L116_changed_strides_are_a_write(lib):
    op = plain(lib, lambda x: x.t_().clone())
    assert "x is not defined as mutable" in str(failure(op, (mq.ones(2, 2),), "test_schema"))
    assert "x is not defined as mutable" in str(failure(op, (mq.ones(2, 3),), "test_schema"))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x, "x is not defined to alias output but was returned"),
        (lambda x: x[:1], "x is not defined to alias output but was aliasing"),
    ],
)
def test_L116_undeclared_aliases_of_inputs_are_named(lib, function, words):
    assert words in str(failure(plain(lib, function), (mq.ones(2),), "test_schema"))


def test_L116_outputs_that_share_memory_are_named(lib):
    def pair(x):
        y = x.clone()
        return y, y[:1]

    op = plain(lib, pair, "op(Tensor x) -> (Tensor, Tensor)", fake=None)
    assert "output 0 and output 1" in str(failure(op, (mq.ones(2),), "test_schema"))


def test_L116_an_unused_declared_write_passes(lib):
    op = plain(lib, lambda x: None, "op(Tensor(a!) x) -> ()", fake=None)
    assert failure(op, (mq.ones(2),), "test_schema") == "SUCCESS"


def test_L117_a_differentiable_body_at_a_backend_key_fails(lib):
    op = plain(lib, lambda x: x.sin())
    error = failure(op, (mq.ones(2, requires_grad=True),), "test_autograd_registration")
    assert isinstance(error, AssertionError)
    assert "AutogradCPU" in str(error)


def test_L117_it_passes_without_grad_or_with_an_autograd_kernel(lib):
    op = plain(lib, lambda x: x.sin())
    name = "test_autograd_registration"
    assert failure(op, (mq.ones(2),), name) == "SUCCESS"
    lib.impl("op", lambda x: x.sin(), "AutogradCPU")
    assert failure(op, (mq.ones(2, requires_grad=True),), name) == "SUCCESS"


def test_L117_a_numpy_kernel_without_derivative_passes(lib):
    op = plain(lib, lambda x: mq.tensor(np.sin(x.detach().numpy())))
    x = mq.ones(2, requires_grad=True)
    assert failure(op, (x,), "test_autograd_registration") == "SUCCESS"


@pytest.mark.parametrize(
    ("fake", "fact"),
    [
        (lambda x: x.new_empty(3), "shape is [2, 2] for real, [3] by the fake"),
        (lambda x: mq.empty_like(x, dtype=mq.float64), "dtype"),
        (lambda x: mq.empty_like(x, device="meta"), "device"),
        (lambda x: mq.empty_like(x).t(), "strides"),
        (lambda x: x.new_empty(5)[1:].view(2, 2), "offset"),
        (lambda x: x, "aliasing"),
    ],
)
def test_L118_each_fact_of_the_fake_is_compared(lib, fake, fact):
    op = plain(lib, lambda x: x * 2, fake=None)
    mq.library.register_fake(f"{lib.ns}::op", fake, lib=lib)
    error = failure(op, (mq.ones(2, 2),), "test_faketensor")
    assert isinstance(error, MetadataMismatchError)
    assert fact in str(error)


def test_L118_the_number_of_returns_is_compared(lib):
    op = plain(lib, lambda x: [x * 2, x * 3], "op(Tensor x) -> Tensor[]", fake=None)
    mq.library.register_fake(f"{lib.ns}::op", lambda x: [mq.empty_like(x)], lib=lib)
    assert "2 values for real, 1 values" in str(failure(op, (mq.ones(2),), "test_faketensor"))


def test_L118_a_size_of_data_fits_any(ns):
    def nonzero(x: Tensor) -> Tensor:
        return x.nonzero().contiguous()

    def fake(x):
        return x.new_empty(mq.library.get_ctx().new_dynamic_size(), op.width, dtype=mq.int64)

    op = custom_op(f"{ns}::op", nonzero, mutates_args=())
    op.register_fake(fake)
    op.width = 1
    for x in (mq.ones(2), mq.ones(5), mq.zeros(3)):
        assert failure(op, (x,), "test_faketensor") == "SUCCESS"
    op.width = 2
    assert "shape" in str(failure(op, (mq.ones(2),), "test_faketensor"))


def test_L118_built_ins_and_tags_are_skipped(lib):
    lib.define("op(Tensor x) -> Tensor", tags=mq.Tag.dynamic_output_shape)
    lib.impl("op", lambda x: x.nonzero(), "CPU")
    op = getattr(mq.ops, lib.ns).op
    assert failure(op, (mq.ones(2),), "test_faketensor") == "SUCCESS"
    assert failure(mq.ops.aten.sin.default, (mq.ones(2),), "test_faketensor") == "SUCCESS"


@pytest.mark.parametrize("name", ["test_aot_dispatch_static", "test_aot_dispatch_dynamic"])
class Test_L119_traced:
    def test_no_formula_fails(self, ns, name):
        x = mq.ones(2, requires_grad=True)
        assert "no autograd formula" in str(failure(defined(ns, _double), (x,), name))

    def test_a_wrong_count_of_gradients_fails(self, ns, name):
        op = defined(ns, _double)
        op.register_autograd(lambda ctx, g: (g, g))
        assert isinstance(failure(op, (mq.ones(2, requires_grad=True),), name), RuntimeError)

    def test_numpy_in_backward_fails(self, ns, name):
        op = defined(ns, _double)
        op.register_autograd(lambda ctx, g: mq.tensor(g.numpy() * 2))
        assert isinstance(failure(op, (mq.ones(2, requires_grad=True),), name), Exception)

    def test_a_hidden_counter_fails_and_is_said_to_be_outputs(self, ns, name):
        count = [0]

        def counts(x: Tensor) -> Tensor:
            count[0] += 1
            return x * count[0]

        assert "outputs" in str(failure(defined(ns, counts), (mq.ones(2),), name))

    def test_a_counter_in_backward_is_said_to_be_gradients(self, ns, name):
        count = [0]
        inner = defined(ns + "i", _scaled_by(count), fake=mq.empty_like)
        op = defined(ns, _double)
        op.register_autograd(lambda ctx, g: inner(g))
        error = failure(op, (mq.ones(2, requires_grad=True),), name)
        assert str(error).startswith("gradients")

    def test_a_foreign_random_generator_fails(self, ns, name):
        draws = np.random.default_rng(0)

        def noisy(x: Tensor) -> Tensor:
            return x + float(draws.random())

        assert "outputs" in str(failure(defined(ns, noisy), (mq.ones(2),), name))

    def test_seeded_randomness_of_ours_passes(self, ns, name):
        def noisy(x: Tensor) -> Tensor:
            return x + mq.rand(x.shape)

        assert failure(defined(ns, noisy), (mq.ones(2),), name) == "SUCCESS"


def _scaled_by(count):
    def scaled(x: Tensor) -> Tensor:
        count[0] += 1
        return x * count[0]

    return scaled


def test_L119_new_dynamic_size_raises_over_static_sizes_only(ns):
    def nonzero(x: Tensor) -> Tensor:
        return x.nonzero()

    op = custom_op(f"{ns}::op", nonzero, mutates_args=())
    op.register_fake(
        lambda x: x.new_empty(mq.library.get_ctx().new_dynamic_size(), 1, dtype=mq.int64)
    )
    assert isinstance(failure(op, (mq.ones(2),), "test_aot_dispatch_static"), Exception)
    assert failure(op, (mq.ones(2),), "test_aot_dispatch_dynamic") == "SUCCESS"


def test_L120_a_wrong_formula_passes_the_utilities(ns):
    op = defined(ns, _double)
    op.register_autograd(lambda ctx, g: g * 3)
    x = mq.ones(2, requires_grad=True)
    assert set(opcheck(op, (x,)).values()) == {"SUCCESS"}
    assert "gradcheck" in opcheck.__doc__
