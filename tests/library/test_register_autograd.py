"""`register_autograd`: formulas of operators that users define."""

import warnings

import pytest

import maquette as mq
from maquette import Tensor
from maquette.autograd.undifferentiated import autograd_fallback_mode
from maquette.library import _scoped_library, custom_op, register_autograd


def numbers(x):
    return x.numpy().tolist()


def ones(*shape):
    return mq.ones(*shape).requires_grad_()


def made(ns, body, schema, **formula):
    """A custom operator by schema, with a formula where one is given."""
    op = custom_op(f"{ns}::f", body, mutates_args=(), schema=schema)
    if formula:
        op.register_autograd(formula.pop("backward"), **formula)
    return op


# --- without formula -------------------------------------------------------------------------


def test_L86_without_formula_only_backward_fails(ns):
    op = made(ns, lambda x: x * 2, "(Tensor x) -> Tensor")
    y = op(ones(2))
    assert y.grad_fn.name() == f"GeneratedBackwardFor_{ns}_f_defaultBackward"
    with pytest.raises(RuntimeError, match=rf"{ns}\.f\.default"):
        y.sum().backward()


def test_L86_integer_outputs_stay_plain(ns):
    op = made(ns, lambda x: (x * 2, x.to(mq.int64)), "(Tensor x) -> (Tensor, Tensor)")
    a, b = op(ones(2))
    assert a.requires_grad
    assert not b.requires_grad


