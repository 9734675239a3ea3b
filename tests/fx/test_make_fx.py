"""`make_fx`: operators that a program runs become a graph that runs to the same result."""

import math
from collections.abc import Callable
from typing import Any

import pytest

import maquette as mq
import maquette.torch
from maquette import fx, nn
from maquette.dispatch import disabled_torch_function
from maquette.fake.exceptions import DataDependentOutputException
from maquette.fx import make_fx
from maquette.fx.tracing.decomposing import DecompositionInterpreter
from maquette.fx.tracing.operator_tracing import get_isolated_graphmodule
from maquette.fx.tracing.proxy_mode import (
    ProxyTorchDispatchMode,
    disable_proxy_modes_tracing,
    get_proxy_mode,
)
from maquette.nn import functional as F
from maquette.tensor.storage import observe_allocations

aten = mq.ops.aten


def targets(graph: fx.GraphModule) -> list[object]:
    return [n.target for n in graph.graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_operators_are_recorded_and_run(mode: Any) -> None:
    def program(x: mq.Tensor, pair: list[mq.Tensor]) -> dict[str, mq.Tensor]:
        return {"k": mq.sin(x) @ pair[0], "l": pair[1].split(1)[0]}

    x, y, z = mq.randn(2, 2), mq.randn(2, 2), mq.randn(2, 3)
    graph = fx.make_fx(program, tracing_mode=mode)(x, [y, z])
    graph.graph.lint()
    names = ["sin.default", "mm.default", "split.Tensor", "getitem", "getitem"]
    assert [getattr(t, "__name__", t) for t in targets(graph)] == names
    for args in ((x, [y, z]), (y, [x, z])):
        assert mq.equal(graph(*args)["k"], program(*args)["k"])
        assert mq.equal(graph(*args)["l"], program(*args)["l"])


def test_nodes_know_what_they_give() -> None:
    graph = fx.make_fx(lambda x: (x.t() + 1).sum(0), tracing_mode="fake")(mq.ones(2, 3))
    nodes = {n.name: n for n in graph.graph.nodes}
    assert isinstance(nodes["t"].meta["val"], mq.FakeTensor)
    assert nodes["t"].meta["val"].stride() == (1, 3)
    assert nodes["sum_1"].meta["tensor_meta"].shape == (2,)
    assert nodes["sum_1"].meta["tensor_meta"].dtype is mq.float32


def test_the_readable_form_has_shapes_and_lines() -> None:
    graph = fx.make_fx(lambda x: mq.sin(x), record_stack_traces=True)(mq.ones(2))
    text = graph.print_readable(print_output=False)
    assert 'sin: "f32[2]" = torch.ops.aten.sin.default(x_1)' in text
    assert 'forward(self, x_1: "f32[2]"):\n        # File: ' in text
    assert "test_make_fx.py" in text
    assert "code: graph = fx.make_fx(lambda x: mq.sin(x)" in text


def test_tensors_from_outside_are_attributes() -> None:
    weight = nn.Parameter(mq.ones(2))
    constant = mq.tensor([1.0, 2.0])
    graph = fx.make_fx(lambda x: x * weight + constant)(mq.ones(2))
    attributes = [n.target for n in graph.graph.nodes if n.op == "get_attr"]
    assert attributes == ["_param_constant0", "_tensor_constant0"]
    assert graph._param_constant0 is weight


def test_real_tensors_are_refused_among_fakes_unless_allowed() -> None:
    outside = mq.ones(2)
    with pytest.raises(AssertionError, match="convert all Tensors to FakeTensors"):
        fx.make_fx(lambda x: x + outside, tracing_mode="fake")(mq.ones(2))
    graph = fx.make_fx(lambda x: x + outside, tracing_mode="fake", _allow_non_fake_inputs=True)
    assert graph(mq.ones(2))(mq.ones(2)).tolist() == [2.0, 2.0]


def test_new_tensors_are_constants_of_the_graph() -> None:
    graph = fx.make_fx(lambda x: x + mq.tensor(3.0))(mq.ones(2))
    assert targets(graph) == [aten.lift_fresh_copy.default, aten.add.Tensor]
    assert graph(mq.ones(2)).tolist() == [4.0, 4.0]


def test_known_values_may_be_asked_for() -> None:
    def program(x: mq.Tensor) -> mq.Tensor:
        return x * (mq.tensor(3) + 1).item()

    assert fx.make_fx(program)(mq.ones(2))(mq.ones(2)).tolist() == [4.0, 4.0]
    assert fx.make_fx(program, tracing_mode="fake")(mq.ones(2))(mq.ones(2)).tolist() == [4.0, 4.0]


def test_unknown_values_are_refused_with_the_line() -> None:
    def branch(x: mq.Tensor) -> mq.Tensor:
        return x if x.sum() > 0 else -x

    told = r"with aten\._local_scalar_dense.*of %gt, bool\[\].* in branch at .*test_make_fx\.py"
    with pytest.raises(RuntimeError, match=told):
        fx.make_fx(branch)(mq.ones(2))


def test_writes_are_recorded_in_order() -> None:
    def program(x: mq.Tensor) -> mq.Tensor:
        y = x.clone()
        y.add_(1)
        y[0].mul_(5)
        return y

    graph = fx.make_fx(program)(mq.zeros(2))
    assert graph(mq.zeros(2)).tolist() == program(mq.zeros(2)).tolist() == [5.0, 1.0]


def test_backward_is_recorded() -> None:
    def program(x: mq.Tensor) -> mq.Tensor:
        return mq.autograd.grad((x.sin() * x).sum(), [x])[0]

    x = mq.randn(3, requires_grad=True)
    graph = fx.make_fx(program)(x)
    assert aten.cos.default in targets(graph)
    assert mq.allclose(graph(x), program(x))


def test_D111_pre_dispatch_sees_composites() -> None:
    x = mq.randn(2, 3, 3)
    composite = fx.make_fx(lambda x: mq.matmul(x[0], x[1]), pre_dispatch=True)(x)
    assert targets(composite)[-1] is aten.matmul.default
    assert targets(fx.make_fx(lambda x: mq.matmul(x[0], x[1]))(x))[-1] is aten.mm.default
    assert mq.allclose(composite(x), x[0] @ x[1])


def test_decompositions_replace_operators() -> None:
    table = {aten.relu.default: lambda x: aten.maximum(x, aten.zeros_like(x))}
    graph = fx.make_fx(lambda x: mq.relu(x) + 1, decomposition_table=table)(mq.ones(2))
    wanted = [aten.zeros_like.default, aten.maximum.default, aten.add.Tensor]
    assert targets(graph) == wanted


def test_the_mode_is_known_and_can_be_left() -> None:
    seen: list[Any] = []

    def program(x: mq.Tensor) -> mq.Tensor:
        seen.append(get_proxy_mode())
        with disable_proxy_modes_tracing():
            seen.append(get_proxy_mode())
            x.cos()
        return x.sin()

    graph = fx.make_fx(program)(mq.ones(2))
    assert isinstance(seen[0], ProxyTorchDispatchMode)
    assert seen[1] is None
    assert targets(graph) == [aten.sin.default]


def test_traces_nest() -> None:
    def inner(x: mq.Tensor) -> mq.Tensor:
        return x.sin() + 1

    def outer(x: mq.Tensor) -> mq.Tensor:
        return get_isolated_graphmodule(inner, (x,), {})(x)

    graph = fx.make_fx(outer)(mq.ones(2))
    assert targets(graph) == [aten.sin.default, aten.add.Tensor]


def test_graphs_are_traced_again() -> None:
    first = fx.make_fx(lambda x: x.sin().cos())(mq.ones(2))
    assert fx.make_fx(first)(mq.ones(2)).code.count("aten.cos.default") == 1


def test_modes_of_users_see_the_program_too() -> None:
    class Log(mq.dispatch.TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[object] = []

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.seen.append(func)
            return func(*args, **(kwargs or {}))

    with Log() as log:
        graph = fx.make_fx(lambda x: x.sin())(mq.ones(2))
    assert aten.sin.default in log.seen
    assert targets(graph) == [aten.sin.default]


def test_an_unknown_mode_is_refused() -> None:
    make: Callable[..., Any] = fx.make_fx
    with pytest.raises(AssertionError, match="Unexpected tracing type: 'pale'"):
        make(lambda x: x, tracing_mode="pale")


# --- symbolic sizes --------------------------------------------------------------------------


def test_sizes_are_asked_for_in_the_graph() -> None:
    def program(x: mq.Tensor) -> mq.Tensor:
        return x.view(-1, x.shape[1] * 2).sum(0)

    graph = fx.make_fx(program, tracing_mode="symbolic")(mq.ones(4, 6))
    assert graph(mq.ones(8, 3)).shape == (6,)
    assert targets(graph)[0] is aten.sym_size.int
    assert '"Sym(2*s1)" = sym_size_int * 2' in graph.print_readable(print_output=False)


def test_expressions_of_sizes_are_computed_once() -> None:
    def program(x: mq.Tensor) -> list[mq.Tensor]:
        half = x.shape[0] // 2
        return [x.new_zeros(half + 1), x.new_zeros(half + 1), x.new_zeros(half)]

    graph = fx.make_fx(program, tracing_mode="symbolic")(mq.ones(6))
    assert [t.numel() for t in graph(mq.ones(9))] == [5, 5, 4]
    assert [getattr(t, "__name__", "") for t in targets(graph)].count("floordiv") == 1


def test_integer_arguments_are_symbols() -> None:
    graph = fx.make_fx(lambda x, n: x.expand(n, x.shape[0]), tracing_mode="symbolic")
    assert graph(mq.ones(4), 3)(mq.ones(7), 2).shape == (2, 7)


def test_numbers_from_data_are_symbols() -> None:
    def program(x: mq.Tensor) -> mq.Tensor:
        return mq.full((2,), x.sum().item()) + x[x > 1].sum()

    graph = fx.make_fx(program, tracing_mode="symbolic")(mq.ones(3, dtype=mq.int64))
    assert graph(mq.tensor([1, 2, 3])).tolist() == [11, 11]


def test_factories_say_where_their_results_are() -> None:
    """Finding 28."""
    graph = fx.make_fx(lambda x: mq.zeros(2, dtype=mq.int64) + mq.arange(2) + x)(mq.ones(2))
    zeros, arange, *_ = [n for n in graph.graph.nodes if n.op == "call_function"]
    assert zeros.kwargs == {"dtype": mq.int64, "device": mq.device("cpu"), "pin_memory": False}
    assert arange.kwargs == {"device": mq.device("cpu"), "pin_memory": False}


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.conj() + 1,
        lambda x: x.imag._neg_view() * 2,
        lambda x: mq.view_as_real(x.conj().resolve_conj()),
        lambda x: x.clone().conj().mul_(2),
        lambda x: mq.mm(x[None], x.conj()[:, None]),
    ],
)
def test_lazy_bits_are_resolved_in_the_graph_as_in_the_run(program, mode):
    x = mq.tensor([1 + 2j, 3 - 1j])
    found = fx.make_fx(program, tracing_mode=mode)(x)(x)
    assert found.resolve_conj().resolve_neg().tolist() == program(x).resolve_conj().tolist()


