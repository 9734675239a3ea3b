"""`symbolic_trace`, `Proxy`, `GraphModule`, `Interpreter`."""

import copy
import functools
import inspect
import math
import operator
import pickle
import types
from collections.abc import Callable
from typing import Any

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import fx, nn
from maquette.fx.operator_schemas import get_signature_for_torch_op
from maquette.nn import functional as F


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = nn.Parameter(mq.ones(3))
        self.inner = nn.Sequential(nn.ReLU(), nn.Linear(3, 2))

    def forward(self, x: mq.Tensor, factor: float = 2.0) -> mq.Tensor:
        return self.inner(F.dropout(self.linear(x), training=self.training) * self.scale * factor)


def test_a_traced_module_gives_what_it_gives() -> None:
    module = Block().eval()
    traced = fx.symbolic_trace(module)
    traced.graph.lint()
    x = mq.randn(4, 3)
    assert mq.equal(traced(x), module(x))
    assert mq.equal(traced(x, 3.0), module(x, 3.0))
    ops = [n.op for n in traced.graph.nodes]
    assert ops.count("call_module") == 3
    assert ops.count("get_attr") == 1


def test_functions_are_recorded_by_their_public_names() -> None:
    traced = fx.symbolic_trace(lambda x: mq.max(F.relu(mq.cat([x, x])), 0))
    targets = [n.target for n in traced.graph.nodes if n.op == "call_function"]
    assert targets == [mq.cat, F.relu, mq.max]
    assert traced.code.count("torch.nn.functional.relu(cat, inplace = False)") == 1


def test_a_tensor_on_the_left_is_a_method_call() -> None:
    left = mq.ones(3)
    traced = fx.symbolic_trace(lambda x: (left - x, 1 - x, left @ x))
    assert [n.target for n in traced.graph.nodes if n.op == "call_method"] == ["sub", "matmul"]
    values = traced(mq.tensor([1.0, 2.0, 3.0]))
    assert values[0].tolist() == [0.0, -1.0, -2.0]
    assert values[2].item() == 6.0


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"]
)
def test_operators_are_recorded(name: str) -> None:
    function: Callable[..., Any] = getattr(operator, name)
    traced = fx.symbolic_trace(
        lambda a, b: (function(a, b), function(a, 2) if name != "matmul" else a)
    )
    a, b = mq.tensor([5.0, 7.0]), mq.tensor([2.0, 3.0])
    assert mq.equal(traced(a, b)[0], function(a, b))