def test_L86_repeats_replace_silently(ns):
    op = made(ns, lambda x: x * 2, "(Tensor x) -> Tensor", backward=lambda ctx, g: g * 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op.register_autograd(lambda ctx, g: g * 2)
    x = ones(2)
    op(x).sum().backward()
    assert numbers(x.grad) == [2, 2]


@pytest.mark.parametrize(
    "schema",
    [
        "(Tensor(a!) x) -> ()",
        "(Tensor x) -> ()",
        "(Tensor(a) x) -> Tensor(a)",
        "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
    ],
)
def test_L87_only_functional_operators_have_formulas(lib, ns, schema):
    lib.define(f"f{schema}")
    with pytest.raises(RuntimeError, match=f"{ns}::f"):
        register_autograd(f"{ns}::f", lambda ctx, g: g, lib=lib)


def test_L87_keyword_only_tensors_are_not_implemented(lib, ns):
    lib.define("f(Tensor x, *, Tensor y) -> Tensor")
    with pytest.raises(NotImplementedError, match="'y'"):
        register_autograd(f"{ns}::f", lambda ctx, g: g, lib=lib)


def test_L87_an_opdef_may_be_a_differentiable_view(ns):
    op = made(ns, lambda x: x.view(-1), "(Tensor(a) x) -> Tensor(a)", backward=lambda ctx, g: g * 7)
    x = ones(1)
    y = op(x)
    assert y._is_view()
    y.sum().backward()
    assert numbers(x.grad) == [7]


# --- when a formula acts -----------------------------------------------------------------------


def test_L88_acts_in_grad_mode_only(ns):
    calls = []
    op = made(
        ns,
        lambda x: x * 2,
        "(Tensor x) -> Tensor",
        backward=lambda ctx, g: g,
        setup_context=lambda ctx, inputs, output: calls.append(1),
    )
    with mq.no_grad():
        assert op(ones(2)).grad_fn is None
    assert op(mq.ones(2)).grad_fn is None
    assert not calls
    assert op(ones(2)).grad_fn is not None
    assert calls == [1]


def test_L88_a_list_member_that_requires_grad_counts(ns):
    op = made(ns, lambda xs: xs[0] * 2, "(Tensor[] xs) -> Tensor", backward=lambda ctx, g: [g, g])
    assert op([mq.ones(2), ones(2)]).requires_grad


def test_L89_the_kernel_runs_unrecorded(ns):
    seen = []

    def body(x):
        seen.append((x * 2).requires_grad)
        x.numpy()
        return x * 2

    op = made(ns, body, "(Tensor x) -> Tensor", backward=lambda ctx, g: g * 2)
    op(ones(2))
    assert seen == [False]


def test_L90_setup_context_gets_the_full_call(ns):
    seen = []

    def setup(ctx, inputs, output):
        seen.append((inputs, output.requires_grad, output.grad_fn))

    op = made(
        ns,
        lambda x, y, n=2: x * y,
        "(Tensor x, Tensor y, int n=2) -> Tensor",
        backward=lambda ctx, g: (g, None, None),
        setup_context=setup,
    )
    x, y = ones(2), mq.ones(2)
    op(x, y=y)
    ((a, b, n), *output) = seen[0]
    assert a is x
    assert b is y
    assert n == 2
    assert output == [False, None]


def test_L90_keyword_only_inputs_are_passed_if_there_are_any(ns):
    seen = []

    def setup(ctx, inputs, keyword_only_inputs, output):
        seen.append(keyword_only_inputs)

    op = made(
        ns,
        lambda x, *, n: x * n,
        "(Tensor x, *, int n) -> Tensor",
        backward=lambda ctx, g: g,
        setup_context=setup,
    )
    op(ones(2), n=3)
    assert seen == [{"n": 3}]


def test_L90_it_is_called_by_keywords(ns):
    op = made(
        ns,
        lambda x: x * 2,
        "(Tensor x) -> Tensor",
        backward=lambda ctx, g: g,
        setup_context=lambda c, i, o: None,
    )
    with pytest.raises(TypeError, match="ctx"):
        op(ones(2))


# --- backward --------------------------------------------------------------------------------


def test_L91_gradients_come_in_the_structure_of_the_returns(ns):
    seen = []

    def backward(ctx, *grads):
        seen.extend(grads)
        return grads[0]

    op = made(
        ns,
        lambda x: (x * 2, [x * 3, x * 4], 5),
        "(Tensor x) -> (Tensor, Tensor[], int)",
        backward=backward,
    )
    a, (b, c), n = op(ones(2))
    (a.sum() + b.sum() + c.sum()).backward()
    assert n == 5
    assert isinstance(seen[0], Tensor)
    assert [type(g) for g in seen[1]] == [Tensor, Tensor]
    assert seen[2] is None


@pytest.mark.parametrize("materialize", [True, False])
def test_L91_undefined_gradients(ns, materialize):
    seen = []

    def setup(ctx, inputs, output):
        ctx.set_materialize_grads(materialize)

    def backward(ctx, a, b):
        seen.append(b)
        return a

    op = made(
        ns,
        lambda x: (x * 2, x * 3),
        "(Tensor x) -> (Tensor, Tensor)",
        backward=backward,
        setup_context=setup,
    )
    op(ones(2))[0].sum().backward()
    assert (seen[0] is None) is not materialize
    if materialize:
        assert numbers(seen[0]) == [0, 0]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda g: (g,), "expected 3.*got 1"),
        (lambda g: g, "expected 3.*got 1"),
        (lambda g: (g, [g], g), "position 2"),
        (lambda g: (3, [g], None), "int"),
        (lambda g: ([g], [g], None), r"\[Tensor\]"),
        (lambda g: (g, (g,), None), r"list of 1.*\(Tensor\)"),
        (lambda g: (g, None, None), r"list of 1.*None"),
        (lambda g: (g, [], None), r"list of 1.*\[\]"),
    ],
)
def test_L92_backward_returns_one_value_an_argument(ns, answer, message):
    op = made(
        ns,
        lambda x, ys, n: x * 2,
        "(Tensor x, Tensor[] ys, int n) -> Tensor",
        backward=lambda ctx, g: answer(g),
    )
    y = op(ones(2), [ones(2)], 1)
    with pytest.raises(RuntimeError, match=message):
        y.sum().backward()


