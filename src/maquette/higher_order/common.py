"""What the higher-order operators share: one registration for every key, mode and transform.

An operator here is a subclass of `FunctionalHop` with a plain definition, ``eager``, which calls
its functions, and where that asks for data another, ``fake``, for tensors without. Autograd,
vmap and jvp need no rules: they see what the definition calls. Functionalization passes functions
on functionalized; a trace makes each a graph and records one node.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from maquette.core.pytree import TreeSpec, keystr, tree_flatten, tree_flatten_with_path
from maquette.core.symbols import node_of
from maquette.dispatch import keysets as K
from maquette.dispatch.base import TransformType
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.dispatch.higher_order import HigherOrderOperator
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.tls import tls
from maquette.fake.mode import FakeTensorMode
from maquette.fx.graph_module import GraphModule
from maquette.fx.tracing.operator_tracing import make_fx
from maquette.fx.tracing.proxy_mode import (
    ProxyTorchDispatchMode,
    _Arguments,
    disable_proxy_modes_tracing,
    get_proxy_mode,
)
from maquette.fx.tracing.tracked import track
from maquette.higher_order.captured import captured_tensors
from maquette.tensor.keys import ADINPLACE
from maquette.tensor.tensor import Tensor, alias
from maquette.transforms.rules import operators

if TYPE_CHECKING:
    from maquette.fx.node import Node
    from maquette.fx.tracing.operator_tracing import PythonKeyTracer
    from maquette.symbolic import ShapeEnv

Function = Callable[..., Any]


class FunctionalHop(HigherOrderOperator):
    """A higher-order operator that is defined by what it calls."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.py_impl(DispatchKey.CompositeExplicitAutograd)(self.defined)
        self.py_impl(DispatchKey.Autograd)(self.recorded)
        self.py_impl(FakeTensorMode)(self.on_fakes)
        self.py_impl(ProxyTorchDispatchMode)(self.traced)
        for transform in (TransformType.Vmap, TransformType.Grad, TransformType.Jvp):
            self.py_impl(transform)(self.under_transform)
        self.py_functionalize_impl(self.functional)

    # --- what a subclass says --------------------------------------------------------

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """The definition: what the operator does with its arguments."""
        raise NotImplementedError(type(self).__name__)

    def fake(self, *args: Any, **kwargs: Any) -> Any:
        """The definition for tensors without data; it reads none of their values."""
        return self.eager(*args, **kwargs)

    def straight(self, *args: Any, **kwargs: Any) -> Any:
        """The definition for a program in which no data may decide what runs."""
        return self.eager(*args, **kwargs)

    def operands_of(self, at: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the function at a position of the arguments is called with, for tracing it."""
        raise NotImplementedError(f"{self.name()}: tracing a function that it takes")

    operands_at: int | None = None
    """Which argument is the tuple of what its functions are called with last; None: all to come."""

    def with_operands(self, args: tuple[Any, ...], more: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, with more operands behind those that its functions are called with."""
        at = self.operands_at
        if at is None:
            return (*args, *more)
        return (*args[:at], (*(args[at] if len(args) > at else ()), *more))

    def graph_name(self, at: int) -> str:
        """What the graph of the function at a position is called in a trace, before its number."""
        return f"{self.name()}_graph"

    # --- what it does where ------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)

    def defined(self, *args: Any, **kwargs: Any) -> Any:
        """Run the definition that fits the tensors."""
        without_data = _any_without_data((args, kwargs))
        return (self.fake if without_data else self.eager)(*args, **kwargs)

    def recorded(self, *args: Any, **kwargs: Any) -> Any:
        """At Autograd: the definition is recorded operator by operator, unless a mode watches."""
        if not tls.st.dispatch_modes:
            return self.defined(*args, **kwargs)
        if self.records(args, kwargs):
            # What a trace records has to be all of it: `fake` runs a loop's body once.
            return (self.straight if _traced() else self.defined)(*args, **kwargs)
        with AutoDispatchBelowAutograd():
            return self(*args, **kwargs)

    def records(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a tensor that the call gets, or that its functions capture, requires grad."""
        if not tls.st.grad_enabled:
            return False
        if _any_requires_grad((args, kwargs)):
            return True
        functions = filter(_is_function, _leaves((args, kwargs)))
        return any(t.requires_grad for f in functions for t in captured_tensors(f).values())

    def on_fakes(self, mode: Any, *args: Any, **kwargs: Any) -> Any:
        """Under a fake mode, with real tensors made fake by it."""
        with mode:
            return self.fake(*args, **kwargs)

    def under_transform(self, level: Any, *args: Any, **kwargs: Any) -> Any:
        """Under vmap, grad or jvp: the definition's operators are transformed."""
        # As in `recorded`: what a trace sees of it has to be all of it.
        return (self.straight if _traced() else self.defined)(*args, **kwargs)

    def functional(self, ctx: Any, *args: Any, **kwargs: Any) -> Any:
        """Functionalized: on values, with functions that mutate nothing."""
        for function in filter(_is_function, args):
            # What it captures is brought up to date here: what that calls is none of its steps.
            ctx.unwrap_tensors(list(captured_tensors(function).values()))
        given = [ctx.functionalize(a) if _is_function(a) else ctx.unwrap_tensors(a) for a in args]
        named = ctx.unwrap_tensors(kwargs)
        with ctx.redispatch_to_next():
            result = self(*given, **named)
        return ctx.wrap_tensors(result)

    def traced(self, mode: Any, *args: Any, **kwargs: Any) -> Any:
        """In a trace: a node that names a graph for each function.

        Tensors and sizes of the trace that the functions capture are operands of the node: as
        constants of the graphs, they would be what they were when it was made.
        """
        functions = {at: a for at, a in enumerate(args) if _is_function(a)}
        numbers: list[Any] = []
        graphs = self._graphs(mode, functions, args, numbers)
        held = [*_captured_of_trace(mode, graphs.values()), *numbers]
        if held:
            for graph in graphs.values():
                _forget(mode, graph)
            args = self.with_operands(args, tuple(held))
            taking = {at: _taking(function, len(held)) for at, function in functions.items()}
            graphs = self._graphs(mode, taking, args, None, len(held))
        return record(mode, self, tuple([graphs.get(at, a) for at, a in enumerate(args)]), kwargs)

    def _graphs(
        self,
        mode: Any,
        functions: dict[int, Function],
        args: tuple[Any, ...],
        numbers: list[Any] | None,
        held: int = 0,
    ) -> dict[int, GraphModule]:
        return {
            at: subgraph(
                mode, function, self.operands_of(at, args), self.graph_name(at), numbers, held
            )
            for at, function in functions.items()
        }


def _traced() -> bool:
    return any(isinstance(m, ProxyTorchDispatchMode) for m in tls.st.dispatch_modes)


def _is_function(a: Any) -> bool:
    return callable(a) and not isinstance(a, (Tensor, HigherOrderOperator, type))


def flattened(tree: Any) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its structure."""
    return tree_flatten(tree)


def environment_of(values: Any) -> ShapeEnv | None:
    """The environment of the symbols that a run on these fakes may make, or None."""
    modes = [tls.st.fake_mode, *(t.fake_mode for t in _leaves(values) if isinstance(t, Tensor))]
    found = [getattr(mode, "shape_env", None) for mode in modes]
    return next((environment for environment in found if environment is not None), None)


def _leaves(values: Any) -> list[Any]:
    return tree_flatten(values)[0]


def _any_without_data(values: Any) -> bool:
    if tls.st.fake_mode is not None:
        return True
    tensors = [t for t in _leaves(values) if isinstance(t, Tensor)]
    return any(t.fake_mode is not None or t.is_meta for t in tensors)


def _any_requires_grad(values: Any) -> bool:
    return any(isinstance(t, Tensor) and t.requires_grad for t in _leaves(values))


@contextmanager
def autograd_acting() -> Iterator[None]:
    """For a block below autograd: what is called records again, for gradients taken in it."""
    st = tls.st
    before = st.exclude
    st.set_exclude(before & ~(K.AUTOGRAD | ADINPLACE))
    try:
        yield
    finally:
        st.set_exclude(before)


# --- tracing ------------------------------------------------------------------------------------


class _Waiting(threading.local):
    """The tracers of this thread that wait for the graph of a function, outermost first."""

    def __init__(self) -> None:
        self.tracers: list[PythonKeyTracer] = []


_waiting = _Waiting()


def subgraph(
    mode: ProxyTorchDispatchMode,
    function: Function,
    operands: Sequence[Any],
    name: str,
    numbers: list[Any] | None = None,
    held: int = 0,
) -> GraphModule:
    """The graph of a function, an attribute of the module that is being traced.

    To ``numbers`` are added the symbolic ones that the function uses and only this trace knows;
    without it they are refused. held: how many operands, at the end, stand for what is captured.
    """
    operands = _apart(function, operands, held)
    sharing = function if numbers is None else _sharing_symbols(mode, function, numbers)
    _waiting.tracers.append(mode.tracer)
    try:
        with autograd_acting():
            made = make_fx(sharing, mode.decompositions, pre_dispatch=mode.pre_dispatch)(*operands)
    finally:
        _waiting.tracers.pop()
    root: Any = mode.tracer.root
    number = 0
    while hasattr(root, f"{name}_{number}"):
        number += 1
    setattr(root, f"{name}_{number}", made)
    return made


def _sharing_symbols(
    mode: ProxyTorchDispatchMode, function: Function, numbers: list[Any]
) -> Function:
    """A function whose graph has a placeholder for each symbolic number that this trace knows.

    A placeholder where it happened to be asked for: the graph is made again with it as an operand.
    """

    def sharing(*operands: Any) -> Any:
        inner = get_proxy_mode()
        assert inner is not None
        symbols = inner.tracer.symbol_nodes

        def known_here(number: Any) -> Node | None:
            if mode.tracer.symbol_nodes.find(number) is None:
                return None
            if not any(number is n or node_of(number) is node_of(n) for n in numbers):
                numbers.append(number)
            assert symbols.graph is not None
            return symbols.graph.placeholder("size")

        symbols.elsewhere = known_here
        return function(*operands)

    return sharing


def _captured_of_trace(mode: ProxyTorchDispatchMode, graphs: Iterable[GraphModule]) -> list[Tensor]:
    """The constants of graphs that belong to the trace, or to one that it is in."""
    tracers = [*_waiting.tracers, mode.tracer]
    found: dict[int, Tensor] = {}
    for made in graphs:
        for node in made.graph.nodes:
            value = getattr(made, str(node.target), None) if node.op == "get_attr" else None
            if isinstance(value, Tensor) and any(value in t.tensor_table for t in tracers):
                found[id(value)] = value
    return list(found.values())


def _taking(function: Function, more: int) -> Function:
    """A function that takes what it captures as operands too: by them a trace knows it."""

    def taking(*operands: Any) -> Any:
        return function(*operands[: len(operands) - more])

    return taking


def _forget(mode: ProxyTorchDispatchMode, graph: GraphModule) -> None:
    """Take a graph off the module that is being traced."""
    root: Any = mode.tracer.root
    for name in [name for name, child in root.named_children() if child is graph]:
        delattr(root, name)


def _apart(function: Function, operands: Sequence[Any], held: int) -> list[Any]:
    """The operands so that each has a placeholder of its own, which nothing else is taken for.

    There is an alias for a tensor that is there already, and a copy of one that the function
    captures, too: a loop carries on from it, and what is captured stays. held: how many there are
    at the end for what is captured; by these a trace knows it.
    """
    captured = {_place(t) for t in captured_tensors(function).values()}
    seen: set[int] = set()
    found = []
    for t in operands[: len(operands) - held]:
        again = isinstance(t, Tensor) and id(t) in seen
        seen.add(id(t))
        if isinstance(t, Tensor) and _place(t) in captured:
            with disable_proxy_modes_tracing(), AutoDispatchBelowAutograd():
                t = operators.clone(t)
        found.append(alias(t) if again else t)
    return [*found, *operands[len(operands) - held :]]


def _place(t: Tensor) -> tuple[int, int]:
    return id(t._storage), id(t.meta)


def record(
    mode: ProxyTorchDispatchMode,
    op: HigherOrderOperator,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Add the node of a call, run the call below the trace; its result."""
    call = _Arguments(mode)
    graph = mode.tracer.graph
    node = graph.create_node(
        "call_function", op, call.all_of(args), dict(call.named(kwargs)), op.name()
    )
    result = op(*args, **kwargs)
    track(mode.tracer, result, node)
    return result


def same_sizes(sizes: Sequence[Any]) -> bool:
    """Whether sizes, which may be symbols, are equal."""
    return all(size == sizes[0] for size in sizes[1:])


# --- checks -------------------------------------------------------------------------------------


def paths_of(tree: Any) -> list[str]:
    """How each leaf of a tree is reached, ``['a'][0]``."""
    return [keystr(path) for path, _ in tree_flatten_with_path(tree)[0]]


def check_same_tree(what: str, expected: TreeSpec, found: TreeSpec, op: str) -> None:
    """RuntimeError unless two trees have one structure."""
    if expected != found:
        raise RuntimeError(
            f"{op}: {what} must have the same pytree structure: expected {expected}, got {found}"
        )


def check_same_metadata(
    what: str, expected: Sequence[Any], found: Sequence[Any], paths: Sequence[str], op: str
) -> None:
    """RuntimeError unless tensors agree in shape, dtype and device; names the first leaf."""
    for path, a, b in zip(paths, expected, found, strict=True):
        if not isinstance(a, Tensor) or not isinstance(b, Tensor):
            if type(a) is not type(b):
                raise RuntimeError(f"{op}: {what}: leaf {path or 'itself'} is {a!r} and {b!r}")
            continue
        for name in ("shape", "dtype", "device"):
            if getattr(a, name) != getattr(b, name):
                raise RuntimeError(
                    f"{op}: expected {what} to have the same metadata, but leaf "
                    f"{path or 'itself'} differs in {name}: {a.meta} and {b.meta}"
                )
