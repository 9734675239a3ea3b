"""Functionalization: as a key, as a transform, composed with others, on random programs."""

import functools

import pytest
from functional_programs import differences, make

import maquette as mq
import maquette.torch as torch
from maquette.dispatch import OpOverload
from maquette.fx.tracing.proxy_tensor import make_fx
from maquette.torch._dispatch.python import enable_crossref_functionalize
from maquette.torch._subclasses.functional_tensor import (
    FunctionalTensor,
    FunctionalTensorMode,
    dispatch_functionalize,
)
from maquette.transforms import functionalize, grad, jvp, vmap
from maquette.transforms.functional import (
    disable_functionalization,
    enable_functionalization,
    freeze_functional_tensor,
    from_functional_tensor,
    is_functional_tensor,
    sync,
    to_functional_tensor,
)

STRIDED = ("as_strided", "as_strided_off", "as_strided_", "view_dtype", "flat", "resize_same_",
           "view_as_complex")  # fmt: skip


def through_key(f, *, reapply_views):
    """``f`` functionalized by the key, as tracers do it."""

    def wrapped(*inputs):
        inner = [to_functional_tensor(x) for x in inputs]
        enable_functionalization(reapply_views=reapply_views)
        try:
            out = f(*inner)
        finally:
            disable_functionalization()
        for t in (*inner, *out):
            sync(t)
        for x, t in zip(inputs, inner, strict=True):
            if t.meta is x.meta:
                x.copy_(from_functional_tensor(t))
        return [from_functional_tensor(t) for t in out]

    return wrapped


TRANSFORMS = {
    "transform": functionalize,
    "transform, views copied": functools.partial(functionalize, remove="mutations_and_views"),
    "key": functools.partial(through_key, reapply_views=True),
    "key, views copied": functools.partial(through_key, reapply_views=False),
}


def check_programs(seeds, how):
    copied = "copied" in how
    wrong = {}
    for seed in seeds:
        program = make(seed)
        if copied and any(step[1] in STRIDED for step in program["steps"]):
            continue  # copies of views have strides of their own
        found = differences(program, TRANSFORMS[how], strides=not copied)
        if found:
            wrong[seed] = found
    assert not wrong


@pytest.mark.parametrize("how", TRANSFORMS)
def test_random_programs_do_the_same_functionalized(how):
    check_programs(range(60), how)


def test_random_programs_have_the_same_metadata_functionalized_on_fakes():
    wrong = {s: d for s in range(60) if (d := differences(make(s), functionalize, fake=True))}
    assert not wrong


@pytest.mark.verify
@pytest.mark.parametrize("how", TRANSFORMS)
def test_many_random_programs_do_the_same_functionalized(how):
    check_programs(range(1000, 5000), how)


@pytest.mark.verify
def test_many_random_programs_have_the_same_metadata_functionalized_on_fakes():
    seeds = range(1000, 5000)
    wrong = {s: d for s in seeds if (d := differences(make(s), functionalize, fake=True))}
    assert not wrong


@pytest.mark.parametrize("how", ["mutations", "mutations_and_views"])
def test_resolved_values_have_no_lazy_bits(how):
    def f(x):
        assert not x.conj().resolve_conj().is_conj()
        assert not x.imag._neg_view().resolve_neg().is_neg()
        return x.conj()

    assert functionalize(f, remove=how)(mq.ones(2, dtype=mq.complex64)).is_conj() == (
        how == "mutations"
    )


@pytest.mark.parametrize("how", ["mutations", "mutations_and_views"])
def test_what_refuses_conjugates_refuses_what_the_program_sees_as_one(how):
    with pytest.raises(RuntimeError, match="unresolved conjugated"):
        functionalize(lambda x: torch.view_as_real(x.conj()), remove=how)(
            mq.ones(2, dtype=mq.complex64)
        )


@pytest.mark.parametrize("how", [functionalize, dispatch_functionalize])
def test_mutation_through_a_lazy_view_reaches_the_memory(how):
    def f(x):
        y = x.clone()
        y.conj().mul_(2j)
        return y

    x = mq.tensor([1 + 2j])
    assert how(f)(x).tolist() == f(x).tolist()


def test_a_view_that_shows_a_place_twice_is_not_mutated():
    with pytest.raises(RuntimeError, match="internal overlap"):
        functionalize(lambda x: x.clone().unfold(0, 3, 2).abs_())(mq.ones(5))