def test_branching_on_a_proxy_names_the_value_and_the_line() -> None:
    def branch(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(
        fx.proxy.TraceError, match=r"control flow .*Proxy\(gt\), in branch at .*\.py"
    ):
        fx.symbolic_trace(branch)


def test_looping_over_a_proxy_is_refused_and_unpacking_is_not() -> None:
    with pytest.raises(fx.proxy.TraceError, match="Proxy object cannot be iterated"):
        fx.symbolic_trace(lambda x: [i for i in x])  # noqa: C416

    def unpack(x: Any) -> Any:
        a, b = x
        return b - a

    assert fx.symbolic_trace(unpack)((1, 3)) == 2


def test_len_of_a_proxy_is_refused() -> None:
    with pytest.raises(RuntimeError, match="'len' is not supported in symbolic tracing"):
        fx.symbolic_trace(lambda x: len(x))


def test_math_is_recorded_and_restored() -> None:
    before = math.sqrt
    traced = fx.symbolic_trace(lambda x: math.sqrt(x))
    assert math.sqrt is before
    assert traced(4.0) == 2.0


def test_concrete_arguments_specialize() -> None:
    traced = fx.symbolic_trace(lambda x, flag: x if flag else -x, concrete_args={"flag": False})
    assert traced(3, False) == -3
    with pytest.raises(AssertionError, match="flag has been specialized to have value False"):
        traced(3, True)


def test_nested_arguments_are_flattened() -> None:
    nested = {"pair": (fx.PH, {"k": fx.PH})}
    traced = fx.symbolic_trace(lambda pair: {"sum": pair[0] + pair[1]["k"]}, concrete_args=nested)
    assert sum(n.op == "placeholder" for n in traced.graph.nodes) == 2
    assert traced((1, {"k": 2})) == {"sum": 3}


def test_graph_modules_pickle_and_deep_copy() -> None:
    traced = fx.symbolic_trace(Block().eval())
    x = mq.randn(2, 3)
    for copied in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert mq.equal(copied(x), traced(x))
        assert copied.code == traced.code


def test_recompiling_follows_the_graph() -> None:
    traced = fx.symbolic_trace(lambda x: x + 1)
    for node in traced.graph.nodes:
        if node.target is operator.add:
            node.target = operator.mul
            node.args = (node.args[0], 10)
    traced.recompile()
    assert traced(3) == 30


def test_interpreter_runs_and_says_where_it_failed() -> None:
    traced = fx.symbolic_trace(lambda x, y: mq.mm(x, y))
    assert fx.Interpreter(traced).run(mq.ones(2, 3), mq.ones(3, 1)).tolist() == [[3.0], [3.0]]
    with pytest.raises(RuntimeError, match="While executing %mm"):
        fx.Interpreter(traced).run(mq.ones(2, 3), mq.ones(2, 1))


def test_errors_say_the_line_of_the_graph() -> None:
    traced = fx.symbolic_trace(lambda x, y: mq.mm(x, y))
    with pytest.raises(RuntimeError) as caught:
        traced(mq.ones(2, 3), mq.ones(2, 1))
    assert any("mm = torch.mm(x, y)" in note for note in caught.value.__notes__)


def test_transformers_make_other_graphs() -> None:
    class Swap(fx.Transformer):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            target = {mq.sin: mq.cos}.get(target, target)
            return super().call_function(target, args, kwargs)

    swapped = Swap(fx.symbolic_trace(lambda x: mq.sin(x) + 1)).transform()
    assert swapped(mq.zeros(1)).item() == 2.0


def test_submodules_are_added_and_deleted() -> None:
    traced = fx.symbolic_trace(Block())
    assert traced.add_submodule("a.b", nn.ReLU())
    assert isinstance(traced.get_submodule("a.b"), nn.ReLU)
    traced.delete_all_unused_submodules()
    assert not hasattr(traced, "a")
    assert hasattr(traced, "linear")


def test_assertions_are_recorded_after_rewriting() -> None:
    from maquette.fx.tracing.rewriter import RewritingTracer

    class Checked(nn.Module):
        def forward(self, x: mq.Tensor) -> mq.Tensor:
            assert x.sum() > 0, "too small"
            return x * 2

    module = Checked()
    traced = fx.GraphModule(module, RewritingTracer().trace(module))
    assert traced(mq.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(AssertionError, match="too small"):
        traced(-mq.ones(2))


class Seen(mq.Tensor):
    """Notes the functions that are called on it."""

    functions: list[Any] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.functions.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_D135_handlers_are_told_the_public_function() -> None:
    seen: Any = mq.ones(3).as_subclass(Seen)
    Seen.functions.clear()
    results = [mq.sin(seen), seen + 1, 1 - seen, F.relu(seen), F.softmax(seen, 0), seen.add(1)]
    methods = [mq.Tensor.add, mq.Tensor.__rsub__]
    assert Seen.functions == [mq.sin, *methods, F.relu, F.softmax, mq.Tensor.add]
    assert all(isinstance(r, Seen) for r in results)


@pytest.mark.parametrize("name", ["floordiv", "mod", "matmul", "rshift", "pow", "sub"])
def test_reflected_operators_leave_what_they_do_not_know_to_it(name: str) -> None:
    class Other:
        pass

    function: Callable[..., Any] = getattr(operator, name)
    with pytest.raises(TypeError, match="unsupported operand type"):
        function(Other(), mq.ones(2))


def test_a_wrapped_function_is_traced_with_its_keyword_parameters():
    def plain(x, *, scale=2.0):
        return x * scale

    @functools.wraps(plain)
    def wrapped(*args, **kwargs):
        return plain(*args, **kwargs)

    traced = fx.symbolic_trace(wrapped)
    assert traced(mq.ones(2), scale=3.0).tolist() == [3.0, 3.0]


def test_functions_of_nn_that_are_operators_have_their_signatures():
    (first, *_) = get_signature_for_torch_op(F.pixel_shuffle)
    assert list(first.parameters) == ["input", "upscale_factor"]
    assert get_signature_for_torch_op(F.relu) is None


def test_a_proxy_of_another_trace_is_refused_with_its_line():
    kept = []
    fx.symbolic_trace(lambda x: kept.append(x + 1))
    with pytest.raises(fx.proxy.TraceError, match=r"Proxy\(add\) of another.*test_tracing.py"):
        fx.symbolic_trace(lambda x: x + kept[0])


def test_annotations_of_functions_and_modules_are_classes() -> None:
    texts = [
        f"{name}: {parameter}"
        for name in dir(mq.nn.functional)
        if isinstance(function := getattr(mq.nn.functional, name), types.FunctionType)
        and not name.startswith("_")
        for parameter in inspect.signature(function).parameters.values()
        if isinstance(parameter.annotation, str)
    ]
    assert texts == []
    assert inspect.signature(mq.nn.functional.softmax).parameters["input"].annotation is mq.Tensor
    assert inspect.signature(mq.nn.Linear.forward).return_annotation is mq.Tensor


def test_annotations_are_written_as_pytorch_writes_them() -> None:
    def f(
        a: int | None,
        b: list[int | None],
        c: tuple[int, ...],
        d: dict[str, mq.Tensor] | None,
        e: mq.dtype | None,
    ) -> int | None:
        return a

    code = fx.symbolic_trace(f).code
    assert (
        "a : int|NoneType, b : list[int|NoneType], c : tuple[int,_], "
        "d : dict[str,torch.Tensor]|NoneType, e : torch.dtype|NoneType" in code
    )


def test_einsum_is_recorded_in_one_form() -> None:
    class Written(nn.Module):
        def forward(self, x: mq.Tensor, y: mq.Tensor) -> Any:
            tensors = mq.einsum("ij,jk->ik", x, y), mq.einsum("ij,jk->ik", [x, y])
            return *tensors, mq.einsum(x, [0, 1], y, [1, 2], [0, 2])

    graph = fx.symbolic_trace(Written()).graph
    calls = [node for node in graph.nodes if node.target is mq.einsum]
    assert [len(node.args) for node in calls] == [3, 3, 3]
    assert all(isinstance(node.args[0], str) for node in calls)


def test_a_tracer_of_ones_own_need_not_know_factories_of_proxies() -> None:
    class Older(fx.Tracer):
        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None):
            return super().create_proxy(kind, target, args, kwargs, name, type_expr)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(mq.ones(2))

        def forward(self, x: mq.Tensor) -> mq.Tensor:
            return x * self.scale

    for constant in (False, True):
        traced = Older(param_shapes_constant=constant).trace(Scaled())
        assert [n.op for n in traced.nodes][:2] == ["placeholder", "get_attr"]


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: torch.sym_max(x.shape[0], 3), 3),
        (lambda x: torch.sym_min(3, x.shape[0]), 2),
        (lambda x: torch.sym_float(x.shape[0]), 2.0),
        (lambda x: torch.sym_int(x.shape[0] / 4), 0),
        (lambda x: torch.sym_not(x.shape[0] > 1), False),
        (lambda x: torch.sym_ite(x.shape[0] > 1, 5, 6), 5),
        (lambda x: torch.sym_sum([x.shape[0], x.shape[1], 1]), 6),
        (lambda x: torch._sym_sqrt(x.shape[0] * 2), 2.0),
    ],
)
def test_functions_of_numbers_are_traced_as_calls(
    function: Callable[..., object], wanted: float
) -> None:
    graph = mq.fx.symbolic_trace(function)
    assert any(node.name.startswith("sym_") for node in graph.graph.nodes)
    assert "torch.sym_" in graph.code
    assert graph(mq.ones(2, 3)) == wanted


def test_D135_functions_of_numbers_ask_handlers_and_modes() -> None:
    class Answering:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func, args

    asked = Answering()
    assert torch.sym_max(2, asked) == (torch.sym_max, (2, asked))
    assert torch.sym_not(asked) == (torch.sym_not, (asked,))

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return "mode"

    with Mode():
        assert torch.sym_float(1) == "mode"