def test_fake_mode_gives_symbols_for_what_only_data_could_tell():
    def program(x):
        return x * x.sum().item(), x.nonzero() + 1

    traced = fx.make_fx(program, tracing_mode="fake")(mq.ones(3))
    other = mq.tensor([2.0, 0.0, 3.0])
    for found, expected in zip(traced(other), program(other), strict=True):
        assert mq.equal(found, expected)
    assert traced.graph.find_nodes(op="placeholder")[0].meta["val"].shape == (3,)


def test_fake_mode_refuses_branches_on_data_and_names_the_line():
    with pytest.raises(RuntimeError, match=r"data-dependent(.|\n)*test_make_fx\.py"):
        fx.make_fx(lambda x: x if x.sum() > 0 else -x, tracing_mode="fake")(mq.ones(3))


# --- traces inside of traces, subclasses, symbols ---------------------------------------------


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_trace_inside_of_a_trace_is_none_of_its_steps(mode: Any) -> None:
    def f(x: mq.Tensor) -> mq.Tensor:
        inner = make_fx(lambda y: y.sin())(x)
        return inner(x) + 1

    traced = make_fx(f, tracing_mode=mode)(mq.ones(3))
    called = [n.target for n in traced.graph.nodes if n.op == "call_function"]
    assert called == [mq.ops.aten.sin.default, mq.ops.aten.add.Tensor]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_what_a_subclass_runs_is_traced(mode: Any) -> None:
    class Cosine(mq.Tensor):
        inner: mq.Tensor
        __torch_function__ = disabled_torch_function

        @staticmethod
        def __new__(cls, inner: mq.Tensor) -> Any:
            made = mq.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*[a.inner.cos() if isinstance(a, cls) else a for a in args])

    def f(x: mq.Tensor) -> mq.Tensor:
        return x * Cosine(x)

    x = mq.randn(4)
    traced = make_fx(f, tracing_mode=mode)(x)
    assert mq.equal(traced(x), x * x.cos())
    assert not any(n.op == "get_attr" for n in traced.graph.nodes)


