"""`make_fx`: a function run once on example arguments becomes a graph of the operators it ran.

A trace is a function run inside `ProxyTorchDispatchMode` (`proxy_mode.py`): on the arguments
themselves ("real"), on fakes of them ("fake"), or on fakes with symbolic sizes ("symbolic").
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import NoneType
from typing import Any, Literal

import maquette.symbolic as symbolic  # its modules are loaded when a name is asked for
from maquette.api.function_homes import own_module
from maquette.autograd.grad_mode import set_recording
from maquette.core import pytree
from maquette.core.symbols import node_of
from maquette.dispatch.generated import generate
from maquette.dispatch.overrides import enable_python_dispatcher
from maquette.dispatch.torch_function import TorchFunctionMode
from maquette.fake.detecting import detect_fake_mode
from maquette.fake.mode import FakeTensorMode
from maquette.fake.tensor import FakeTensor
from maquette.fx import traceback as fx_traceback
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Argument, Node, has_side_effect
from maquette.fx.tracing.patching import Patcher
from maquette.fx.tracing.proxy import SIMPLE, Proxy
from maquette.fx.tracing.proxy_mode import (
    DecompositionTable,
    ProxyTorchDispatchMode,
    get_proxy_mode,
)
from maquette.fx.tracing.symbol_nodes import SymbolNodes
from maquette.fx.tracing.tracer import PH, Tracer
from maquette.fx.tracing.tracked import TensorTable, is_object, track
from maquette.library.objects.opaque_types import is_opaque_value_type
from maquette.library.objects.script_objects import is_script_object, maybe_to_fake_obj
from maquette.nn.base import Module
from maquette.nn.parameter import Parameter
from maquette.tensor.tensor import Tensor

TracingMode = Literal["real", "fake", "symbolic"]
_MODES = ("real", "fake", "symbolic")
_NO_OBJECTS = (Tensor, Proxy, int, float, complex, str, tuple, list, dict, NoneType)


class PythonKeyTracer(Tracer):
    """The tracer of `make_fx`: modules are run through, tensors of the trace are its nodes."""

    def __init__(
        self, record_stack_traces: bool = False, record_module_stack: bool = False
    ) -> None:
        super().__init__(autowrap_modules=())
        self.record_stack_traces = record_stack_traces
        self.record_module_stack = record_module_stack
        self.tensor_table = TensorTable()
        self.symbol_nodes = SymbolNodes()
        # Opaque objects by identity, kept so that no other gets their id.
        self.object_nodes: dict[int, tuple[Node, Any]] = {}
        self._scoped: Module | None = None

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Modules are run."""
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Attributes are what they are."""
        return attr_val

    def create_arg(self, a: Any) -> Argument:
        """Parameters and tensors from outside the trace become attributes of its module."""
        cls = a.__class__
        if cls in SIMPLE:
            return a
        if cls is tuple:
            return tuple([self.create_arg(x) for x in a])
        if cls is dict and not a:
            return a
        if isinstance(a, Proxy):
            return self.node_of(a)
        if isinstance(a, Tensor):
            found = self.tensor_table.get(a)
            if found is not None:
                return found.node
            if isinstance(a, FakeTensor) and not isinstance(a, Parameter):
                self._refuse_leak(a)
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    node = self.create_node("get_attr", name, (), {})
                    break
            else:
                prefix = "_param_constant" if isinstance(a, Parameter) else "_tensor_constant"
                node = self._constant(a, prefix)
            track(self, a, node)
            return node
        number: Any = node_of(a)
        if number is not None:
            found_node = self.symbol_nodes.find(a)
            if found_node is not None:
                return found_node
            decided = number.maybe_as_bool()
            if decided is not None:
                return bool(decided)
        if not isinstance(a, _NO_OBJECTS):
            known = self._object(a)
            if known is not None:
                return known
        return super().create_arg(a)

    def _object(self, a: Any) -> Argument | None:
        """What an object of an opaque type or script class is in the graph; None for any other."""
        if is_opaque_value_type(type(a)):
            return a
        if not is_object(a):
            return None
        if id(a) not in self.object_nodes:
            prefix = "_torchbind_obj" if is_script_object(a) else "_opaque_obj"
            self.object_nodes[id(a)] = self._constant(a, prefix), a
        return self.object_nodes[id(a)][0]

    def _refuse_leak(self, a: FakeTensor) -> None:
        """A fake that is no input: harmless as a constant, unless another trace made it."""
        mode = get_proxy_mode()
        running = () if mode is None else mode.tracers()
        if any(tracer is not self and a in tracer.tensor_table for tracer in running):
            raise RuntimeError(
                f"make_fx: {a.meta} belongs to another trace that is still running; pass it to the "
                f"traced function as an argument"
            )

    def unwrap_proxy(self, e: Any) -> Any:
        """The proxy of a tensor or symbol of the trace; anything else itself."""
        if isinstance(e, Tensor):
            found = self.tensor_table.get(e)
            return e if found is None else Proxy(found.node, self)
        if node_of(e) is not None:
            found_node = self.symbol_nodes.find(e)
            return e if found_node is None else Proxy(found_node, self)
        return e

    def _patch(self, patcher: Patcher, names: dict[str, Any]) -> None:
        # Operators are seen by the mode; only the modules that run may be of interest.
        if not self.record_module_stack or self._scoped is None:
            return
        paths = {id(m): name for name, m in self._scoped.named_modules()}
        called = Module.__call__

        def module_call(module: Module, /, *args: Any, **kwargs: Any) -> Any:
            path = paths.get(id(module))
            if path is None:
                return called(module, *args, **kwargs)
            self.module_stack[path] = (path, type(module))
            try:
                return called(module, *args, **kwargs)
            finally:
                self.module_stack.pop(path, None)

        patcher.patch_method(Module, "__call__", module_call)


# --- one trace -------------------------------------------------------------------------------

# Functions and methods in Python; methods say that they are in "maquette" itself.
_FACES_OF_OPERATORS = ("maquette.api.", "maquette.tensor.", "maquette..")


def fake_signature(fn: Callable[..., Any], nargs: int) -> Callable[..., Any]:
    """A function of ``nargs`` named parameters, for one whose own cannot be told."""
    names = ", ".join([f"arg{i}" for i in range(nargs)])
    source = f"def traced({names}):\n    return fn({names})\n"
    return generate(source, "traced", "signature", {"fn": fn})


def _has_plain_signature(function: Callable[..., Any]) -> bool:
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None)
    if inspect.ismethod(function):  # its code has a parameter more
        return False
    if code is None or code.co_flags & inspect.CO_VARARGS:
        return False
    # PyTorch's are builtins, whose parameters cannot be told: a call may leave out any of them.
    is_operator = getattr(function, "as_written", False)
    return not is_operator and not f"{own_module(plain)}..".startswith(_FACES_OF_OPERATORS)


def wrap_key(
    f: Callable[..., Any], tensors: Any, tracer: PythonKeyTracer, pre_dispatch: bool = False
) -> Callable[..., Any]:
    """A function of proxies that runs ``f`` on ``tensors``, which the proxies stand for."""
    return _run_on(tracer, f, tensors, nullcontext())


def _run_on(
    tracer: PythonKeyTracer,
    f: Callable[..., Any],
    tensors: Any,
    within: AbstractContextManager[object],
) -> Callable[..., Any]:
    """`wrap_key`, run in a context, outside of which its placeholders were made."""
    flat = pytree.tree_leaves(tensors)

    @functools.wraps(f)
    def wrapped(*proxies: Any, **unused: Any) -> Any:
        tracer.symbol_nodes.graph = tracer.graph
        flat_proxies = pytree.tree_leaves(proxies)
        assert len(flat_proxies) == len(flat)
        with within:
            for value, proxy in zip(flat, flat_proxies):
                if isinstance(proxy, Proxy):
                    track(tracer, value, proxy.node)
            out = f(*tensors)
            return pytree.tree_map(tracer.unwrap_proxy, out)

    return wrapped


def dispatch_trace(
    root: Callable[..., Any] | Module,
    tracer: PythonKeyTracer,
    concrete_args: tuple[Any, ...] | None = None,
) -> GraphModule:
    """Trace a function of proxies; the module of its graph, without sizes that nothing uses."""
    graph = tracer.trace(root, concrete_args)
    if tracer.symbol_nodes:  # else there is no arithmetic on sizes
        graph.eliminate_dead_code(_is_needed)
    name = root.__class__.__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


def _is_needed(node: Node) -> bool:
    """Whether a node stays although nothing uses it: operators do, arithmetic on sizes does not."""
    if node.is_impure():
        return True
    return node_of(node.meta.get("val")) is None


has_side_effect(set_recording)


class _RecordingSwitches(TorchFunctionMode):
    """Notes in a graph before dispatch where the program switches recording on and off."""

    def __init__(self, tracer: PythonKeyTracer) -> None:
        self.tracer = tracer

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if func is set_recording:
            self.tracer.create_node("call_function", func, args, {})
        return func(*args, **(kwargs or {}))


class _MakeFx:
    """The options of one `make_fx`, and a trace by them."""

    def __init__(
        self,
        decomposition_table: DecompositionTable | None,
        tracing_mode: TracingMode,
        allow_non_fake_inputs: bool,
        pre_dispatch: bool,
        record_module_stack: bool,
        allow_fake_constant: bool,
        error_on_data_dependent_ops: bool,
        record_stack_traces: bool,
    ) -> None:
        if tracing_mode not in _MODES:
            raise AssertionError(
                f"make_fx: Unexpected tracing type: {tracing_mode!r}; there are {', '.join(_MODES)}"
            )
        self.decompositions = dict(decomposition_table or {})
        self.tracing_mode = tracing_mode
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.pre_dispatch = pre_dispatch
        self.record_module_stack = record_module_stack
        self.allow_fake_constant = allow_fake_constant
        self.error_on_data_dependent_ops = error_on_data_dependent_ops
        self.record_stack_traces = record_stack_traces

    def trace(self, f: Callable[..., Any], args: tuple[Any, ...]) -> GraphModule:
        """See `make_fx`."""
        fake_mode = self._fake_mode(args)
        inputs = args if fake_mode is None else self._as_fakes(fake_mode, args)
        function = f if _has_plain_signature(f) else fake_signature(f, len(args))
        tracer = PythonKeyTracer(self.record_stack_traces, self.record_module_stack)
        program = getattr(f, "_orig_mod", f)  # a function may say whose calls it makes
        tracer._scoped = program if isinstance(program, Module) else None
        mode = ProxyTorchDispatchMode(
            tracer,
            self.tracing_mode,
            pre_dispatch=self.pre_dispatch,
            _allow_fake_constant=self.allow_fake_constant,
            _error_on_data_dependent_ops=self.error_on_data_dependent_ops,
            decomposition_table=self.decompositions,
        )
        holes: Any = pytree.tree_map(lambda _: PH, args)
        below_all = self.pre_dispatch or self.tracing_mode == "symbolic"
        inherits = fx_traceback.has_preserved_node_meta()
        with (
            fake_mode or nullcontext(),
            enable_python_dispatcher() if below_all else nullcontext(),
            fx_traceback.preserve_node_meta(inherits),
            _RecordingSwitches(tracer) if self.pre_dispatch else nullcontext(),
        ):
            tracer.symbol_nodes.graph = None
            runner = _run_on(tracer, function, inputs, mode)
            made = dispatch_trace(runner, tracer, holes)
        if fake_mode is not None and getattr(fake_mode, "shape_env", None) is not None:
            vars(made)["shape_env"] = fake_mode.shape_env
        return made

    def _fake_mode(self, args: tuple[Any, ...]) -> FakeTensorMode | None:
        if self.tracing_mode == "real":
            return None
        found = detect_fake_mode(args)
        if self.tracing_mode == "fake":
            # Sizes are numbers; what only data could tell is a symbol, as in the symbolic mode.
            return found or FakeTensorMode(
                allow_non_fake_inputs=self.allow_non_fake_inputs,
                shape_env=symbolic.ShapeEnv(),
                static_shapes=True,
            )
        if found is not None:
            assert found.shape_env is not None, (
                "make_fx: shape_env should be set if tracing with 'symbolic'; the arguments are "
                "fakes of a mode without one"
            )
            return found
        return FakeTensorMode(
            allow_non_fake_inputs=self.allow_non_fake_inputs, shape_env=symbolic.ShapeEnv()
        )

    def _as_fakes(self, mode: FakeTensorMode, args: tuple[Any, ...]) -> tuple[Any, ...]:
        count = 0

        def as_fake(x: Any) -> Any:
            nonlocal count
            count += 1
            if isinstance(x, Tensor):
                if self.tracing_mode == "symbolic":
                    return mode.from_tensor(x, source=f"input{count}")
                return mode.from_tensor(x)
            if self.tracing_mode == "symbolic" and type(x) is int:
                return _as_symbol(mode, x, f"input{count}")
            if not isinstance(x, _NO_OBJECTS) and is_object(x):
                return maybe_to_fake_obj(mode, x)
            return x

        mapped = pytree.tree_map(as_fake, args)
        assert isinstance(mapped, tuple)
        return mapped


def trace_call(
    f: Callable[..., Any], tensors: Sequence[Tensor], mode: FakeTensorMode
) -> tuple[PythonKeyTracer, list[Node], list[Argument]]:
    """The nodes of one call on fakes of tensors: placeholders, and what its results' leaves are.

    The tracer has the graph, which has no output node, and in its root the constants. What
    `make_fx` does beyond that is 0.4 ms a trace, most of what few operators cost.
    """
    tracer = PythonKeyTracer()
    tracer.root = Module()
    tracer.graph = graph = Graph(tracer_cls=PythonKeyTracer)
    fakes = [mode.from_tensor(t) for t in tensors]
    placeholders = [graph.placeholder(f"arg{i}") for i in range(len(fakes))]
    for fake, node in zip(fakes, placeholders):
        track(tracer, fake, node)
    with mode, ProxyTorchDispatchMode(tracer, "fake"):
        results = pytree.tree_leaves(f(*fakes))
    return tracer, placeholders, [tracer.create_arg(result) for result in results]


def _as_symbol(mode: FakeTensorMode, value: int, source: str) -> Any:
    """A symbolic number for an integer argument; itself where there is nothing to learn of it."""
    environment: Any = mode.shape_env
    symbol = environment.create_unspecified_symbol(value, source)
    return environment.create_symintnode(symbol, hint=value)


def make_fx(
    f: Callable[..., Any],
    decomposition_table: DecompositionTable | None = None,
    tracing_mode: TracingMode = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
    proxy_module_inputs: bool = False,
    _disable_torch_fn_metadata_mode: bool = False,
) -> Callable[..., GraphModule]:
    """A function that runs ``f`` once on its arguments and gives the graph of operators it ran.

    Tensors among the arguments (and in lists, tuples and dicts there) are inputs of the graph;
    numbers are constants, and what ``f`` does with Python is gone. Tensors from elsewhere become
    attributes of the module.

    decomposition_table: functions to run instead of operators, by operator. tracing_mode: "real"
    computes with the data, "fake" with shapes only, "symbolic" with sizes that may differ later.
    pre_dispatch: record operators before autograd and decomposition. record_stack_traces: note in
    each node the line of the program. ``_allow_non_fake_inputs``: take real tensors that ``f``
    refers to when tracing with fakes.

    Raises RuntimeError where the program asks for a number that only data could tell.

    >>> import maquette as mq
    >>> from maquette import fx
    >>> graph = fx.make_fx(lambda x: mq.sin(x) @ x)(mq.ones(2, 2))
    >>> print(graph.code.strip())
    def forward(self, x_1):
        sin = torch.ops.aten.sin.default(x_1)
        mm = torch.ops.aten.mm.default(sin, x_1);  sin = x_1 = None
        return mm
    """
    maker = _MakeFx(
        decomposition_table,
        tracing_mode,
        _allow_non_fake_inputs,
        pre_dispatch,
        record_module_stack,
        _allow_fake_constant,
        _error_on_data_dependent_ops,
        record_stack_traces or fx_traceback.has_preserved_node_meta(),
    )

    @functools.wraps(f)
    def wrapped(*args: Any) -> GraphModule:
        return maker.trace(f, args)

    return wrapped


def get_isolated_graphmodule(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tracing_mode: TracingMode = "real",
    decomposition_table: DecompositionTable | None = None,
) -> GraphModule:
    """The graph of a call, traced apart from a trace that may be running.

    Its inputs are the leaves of the arguments.
    """
    leaves, spec = pytree.tree_flatten((args, kwargs))

    def unflattened(*flat: Any) -> Any:
        nested: Any = pytree.tree_unflatten(flat, spec)
        return func(*nested[0], **nested[1])

    from maquette.fx.tracing.proxy_mode import disable_proxy_modes_tracing  # noqa: PLC0415

    with disable_proxy_modes_tracing():
        return make_fx(unflattened, decomposition_table, tracing_mode)(*leaves)


@contextmanager
def decompose(decomposition_table: DecompositionTable | None) -> Iterator[DecompositionTable]:
    """Decompose by a table in the running trace, for the block."""
    mode = get_proxy_mode()
    table = decomposition_table or {}
    if mode is None:
        yield table
        return
    before = mode.decompositions
    mode.decompose_by(table)
    try:
        yield before
    finally:
        mode.decompose_by(before)


__all__ = [
    "Graph",
    "PythonKeyTracer",
    "decompose",
    "dispatch_trace",
    "make_fx",
    "trace_call",
    "wrap_key",
]
