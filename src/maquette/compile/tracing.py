"""A function of tensors as a functional graph: no views of what is written, no mutation.

Under the functional mode a user's mode rewrites what a graph could not say: operators that mutate
without saying so, and random numbers, which are drawn outside (`Draws`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from maquette.compile.errors import CompileError
from maquette.core.dtype import bool_
from maquette.core.meta import TensorMeta
from maquette.core.pytree import tree_flatten, tree_map_only
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.modes import TorchDispatchMode, disable_current_modes
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import ops
from maquette.dispatch.schemas.matching import bind
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.fake.detecting import detect_fake_mode
from maquette.fake.exceptions import DataDependentOutputException, DynamicOutputShapeException
from maquette.fake.mode import FakeTensorMode
from maquette.fx.graph import Graph
from maquette.fx.node import Node, map_arg
from maquette.fx.tracing.operator_tracing import make_fx, trace_call
from maquette.higher_order.common import FunctionalHop
from maquette.nn.base import Module
from maquette.tensor.tensor import Tensor
from maquette.tensor.up_to_date import SHOWN
from maquette.transforms.functional.contexts import PythonFunctionalizeAPI
from maquette.transforms.functional.mode import (
    FunctionalTensor,
    FunctionalTensorMode,
    functional_tensor,
)


@dataclass
class Draw:
    """A random operator of a program, to be called on the host: what it is called with."""

    op: OpOverload
    first: TensorMeta | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: int | None = None

    def numbers(self) -> Tensor:
        """The next numbers of the host's generator."""
        args = self.args
        if self.first is not None:
            like = ops.aten.ones.default(list(self.first.shape), dtype=self.first.dtype)
            args = (like, *args)
        drawn = self.op(*args, **self.kwargs)
        found: Tensor = drawn if self.result is None else drawn[self.result]
        return found


@dataclass
class Traced:
    """A graph, its placeholders, its outputs, flat, and the tensors or draws of its constants."""

    graph: Graph
    placeholders: list[Node]
    outputs: list[Node | Any]
    constants: list[tuple[Node, Tensor | Draw]] = field(default_factory=list)


_OF_DATA = (DataDependentOutputException, DynamicOutputShapeException)
_SAYING = {
    ops.aten.native_batch_norm.default: ops.aten._native_batch_norm_legit.default,
    ops.aten.native_batch_norm.out: ops.aten._native_batch_norm_legit.out,
}
"""For operators that mutate arguments in silence, those that say so."""
_LIFTING = (
    ops.aten.lift.default,
    ops.aten.lift_fresh.default,
    ops.aten.lift_fresh_copy.default,
)
"""What makes a number of the program a tensor of it."""


