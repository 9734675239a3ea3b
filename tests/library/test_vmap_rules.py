"""`register_vmap`: the rule's arguments, its results, and what runs where no rule is."""

import warnings

import pytest

import maquette as mq
from maquette import Tensor
from maquette.library import custom_op


def numbers(x):
    return x.detach().numpy().tolist()


@pytest.fixture
def square(ns):
    """A custom operator with a formula and a rule: x squared."""

    @custom_op(f"{ns}::square", mutates_args=())
    def square(x: Tensor) -> Tensor:
        return x * x

    square.register_autograd(
        lambda ctx, g: g * 2 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    square.register_vmap(lambda info, in_dims, x: (square(x), in_dims[0]))
    return square


@pytest.fixture
def ruled(ns):
    """A custom operator that copies, and a function that gives it the answer of its rule."""

    @custom_op(f"{ns}::copy", mutates_args=())
    def copy(x: Tensor) -> Tensor:
        return x.clone()

    def under(answer):
        copy.register_vmap(lambda info, in_dims, x: answer(x, in_dims))
        return mq.func.vmap(copy)(mq.ones(3, 2))

    return under


def test_L98_grad_of_vmap_equals_the_loop(square):
    x = mq.tensor([1.0, 2.0, 3.0])
    assert numbers(mq.func.grad(lambda x: mq.func.vmap(square)(x).sum())(x)) == [2.0, 4.0, 6.0]


def test_L98_vmap_of_grad_equals_the_loop(square):
    x = mq.tensor([1.0, 2.0, 3.0])
    assert numbers(mq.func.vmap(mq.func.grad(square))(x)) == [2.0, 4.0, 6.0]


def test_L98_vjp_uses_the_formula(square):
    x = mq.tensor([1.0, 2.0])
    _, pull = mq.func.vjp(square, x)
    assert numbers(pull(mq.ones(2))[0]) == [2.0, 4.0]


def test_L98_jvp_follows_from_the_formula(square):
    """2.13 gives zeros; what is asked for is an error or, as here, the right answer."""
    x = mq.tensor([1.0, 3.0])
    assert numbers(mq.func.jvp(square, (x,), (mq.ones(2),))[1]) == [2.0, 6.0]


def test_L98_jvp_without_any_formula_names_the_operator(ns):
    op = custom_op(f"{ns}::f", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match=f"{ns}.f"):
        mq.func.jvp(op, (mq.ones(2),), (mq.ones(2),))


@pytest.mark.parametrize("randomness", ["same", "different", "error"])
def test_L100_randomness_and_batch_size_arrive(ns, randomness):
    seen = []
    op = custom_op(f"{ns}::f", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")

    def rule(info, in_dims, x):
        seen.append((info.randomness, info.batch_size))
        return x.clone(), in_dims[0]

    op.register_vmap(rule)
    mq.func.vmap(op, randomness=randomness)(mq.ones(3, 2))
    assert seen == [(randomness, 3)]


def test_L100_a_repeated_rule_replaces_and_is_returned(ns):
    op = custom_op(f"{ns}::f", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_vmap(lambda info, in_dims, x: (x * 2, in_dims[0]))

    def second(info, in_dims, x):
        return x * 3, in_dims[0]

    assert op.register_vmap(second) is second
    assert numbers(mq.func.vmap(op)(mq.ones(2))) == [3.0, 3.0]


def test_L101_in_dims_are_not_negative(ns):
    seen = []
    op = custom_op(f"{ns}::f", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")

    def rule(info, in_dims, x):
        seen.append((in_dims, tuple(x.shape)))
        return x.clone(), in_dims[0]

    op.register_vmap(rule)
    mq.func.vmap(op, in_dims=-1)(mq.ones(3, 2))
    assert seen == [((1,), (3, 2))]


def test_L101_a_list_argument_has_a_list_of_dims(ns):
    seen = []
    schema = "(Tensor[] xs, Tensor y) -> Tensor"
    op = custom_op(f"{ns}::f", lambda xs, y: xs[0] + y, mutates_args=(), schema=schema)

    def rule(info, in_dims, xs, y):
        seen.append(list(in_dims))
        return xs[0] + y, 0

    op.register_vmap(rule)
    c = mq.ones(2)
    mq.func.vmap(lambda x, y: op([x, c], y))(mq.ones(3, 2), mq.ones(3, 2))
    assert seen == [[[0, None], 0]]


def test_L102_an_answer_that_is_no_pair_is_refused(ruled):
    with pytest.raises(RuntimeError):
        ruled(lambda x, dims: x.clone())


def test_L102_structures_that_differ_are_refused(ruled):
    with pytest.raises(RuntimeError):
        ruled(lambda x, dims: (x.clone(), (0, 0)))


def test_L102_list_output_with_tuple_dims_is_refused(ns):
    schema = "(Tensor x) -> Tensor[]"
    op = custom_op(f"{ns}::f", lambda x: [x.clone()], mutates_args=(), schema=schema)
    op.register_vmap(lambda info, in_dims, x: ([x.clone()], (0,)))
    with pytest.raises(RuntimeError):
        mq.func.vmap(op)(mq.ones(3, 2))


def test_L102_a_dim_out_of_range_is_an_index_error(ruled):
    with pytest.raises(IndexError):
        ruled(lambda x, dims: (x.clone(), 5))


@pytest.mark.parametrize("dim", [1.0, "0"])
def test_L102_a_dim_that_is_no_int_is_a_type_error(ruled, dim):
    with pytest.raises(TypeError):
        ruled(lambda x, dims: (x.clone(), dim))


def test_L102_another_size_than_the_batch_is_refused(ruled):
    with pytest.raises(RuntimeError):
        ruled(lambda x, dims: (x.clone(), 1))


def test_L102_negative_dims_count_from_the_end(ruled):
    assert tuple(ruled(lambda x, dims: (x.t().clone(), -1)).shape) == (3, 2)


def test_L103_nested_vmap_equals_the_nested_loop(square):
    x = mq.arange(6.0).reshape(2, 3)
    assert numbers(mq.func.vmap(mq.func.vmap(square))(x)) == numbers(x * x)


def test_L103_constants_alone_do_not_call_the_rule(ns):
    called = []
    op = custom_op(f"{ns}::f", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_vmap(lambda info, in_dims, x: (called.append(1), in_dims))
    c = mq.ones(2)
    assert numbers(mq.func.vmap(lambda x: x + op(c))(mq.ones(3, 2))) == [[2.0, 2.0]] * 3
    assert called == []


def ruleless(ns, schema, fn, **options):
    return custom_op(f"{ns}::f", fn, schema=schema, **{"mutates_args": ()} | options)


def test_L104_the_loop_stacks_and_warns_once(ns):
    op = ruleless(ns, "(Tensor x) -> Tensor", lambda x: x * 2)
    with pytest.warns(UserWarning, match="performance"):
        assert numbers(mq.func.vmap(op)(mq.ones(3))) == [2.0, 2.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mq.func.vmap(op)(mq.ones(3))


@pytest.mark.filterwarnings("ignore:.*performance")
def test_L104_the_loop_is_differentiable(ns):
    op = ruleless(ns, "(Tensor x) -> Tensor", lambda x: x * 2)
    op.register_autograd(lambda ctx, g: g * 2)
    x = mq.ones(3, requires_grad=True)
    mq.func.vmap(op)(x).sum().backward()
    assert numbers(x.grad) == [2.0, 2.0, 2.0]


@pytest.mark.filterwarnings("ignore:.*performance")
def test_L104_an_operator_that_writes_is_refused(ns):
    op = ruleless(ns, "(Tensor(a!) x) -> ()", lambda x: None, mutates_args={"x"})
    with pytest.raises(RuntimeError, match=f"{ns}::f"):
        mq.func.vmap(lambda x: (op(x), x)[1])(mq.ones(3))


@pytest.mark.filterwarnings("ignore:.*performance")
def test_L104_a_view_is_refused(ns):
    op = ruleless(ns, "(Tensor(a) x) -> Tensor(a)", lambda x: x.view(-1))
    with pytest.raises(RuntimeError, match=f"{ns}::f"):
        mq.func.vmap(op)(mq.ones(3, 2))


@pytest.mark.filterwarnings("ignore:.*performance")
def test_L104_a_return_that_is_no_tensor_is_refused(ns):
    op = ruleless(ns, "(Tensor x) -> int", lambda x: 1)
    with pytest.raises(RuntimeError, match=f"{ns}::f"):
        mq.func.vmap(lambda x: x + op(x))(mq.ones(3, 2))


@pytest.mark.filterwarnings("ignore:.*performance")
def test_L104_unequal_shapes_are_refused(ns):
    op = ruleless(ns, "(Tensor x) -> Tensor", lambda x: mq.nonzero(x))
    with pytest.raises(RuntimeError):
        mq.func.vmap(op)(mq.tensor([[1.0, 0.0], [1.0, 1.0]]))


@pytest.mark.filterwarnings("ignore:.*performance")
def test_L104_randomness_error_refuses_a_seeded_operator(ns):
    tags = (mq.Tag.nondeterministic_seeded,)
    op = ruleless(ns, "(Tensor x) -> Tensor", lambda x: x.clone(), tags=tags)
    with pytest.raises(RuntimeError, match="randomness"):
        mq.func.vmap(op)(mq.ones(3))


class Base(mq.autograd.Function):
    """Doubles."""

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_L105_a_generated_rule_works():
    both = type("Generated", (Base,), {"generate_vmap_rule": True})
    assert numbers(mq.func.vmap(both.apply)(mq.ones(2))) == [2.0, 2.0]


def test_L105_a_flag_and_an_own_rule_are_refused():
    own = staticmethod(lambda info, in_dims, x: (x * 2, in_dims[0]))
    both = type("Both", (Base,), {"generate_vmap_rule": True, "vmap": own})
    with pytest.raises(RuntimeError, match="generate_vmap_rule"):
        mq.func.vmap(both.apply)(mq.ones(2))


def test_L105_neither_flag_nor_rule_is_refused():
    with pytest.raises(RuntimeError, match="vmap"):
        mq.func.vmap(Base.apply)(mq.ones(2))


def test_L100_a_rule_of_an_operator_that_writes_and_returns_nothing(ns):
    op = custom_op(f"{ns}::put", lambda x, y: (x.copy_(y), None)[1], mutates_args={"x"},
                   schema="(Tensor(a0!) x, Tensor y) -> ()")  # fmt: skip
    op.register_vmap(lambda info, in_dims, x, y: ((x.copy_(y), None)[1], None))
    x, y = mq.zeros(3, 2), mq.rand(3, 2)
    assert mq.func.vmap(lambda a, b: (op(a, b), a)[1])(x, y).tolist() == y.tolist()
    assert x.tolist() == y.tolist()