def test_functionalization_can_be_checked_against_shape_rules():
    with enable_crossref_functionalize():
        (out,) = through_key(lambda x: [x.view(4).add_(1)], reapply_views=True)(mq.ones(2, 2))
    assert out.tolist() == [2.0] * 4


def test_autograd_saves_results_of_functional_tensors():
    t = to_functional_tensor(mq.ones(2)).requires_grad_()
    t.exp().sum().backward()
    assert is_functional_tensor(t.grad)


# --- graphs -----------------------------------------------------------------------------------


def operators_of(f, *inputs):
    graph = make_fx(f)(*inputs).graph
    return [str(n.target).removeprefix("aten.") for n in graph.nodes if n.op == "call_function"]


def mutating(x):
    y = x.view(4, 2)
    y.add_(mq.ones(4, 2))
    return y


def test_mutations_are_removed_and_written_back():
    found = operators_of(functionalize(mutating), mq.ones(4, 2))
    assert found == [
        "view.default", "ones.default", "add.Tensor", "view.default", "view.default",
        "copy_.default",
    ]  # fmt: skip


def test_views_become_copies():
    found = operators_of(functionalize(mutating, remove="mutations_and_views"), mq.ones(4, 2))
    assert [name for name in found if "view" in name] == ["view_copy.default"] * 3


def test_nothing_is_written_back_where_nothing_was_mutated():
    assert operators_of(functionalize(lambda x: x.t() + 1), mq.ones(2, 2)) == [
        "t.default", "add.Tensor",
    ]  # fmt: skip


def test_out_takes_its_value_and_size_from_the_functional_form():
    def f(x):
        z = mq.empty(())
        torch.add(x, 1, out=z)
        return z * z

    found = operators_of(functionalize(f), mq.ones(3))
    assert found == ["empty.memory_format", "add.Tensor", "mul.Tensor"]


def test_lists_of_views_are_put_back_one_by_one():
    def f(x):
        a, b = x.unbind(0)
        b.mul_(2)
        return a + b

    assert "select_scatter.default" in operators_of(functionalize(f), mq.ones(2, 3))


def test_foreach_operators_write_through_lists():
    def f(x, y):
        torch._foreach_add_([x, y], 1)
        return x * y

    assert functionalize(f)(mq.ones(2), mq.ones(2)).tolist() == [4, 4]


# --- composed ---------------------------------------------------------------------------------


def cumulated(x):
    y = mq.zeros_like(x)
    y[1:] += x[:-1] * x[1:]
    y.mul_(2)
    return y.sum()


X = mq.tensor([1.0, 2.0, 3.0])


def test_grad_of_functionalized():
    assert grad(functionalize(cumulated))(X).tolist() == grad(cumulated)(X).tolist() == [4, 8, 4]


def test_functionalized_grad():
    assert functionalize(grad(cumulated))(X).tolist() == [4, 8, 4]


def test_jvp_of_functionalized():
    value, tangent = jvp(functionalize(cumulated), (X,), (mq.ones(3),))
    assert (value.item(), tangent.item()) == (16, 16)


def test_vmap_of_functionalized_and_functionalized_vmap():
    rows = mq.stack([X, X + 1])
    expected = [cumulated(row).item() for row in rows]
    assert vmap(functionalize(cumulated))(rows).tolist() == expected
    assert functionalize(vmap(cumulated))(rows).tolist() == expected


def test_functionalized_in_functionalized():
    assert functionalize(functionalize(mutating))(mq.ones(4, 2)).tolist() == [[2, 2]] * 4


def test_traced_under_every_order_no_operator_mutates():
    for f in (grad(functionalize(cumulated)), functionalize(grad(cumulated))):
        found = operators_of(f, X)
        assert not [name for name in found if name.partition(".")[0].endswith("_")]


def test_autograd_records_on_wrappers_of_the_key():
    x = mq.tensor([1.0, 2.0])
    w = to_functional_tensor(x).requires_grad_()
    enable_functionalization()
    try:
        y = w.clone()
        y[0].mul_(3)
        (y * y).sum().backward()
    finally:
        disable_functionalization()
    sync(w.grad)
    assert from_functional_tensor(w.grad).tolist() == [18, 4]


# --- memory -----------------------------------------------------------------------------------


def test_set_takes_the_memory_of_another():
    def f(x):
        y = mq.zeros(2)
        y.set_(x)
        y.add_(1)
        return y

    x = mq.ones(2)
    assert functionalize(f)(x).tolist() == x.tolist() == [2, 2]