def test_a_mask_selects_and_is_assigned_through_in_a_symbolic_trace() -> None:
    def f(x: mq.Tensor) -> mq.Tensor:
        y = x.clone()
        y[x > 0] = y[x > 0] * 2
        return y

    traced = make_fx(f, tracing_mode="symbolic")(mq.tensor([1.0, -2.0, 3.0]))
    assert traced(mq.tensor([-1.0, 5.0, 2.0, 4.0])).tolist() == [-1, 10, 4, 8]


def test_the_only_item_of_a_constant_is_known() -> None:
    def f() -> Any:
        (item,) = mq.tensor([2]).unbind(0)
        return item.item()

    assert make_fx(f)()() == 2


def test_a_size_is_added_to_a_number() -> None:
    traced = make_fx(lambda x: mq.add(x.shape[0], 2.0), tracing_mode="symbolic")(mq.ones(3))
    assert traced(mq.ones(5)).item() == 7


def test_a_graph_is_decomposed_into_another() -> None:
    x = mq.randn(4)
    module = make_fx(lambda x: mq.nn.functional.silu(x) + 1)(x)
    graph = fx.Graph()
    table = {mq.ops.aten.silu.default: lambda x: x * x.sigmoid()}
    DecompositionInterpreter(module, new_graph=graph, decomposition_table=table).run(x)
    made = fx.GraphModule(module, graph)
    assert mq.ops.aten.silu.default not in [n.target for n in graph.nodes]
    assert mq.allclose(made(x), module(x))


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_a_node_tells_of_its_value_as_it_was_when_it_was_made(mode: Any) -> None:
    def program(x: mq.Tensor) -> mq.Tensor:
        y = x + 1
        y.unsqueeze_(0)
        return y

    graph = make_fx(program, tracing_mode=mode)(mq.ones(3)).graph
    found = [n.meta["val"].shape for n in graph.nodes if n.op == "call_function"]
    assert found == [(3,), (1, 3)]
    add = next(n for n in graph.nodes if n.op == "call_function")
    assert add.meta is add.meta
    assert add.meta["tensor_meta"].shape == (3,)
    assert add.all_input_nodes == [next(iter(graph.nodes))]