def test_L92_lists_of_gradients_and_trailing_nones(ns):
    op = made(
        ns,
        lambda xs, n: xs[0] * 2,
        "(Tensor[] xs, int n) -> Tensor",
        backward=lambda ctx, g: ([g * 2, None], None),
    )
    x, y = ones(2), ones(2)
    op([x, y], 1).sum().backward()
    assert numbers(x.grad) == [2, 2]
    assert y.grad is None


def test_L92_extra_trailing_nones_pass_without_lists(ns):
    op = made(ns, lambda x: x * 2, "(Tensor x) -> Tensor", backward=lambda ctx, g: (g, None, None))
    x = ones(2)
    op(x).sum().backward()
    assert numbers(x.grad) == [1, 1]


def test_L93_broadcast_gradients_are_summed_and_cast(ns):
    op = made(
        ns,
        lambda x: x * 2,
        "(Tensor x) -> Tensor",
        backward=lambda ctx, g: mq.ones(4, 2, dtype=mq.float64),
    )
    x = ones(2)
    op(x).sum().backward()
    assert numbers(x.grad) == [4, 4]
    assert x.grad.dtype is mq.float32


@pytest.mark.parametrize(
    ("grad", "message"),
    [
        (lambda g: mq.ones(3), r"index 0.*\[3\].*\[2\]"),
        (lambda g: mq.ones(2, device="meta"), "index 0.*cpu.*meta"),
        (lambda g: mq.ones(2, dtype=mq.complex64), "index 0.*complex64.*float32"),
    ],
)
def test_L93_gradients_that_do_not_fit(ns, grad, message):
    op = made(ns, lambda x: x * 2, "(Tensor x) -> Tensor", backward=lambda ctx, g: grad(g))
    with pytest.raises(RuntimeError, match=message):
        op(ones(2)).sum().backward()


def test_L94_needs_input_grad_mirrors_the_inputs(ns):
    seen = []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return [g, None], None

    op = made(
        ns,
        lambda xs, n: xs[0] * 2,
        "(Tensor[] xs, int n) -> Tensor",
        backward=backward,
        setup_context=lambda ctx, inputs, output: seen.append(ctx.needs_input_grad),
    )
    op([ones(2), mq.ones(2)], 0).sum().backward()
    assert seen == [([True, False], False)] * 2


# --- saving ----------------------------------------------------------------------------------


def squaring(ns, save=lambda ctx, x: ctx.save_for_backward(x)):
    return made(
        ns,
        lambda x: x * x,
        "(Tensor x) -> Tensor",
        backward=lambda ctx, g: g * 2 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: save(ctx, inputs[0]),
    )


def test_L95_only_tensors_and_none_are_saved(ns):
    op = squaring(ns, save=lambda ctx, x: ctx.save_for_backward(x, None, 3))
    with pytest.raises(TypeError, match=r"argument 2 .*int"):
        op(ones(2))


def test_L95_a_saved_tensor_that_was_written_is_refused(ns):
    w = ones(2) * 1
    y = squaring(ns)(w)
    w.add_(1)
    with pytest.raises(RuntimeError, match=r"version 1; expected version 0"):
        y.sum().backward()