def test_resize_within_memory_is_a_view_and_beyond_it_new_memory():
    def f(x):
        y, z = x.clone(), x.clone()
        y.resize_(2)
        z.resize_(6)
        return y.add_(1), z[:4]

    small, large = functionalize(f)(mq.arange(4.0))
    assert (small.tolist(), large.tolist()) == ([1, 2], [0, 1, 2, 3])


def test_resizing_a_view_beyond_its_memory_is_refused():
    with pytest.raises(RuntimeError, match="resize a view tensor to a larger size"):
        functionalize(lambda x: x[:2].resize_(50))(mq.ones(4))


def test_frozen_memory_refuses_writes():
    w = to_functional_tensor(mq.ones(2))
    freeze_functional_tensor(w)
    with pytest.raises(RuntimeError, match="frozen"):
        w.add_(1)


# --- refusals ---------------------------------------------------------------------------------


def test_mutating_a_captured_tensor_names_operator_and_argument():
    captured = mq.ones(2)
    with pytest.raises(RuntimeError, match=r"aten\.add_\.Tensor.*non-functional.*'self'"):
        functionalize(lambda x: captured.add_(x))(mq.ones(2))


def test_another_remove_is_refused():
    with pytest.raises(RuntimeError, match="received invalid argument for remove=views"):
        functionalize(mutating, remove="views")


def test_in_place_forms_refuse_what_their_twins_would_take():
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        functionalize(lambda x: x.add_(mq.ones(3, 2)))(mq.ones(2))


def test_a_view_without_inverse_says_what_to_register():
    with mq.library._scoped_library("functional_test", "DEF") as lib:
        lib.define("half(Tensor(a) x) -> Tensor(a)")
        lib.impl("half", lambda x: x[: x.shape[0] // 2], "CompositeExplicitAutograd")
        half = mq.ops.functional_test.half
        assert functionalize(lambda x: half(x) + 1)(mq.ones(4)).shape == (2,)
        with pytest.raises(RuntimeError, match="no inverse"):
            functionalize(lambda x: half(x).add_(1))(mq.ones(4))


# --- functional tensors under their mode --------------------------------------------------------


def viewing(x):
    y = x.view(-1)
    y[0].add_(1)
    x.t_()
    return x * 2, mq.zeros(2).add_(y[:2])


def test_a_mode_functionalizes_for_the_modes_below_it():
    found = operators_of(dispatch_functionalize(viewing), mq.ones(2, 2))
    assert not [name for name in found if name.partition(".")[0].endswith("_")]
    expected = [t.tolist() for t in viewing(mq.ones(2, 2))]
    assert [t.tolist() for t in dispatch_functionalize(viewing)(mq.ones(2, 2))] == expected


def test_autograd_records_on_functional_tensors():
    plain = mq.ones(2, requires_grad=True)
    with FunctionalTensorMode():
        x = FunctionalTensor.to_functional(plain)
        y = x * 2
        y[0].mul_(3)
        y.sum().backward()
        assert x.grad.from_functional().tolist() == [6, 2]


def test_functional_tensors_need_their_mode():
    plain = mq.ones(2)
    with FunctionalTensorMode():
        x = FunctionalTensor.to_functional(plain)
    with pytest.raises(RuntimeError, match="on its own"):
        x.add(1)


@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_write_to_one_copy_of_an_expanded_tensor_is_a_write_to_all(row):
    def f(x):
        base = x.clone()
        base.expand(3, 4)[row].mul_(2)
        return base

    x = mq.tensor([0.0, 1.0, float("nan"), -3.0])
    assert mq.equal(functionalize(f)(x)[[0, 1, 3]], f(x)[[0, 1, 3]])


def test_D81_a_wrong_shape_rule_is_told_where_it_is_called():
    with mq.library._scoped_library("d81", "DEF") as lib:
        lib.define("first(Tensor x) -> Tensor")
        lib.impl("first", lambda x: x[:1].clone(), "CPU")
        lib._register_fake("first", lambda x: x.new_empty(x.shape))
        called = []

        def program(x):
            y = mq.ops.d81.first.default(x)
            called.append("after")
            return [y]

        through_key(program, reapply_views=True)(mq.ones(2))
        with enable_crossref_functionalize(), pytest.raises(AssertionError, match=r"d81\.first"):
            through_key(program, reapply_views=True)(mq.ones(2))
    assert called == ["after"]


def test_D81_the_comparison_leaves_nothing_in_a_trace():
    def program(x):
        y = x.view(4, 2)
        y.add_(1)
        return [x * x]

    x = mq.ones(2, 4)
    plain = make_fx(through_key(program, reapply_views=True))(x.clone())
    with enable_crossref_functionalize():
        checked = make_fx(through_key(program, reapply_views=True))(x.clone())
    assert checked.code == plain.code


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_statistics_that_batch_norm_mutates_unsaid_are_seen_through_views(remove):
    def program(x, mean, var):
        view = mean.view(-1)
        out = mq.nn.functional.batch_norm(x, mean, var, training=True)
        return out, view + 1, var * 2

    x = mq.randn(4, 3, 5)
    expected = program(x, *(given := [mq.zeros(3), mq.ones(3)]))
    found = functionalize(program, remove=remove)(x, *(mine := [mq.zeros(3), mq.ones(3)]))
    for a, b in zip([*expected, *given], [*found, *mine], strict=True):
        assert mq.equal(a, b)


def test_statistics_of_batch_norm_are_copied_back_where_a_trace_ends():
    def program(x, mean, var):
        return mq.nn.functional.batch_norm(x, mean, var, training=True)

    traced = make_fx(functionalize(program))(mq.randn(4, 3), mq.zeros(3), mq.ones(3))
    targets = [str(n.target) for n in traced.graph.nodes]
    assert "aten._native_batch_norm_legit_functional.default" in targets
    assert targets.count("aten.copy_.default") == 2


def test_a_gradient_goes_through_functionalized_batch_norm():
    def loss(x, mean, var):
        out = mq.nn.functional.batch_norm(x, mean, var, training=True)
        return (out**3).sum()

    x = mq.randn(4, 3, 5, dtype=mq.float64)
    stats = [mq.zeros(3, dtype=mq.float64), mq.ones(3, dtype=mq.float64)]
    found = mq.func.grad(functionalize(loss))(x, *[s.clone() for s in stats])
    assert mq.allclose(found, mq.func.grad(loss)(x, *stats))


def test_functionalized_batch_norm_is_batched_without_a_loop():
    operator = mq.ops.aten._native_batch_norm_legit_functional.default

    def program(x, mean, var):
        return operator(x, None, None, mean, var, True, 0.1, 1e-5)

    x, mean, var = mq.randn(2, 4, 3), mq.zeros(3), mq.ones(3)
    found = mq.func.vmap(program, in_dims=(0, None, None))(x, mean, var)
    for i in range(2):
        for a, b in zip(found, program(x[i], mean, var), strict=True):
            assert mq.allclose(a[i], b, atol=1e-6)


@pytest.mark.parametrize("eps", [1e-8, 4.0])
def test_T70_lengths_that_are_raised_keep_their_history(eps):
    a = mq.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])
    b = mq.tensor([[2.0, -1.0, 1.0], [1.0, 1.0, 0.25]])

    def cosine(x):
        return mq.nn.functional.cosine_similarity(x, b, 1, eps).sum()

    assert mq.equal(functionalize(cosine)(a), cosine(a))
    assert mq.allclose(grad(functionalize(cosine))(a), grad(cosine)(a))
    traced = make_fx(functionalize(cosine))(a)
    calls = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert not any(target._schema.is_mutable for target in calls)