class _Rewriting(TorchDispatchMode):
    """Says in operators that functionalization knows what others do in silence.

    A random operator becomes a constant that stands for its numbers, and a `Draw`.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[tuple[Tensor, Draw]] = []
        self.captured: dict[int, tuple[Tensor, FunctionalTensor]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, OpOverload) and func not in _LIFTING:
            if func._schema.is_mutable:
                self._refuse_captured(func, args, kwargs)
            given: Any = tree_map_only(Tensor, self._functional, (args, kwargs))
            args, kwargs = given
        if func in _SAYING and args[5] and args[3] is not None:
            return _SAYING[func](*args, **kwargs)
        if isinstance(func, FunctionalHop):
            return self._of_functions(func, args, kwargs)
        if isinstance(func, OpOverload) and _is_defined_by_copies(func):
            defined = definition_of(func)
            if defined is not None:
                return defined(*bind(func._schema, args, kwargs, takes_numbers=func.takes_numbers))
        if isinstance(func, OpOverload) and draws(func, args, kwargs):
            return self._drawn(func, args, kwargs)
        return func(*args, **kwargs)

    def _functional(self, t: Any) -> Tensor:
        """A tensor of the program; one that it captures as one tensor, whose views are known."""
        if t.__class__ is not Tensor or t.fake_mode is not None:
            return t
        known = self.captured.get(id(t))
        if known is None:
            known = self.captured[id(t)] = t, functional_tensor(t)
        return known[1]

    def _refuse_captured(self, op: OpOverload, args: tuple[Any, ...], kwargs: Any) -> None:
        """CompileError where a tensor is written that is there already, not made by the program."""
        shown = {id(t._storage) for pair in self.captured.values() for t in pair}
        for i, argument in enumerate(op._schema.arguments):
            if not argument.is_write:
                continue
            given: list[Any] = tree_flatten(
                args[i] if i < len(args) else kwargs.get(argument.name)
            )[0]
            for t in given:
                plain = t.__class__ is Tensor and t.fake_mode is None
                if plain or (isinstance(t, Tensor) and id(t._storage) in shown):
                    raise _mutates_captured(f"{op} writes {argument.name}, {t.meta}")

    def _of_functions(self, op: FunctionalHop, args: tuple[Any, ...], kwargs: Any) -> Any:
        """An operator that takes functions as what it calls: loops of known length are unrolled."""
        with self:
            try:
                return op.straight(*args, **kwargs)
            except _OF_DATA as error:
                raise CompileError(
                    f"{op} does what data says, which a compiled program cannot: {error}. Count "
                    f"a loop's steps with a number, or call it outside of what is compiled"
                ) from error

    def _drawn(self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        written = op._schema.arguments[0].is_write if op._schema.arguments else False
        if op is ops.aten.native_dropout.default:
            return self._dropout(*args)
        others = tree_flatten((args[1:], kwargs))[0]
        by_shape = written or op._opname.endswith("_like") or op is ops.aten.bernoulli.p
        if any(isinstance(t, Tensor) for t in others) or (
            not by_shape and args and isinstance(args[0], Tensor)
        ):
            raise CompileError(
                f"{op} draws random numbers from a distribution that a tensor gives, which are "
                f"drawn outside of a compiled program; call it outside and pass its result in"
            )
        first = args[0].meta if args and isinstance(args[0], Tensor) else None
        if first is None or not written:
            meta = op(*args, **kwargs).meta
        else:
            meta = first
        constant = self._constant(meta)
        self.draws.append((constant, Draw(op, first, args[0 if first is None else 1 :], kwargs)))
        return args[0].copy_(constant) if written else constant.clone()

    def _dropout(self, input: Tensor, p: float, train: bool | None) -> Any:
        if train is False or p == 0:
            return input.clone(), ops.aten.ones_like.default(input, dtype=bool_)
        mask = self._constant(input.meta.like(dtype=bool_))
        draw = Draw(ops.aten.native_dropout.default, input.meta, (p, train), {}, 1)
        self.draws.append((mask, draw))
        return input * mask / (1 - p), mask.clone()

    def _constant(self, meta: TensorMeta) -> Tensor:
        with disable_current_modes():
            made: Tensor = ops.aten.zeros.default(list(meta.shape), dtype=meta.dtype)
        return made


def functional_graph(function: Callable[..., Any], tensors: Sequence[Any]) -> Traced:
    """Trace a function of tensors, on fakes; its result may be a tree of tensors.

    CompileError where data decides: a size, a branch, a number that is read.
    """
    context = PythonFunctionalizeAPI(FunctionalTensorMode())
    rewriting = _Rewriting()

    def rewritten(*given: Any) -> Any:
        with rewriting:
            return function(*given)

    try:
        # A mode without symbols for what only data decides.
        with detect_fake_mode(tensors) or FakeTensorMode(allow_non_fake_inputs=True):
            module = make_fx(context.functionalize(rewritten), tracing_mode="fake")(*tensors)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise CompileError(_needs_data(error)) from error
    except RuntimeError as error:
        if "get value out of a tracing tensor" in str(error):
            raise CompileError(_needs_data(error)) from error
        if "non-functional tensor" in str(error):
            raise _mutates_captured(str(error)) from error
        raise
    nodes = list(module.graph.nodes)
    placeholders = [n for n in nodes if n.op == "placeholder"]
    outputs = tree_flatten(nodes[-1].args[0])[0]
    draws = {id(t): draw for t, draw in rewriting.draws}
    constants = [(n, getattr(module, str(n.target))) for n in nodes if n.op == "get_attr"]
    return Traced(
        module.graph,
        placeholders,
        list(outputs),
        [(n, draws.get(id(t), t)) for n, t in constants],
    )


def _tell(t: Tensor, how: str) -> None:
    """Refuse what no operator tells a trace: memory that NumPy may mutate, `data` of a captured."""
    if not any(isinstance(mode, _Rewriting) for mode in tls.st.dispatch_modes):
        return
    if how == "shown":
        raise CompileError(
            f"the program asks for the memory of a tensor ({t.meta}; numpy() and DLPack do), where "
            f"a compiled one has no data and cannot see what is read or mutated. Leave that part "
            f"outside of what is compiled"
        )
    if not isinstance(t, FunctionalTensor) and t.fake_mode is None:
        raise _mutates_captured(f"it is {how}, {t.meta}")


SHOWN.append(_tell)


def _mutates_captured(what: str) -> CompileError:
    return CompileError(
        f"the program mutates a tensor that it captures, which is neither an argument nor held by "
        f"a module or an optimizer: {what}. Pass it as an argument, register it as a buffer, or "
        f"leave that part outside of what is compiled"
    )


def graph_of_call(function: Callable[..., Any], tensors: Sequence[Tensor]) -> Traced:
    """`functional_graph` by one call on fakes, which is functionalized only if it mutates or draws.

    A call of 2 operators that do neither: 0.25 ms instead of 1.5 (timeit). Errors are those of the
    operators, without advice.
    """
    tracer, placeholders, outputs = trace_call(
        function, tensors, FakeTensorMode(allow_non_fake_inputs=True)
    )
    nodes = list(tracer.graph.nodes)
    if not all(map(_only_computes, nodes)):
        return functional_graph(_Replay(tracer.root, placeholders, outputs), tensors)
    constants = [(n, getattr(tracer.root, str(n.target))) for n in nodes if n.op == "get_attr"]
    return Traced(tracer.graph, placeholders, outputs, constants)


def _only_computes(node: Node) -> bool:
    """Whether a node is what it is in a functional graph: it mutates nothing and draws nothing."""
    op = node.target
    if not isinstance(op, OpOverload):
        return node.op != "call_function" or op is operator.getitem
    if op._schema.is_mutable or Tag.nondeterministic_seeded in op.tags or op in _SAYING:
        return False
    return not _is_defined_by_copies(op)


class _Replay:
    """A graph without output as a function, for another trace."""

    def __init__(self, root: Module, placeholders: list[Node], outputs: list[Any]) -> None:
        self.root = root
        self.placeholders = placeholders
        self.outputs = outputs

    def __call__(self, *tensors: Any) -> list[Any]:
        values: dict[Node, Any] = dict(zip(self.placeholders, tensors))
        for node in self.placeholders[0].graph.nodes:
            if node.op == "get_attr":
                values[node] = getattr(self.root, str(node.target))
            elif node.op == "call_function":
                args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
                assert callable(node.target)
                values[node] = node.target(*args, **kwargs)
        return [values[o] if isinstance(o, Node) else o for o in self.outputs]


def _needs_data(error: BaseException) -> str:
    return (
        "the program asks what its data is (a number read with .item() or float(), a branch "
        f"on a tensor, a result whose size data decides), which a compiled one cannot: {error}. "
        "Leave that part outside of what is compiled"
    )


def _is_defined_by_copies(op: OpOverload) -> bool:
    """Whether the functional form of an operator is the operator itself on copies."""
    twin = op.functional_link
    return twin is not None and twin.mutating_link is op


def definition_of(op: OpOverload) -> Callable[..., Any] | None:
    """The function of tensors that defines an operator by others; None if there is none."""
    for key in (
        DispatchKey.CompositeExplicitAutograd,
        DispatchKey.CompositeExplicitAutogradNonFunctional,
        DispatchKey.CompositeImplicitAutograd,
    ):
        stack = op._kernels.get(key)
        if stack and stack[-1].python is not None and not stack[-1].of_arrays:
            return stack[-1].python
    return None


def draws(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call draws random numbers: attention does with a dropout only."""
    if Tag.nondeterministic_seeded not in op.tags:
        return False
    for at, argument in enumerate(op._schema.arguments):
        if argument.name in ("dropout_p", "dropout"):
            default = argument.default_value if argument.has_default_value() else 0.0
            given = args[at] if at < len(args) else kwargs.get(argument.name, default)
            return bool(given)
    return True


__all__ = ["Draw", "Traced", "definition_of", "draws", "functional_graph", "graph_of_call"]