def test_L95_saved_tensors_are_freed_unless_retained(ns):
    x = ones(2)
    y = squaring(ns)(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert numbers(x.grad) == [4, 4]
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_L95_saved_outputs_stay_in_the_graph(ns):
    op = made(
        ns,
        lambda x: x * 3,
        "(Tensor x) -> Tensor",
        backward=lambda ctx, g: g * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
    )
    x = ones(2)
    y = op(x)
    (g,) = mq.autograd.grad(y.sum(), x, create_graph=True)
    assert numbers(g.detach()) == [3, 3]
    assert g.requires_grad


def test_L96_non_differentiable_outputs(ns):
    op = made(
        ns,
        lambda x: (x * 2, x * 3),
        "(Tensor x) -> (Tensor, Tensor)",
        backward=lambda ctx, a, b: a,
        setup_context=lambda ctx, inputs, output: ctx.mark_non_differentiable(output[1]),
    )
    a, b = op(ones(2))
    assert a.requires_grad
    assert not b.requires_grad


def test_L96_double_backward_follows_from_the_operators(ns):
    x = ones(2)
    (g,) = mq.autograd.grad(squaring(ns)(x).sum(), x, create_graph=True)
    (h,) = mq.autograd.grad(g.sum(), x)
    assert numbers(h) == [2, 2]


def test_L97_lists_of_optional_tensors_are_differentiable(ns):
    op = made(
        ns, lambda xs: xs[1] * 2, "(Tensor?[] xs) -> Tensor", backward=lambda ctx, g: [None, g * 2]
    )
    x = ones(2)
    op([None, x]).sum().backward()
    assert numbers(x.grad) == [2, 2]


def test_L99_a_written_leaf_raises_and_records_nothing(ns):
    def write(x: Tensor) -> None:
        x.detach().mul_(2)

    op = custom_op(f"{ns}::w", write, mutates_args=["x"])
    x = ones(2)
    op(x)
    assert numbers(x.detach()) == [2, 2]
    assert x.grad_fn is None


def test_L25_a_formula_beside_a_decomposition_alone_warns(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x * 2)
    with pytest.warns(UserWarning, match="not reached"):
        register_autograd(f"{ns}::f", lambda ctx, g: g * 100, lib=lib)
    x = ones(2)
    op = getattr(mq.ops, ns).f
    op(x).sum().backward()
    assert numbers(x.grad) == [2, 2]
    lib.impl("f", lambda x: x * 2, "CPU")
    x.grad = None
    op(x).sum().backward()
    assert numbers(x.grad) == [100, 100]


def test_L33_an_older_formula_comes_back(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x * 2, "CPU")
    register_autograd(f"{ns}::f", lambda ctx, g: g * 3, lib=lib)
    x, op = ones(1), getattr(mq.ops, ns).f
    with _scoped_library(ns, "IMPL") as newer:
        register_autograd(f"{ns}::f", lambda ctx, g: g * 5, lib=newer)
        y = op(x)
    op(x).sum().backward()
    assert numbers(x.grad) == [3]
    y.sum().backward()
    assert numbers(x.grad) == [8]


def test_L42_recorded_graphs_outlive_their_operator(ns):
    op = squaring(ns)
    x = ones(2)
    y = op(x).sum()
    op._lib._destroy()
    y.backward()
    assert numbers(x.grad) == [2, 2]


# --- library operators that say nothing of their derivative --------------------------------------


def silent(lib, ns, body, schema="(Tensor x) -> Tensor"):
    """A library operator with a kernel and nothing else."""
    lib.define(f"f{schema}")
    lib.impl("f", body, "CPU")
    return getattr(mq.ops, ns).f


def test_L30_backward_warns_and_gives_none(lib, ns):
    op = silent(lib, ns, lambda x: mq.from_numpy(x.detach().numpy() * 2))
    x = ones(2)
    with pytest.warns(UserWarning, match=f"{ns}::f"):
        assert mq.autograd.grad(op(x).sum(), x, allow_unused=True) == (None,)


def test_L30_integers_stay_plain(lib, ns):
    op = silent(lib, ns, lambda x: mq.ones(2, dtype=mq.int64))
    assert not op(ones(2)).requires_grad


def test_L30_differentiable_outputs_keep_their_graph_and_warn(lib, ns):
    op = silent(lib, ns, lambda x: x * 3)
    x = ones(2)
    y = op(x)
    with pytest.warns(UserWarning, match=f"{ns}::f"):
        y.sum().backward()
    assert numbers(x.grad) == [3, 3]


def test_L30_mode_nothing(lib, ns):
    op = silent(lib, ns, lambda x: mq.ones(2))
    with autograd_fallback_mode("nothing"):
        assert not op(ones(2)).requires_grad
    assert op(ones(2)).requires_grad