def functional_targets(program, **options):
    """The operators of a program that a functional mode sees, traced."""
    names = ("export", "pre_dispatch")
    said = {name: options.get(name, False) for name in names}

    def run(x):
        with FunctionalTensorMode(**said):
            y = program(FunctionalTensor.to_functional(x))
            return y.from_functional()

    traced = make_fx(run, pre_dispatch=said["pre_dispatch"])(mq.rand(4, 4))
    assert not list(traced.buffers())
    nodes = [n for n in traced.graph.nodes if n.op == "call_function"]
    return [n.target._opname for n in nodes if isinstance(n.target, OpOverload)]


def product(x):
    y = mq.matmul(x, x) + x
    return y.mul_(5)


@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_a_functional_mode_takes_composites_apart_before_dispatch_too(pre_dispatch):
    found = functional_targets(product, pre_dispatch=pre_dispatch)
    assert found == ["mm", "add", "mul"]


def test_an_exported_program_keeps_composites_before_dispatch():
    found = functional_targets(product, pre_dispatch=True, export=True)
    assert found == ["matmul", "add", "mul"]


def test_dropout_is_one_operator_in_functional_programs_before_dispatch():
    dropped = functools.partial(mq.dropout, p=0.5, train=True)
    assert functional_targets(dropped, pre_dispatch=True)[0] == "native_dropout"
    assert functional_targets(dropped, pre_dispatch=True, export=True) == ["dropout"]