def test_who_observes_memory_hears_nothing_of_what_nodes_say() -> None:
    class Observer:
        made = 0

        def allocated(self, *told: object) -> None:
            self.made += 1

        def released(self, *told: object) -> None:
            pass

        resized = released

    graph = make_fx(lambda x: x.sin().cos())(mq.ones(3)).graph
    with observe_allocations(Observer()) as observer:
        assert all("val" in n.meta for n in graph.nodes if n.op == "call_function")
    assert observer.made == 0


@pytest.mark.parametrize(
    ("written", "calls"),
    [
        (lambda n, m: n - 1, "sub"),
        (lambda n, m: 10 - n, "sub"),
        (lambda n, m: n * 2, "mul"),
        (lambda n, m: n << 1, "lshift"),
        (lambda n, m: n**2, "pow"),
        (lambda n, m: (n + 2 - 1) // 2, "add sub floordiv"),
        (lambda n, m: 2 * n - m // 2, "mul floordiv sub"),
        (lambda n, m: mq.sym_max(n, m), "sym_max"),
        (lambda n, m: mq.sym_min(n, m + 1), "add sym_min"),
        (lambda n, m: mq.sym_ite(n == m, 2, 3), "eq sym_ite"),
        (lambda n, m: math.floor(n * 0.5), "sym_float mul floor"),
        (lambda n, m: math.ceil(n / 2), "truediv ceil"),
    ],
)
def test_sizes_are_computed_as_the_program_does(
    written: Callable[[Any, Any], Any], calls: str
) -> None:
    def program(x: mq.Tensor, y: mq.Tensor) -> mq.Tensor:
        return x.new_zeros(written(x.shape[0], y.shape[0]))

    graph = fx.make_fx(program, tracing_mode="symbolic")(mq.ones(3, 4), mq.ones(5))
    called = [t for t in targets(graph) if not str(t).startswith("aten.")]
    assert " ".join(getattr(t, "__name__", "") for t in called) == calls
    x, y = mq.ones(7, 4), mq.ones(6)
    assert graph(x, y).shape == program(x, y).shape


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "area"])
def test_a_size_by_a_factor_stays_symbolic(mode: str) -> None:
    def program(x: mq.Tensor) -> mq.Tensor:
        return F.interpolate(x, scale_factor=1.5, mode=mode)

    graph = fx.make_fx(program, tracing_mode="symbolic")(mq.ones(1, 2, 4, 6))
    x = mq.randn(2, 3, 5, 7)
    assert mq.equal(graph(x), program(x))


def test_what_makes_memory_says_that_it_is_not_pinned() -> None:
    def program(x: mq.Tensor) -> tuple[mq.Tensor, ...]:
        return x.new_zeros(2), mq.empty_like(x), mq.full_like(x, 2.0, pin_memory=None)

    nodes = fx.make_fx(program)(mq.ones(3)).graph.nodes
    kwargs = [n.kwargs for n in nodes if n.op == "call_function"]
    assert kwargs == [{"pin_memory": False}] * 3


@pytest.mark.parametrize(
    ("function", "args", "operator"),
    [
        (F.linear, 2, "mm"),
        (F.cosine_similarity, 2, "linalg_vector_norm"),
        (F.gelu, 1, "gelu"),
        (F.relu_, 1, "relu_"),
        (mq.Tensor.float, 1, "output"),
    ],
)
def test_what_pytorch_has_as_a_builtin_is_traced_with_defaults_left_out(
    function: Callable[..., object], args: int, operator: str
) -> None:
    graph = make_fx(function)(*[mq.rand(2, 2)] * args).graph
    names = [str(node.target).removeprefix("aten.").split(".")[0] for node in graph.nodes]
    assert names[0] == "arg0_1"
    assert operator in names


def test_a_symbolic_trace_records_slices_that_are_whole_for_the_example_alone() -> None:
    x = mq.rand(3, 4)

    def slices(function: Callable[[mq.Tensor], mq.Tensor], mode: str) -> int:
        graph = make_fx(function, tracing_mode=mode)(x).graph
        return sum(node.target is mq.ops.aten.slice.Tensor for node in graph.nodes)

    assert slices(lambda x: x[:, 1], "symbolic") == slices(lambda x: x[:100, 1], "symbolic") == 1
    assert slices(lambda x: x[: x.shape[0], 1], "symbolic") == 0
    assert slices(lambda x: x[:, 1], "real") == 0


@pytest.mark.parametrize("make", [mq.tensor, mq.as_tensor, lambda v: mq.tensor([v, 1.0])[0]])
def test_a_tensor_of_a_symbolic_float_has_its_value_of_now(make):
    traced = fx.make_fx(lambda x: make(x.shape[0] * 0.5), tracing_mode="symbolic")(mq.ones(3))
    assert traced(mq.ones(3)) == 1.5
    assert traced(mq.ones(3)).dtype is mq.float32


def test_D117_a_trace_before_dispatch_keeps_where_recording_is_off() -> None:
    def f(x: mq.Tensor) -> mq.Tensor:
        with mq.no_grad():
            scale = x + 1
        return x * scale

    x = mq.ones(2, requires_grad=True)
    traced = make_fx(f, pre_dispatch=True)(x)
    targets = [n.target for n in traced.graph.nodes if n.op == "call_function"]
    assert targets.count(mq.torch._C._set_grad_enabled) == 2
    assert mq.autograd.grad(traced(x).sum(), x)[0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("question", [mq.allclose, mq.equal])
def test_what_fakes_cannot_tell_is_refused_as_fakes_refuse_it(mode, question) -> None:
    with pytest.raises(DataDependentOutputException):
        make_fx(question, tracing_mode=mode)(mq.zeros(2), mq.zeros(2))


def test_sizes_that_are_symbols_broadcast() -> None:
    def f(x: mq.Tensor, y: mq.Tensor) -> Any:
        return maquette.torch.broadcast_shapes(x.shape, y.shape[0])

    assert make_fx(f, tracing_mode="symbolic")(mq.zeros(3, 1), mq.zeros(5))(
        mq.zeros(4, 1), mq.zeros(6)
    ) == (4, 6)


def test_a_transform_is_annotated_as_its_function_is() -> None:
    assert "->" not in make_fx(mq.func.grad(lambda x: x.sin().sum()))(mq.zeros(2)).code


@pytest.mark.parametrize("options", [{}, {"tracing_mode": "symbolic"}, {"pre_dispatch": True}])
def test_parts_of_a_tensor_without_gradient_are_written_in_a_trace(options) -> None:
    def f(x: mq.Tensor) -> mq.Tensor:
        y = x.clone()
        y.split([1, 2])[0].mul_(2)
        return y

    x = mq.ones(3)
    assert make_fx(f, **options)(x)(x).tolist() == [2, 1, 1]
