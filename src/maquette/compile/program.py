"""A functional graph as a function of plain arrays: each operator's page runs on any namespace.

A graph without mutation needs no tensors: a node is the operator's array kernel on arrays, or, for
a view, what its shape rule says (`strided.py`). Results have the dtype and shape that the trace
found, and the values that a tensor shows: what waits to be conjugated or negated is computed. An
operator that is defined by others is traced and takes their place.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maquette.compile.errors import CompileError
from maquette.compile.strided import viewed
from maquette.compile.tracing import definition_of, functional_graph
from maquette.core.dtype import dtype, float32, float64
from maquette.core.meta import TensorMeta
from maquette.core.strides import contiguous_strides
from maquette.dispatch.forms import returns_of
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.matching import bind
from maquette.dispatch.tags import Tag
from maquette.fx.node import Node
from maquette.tensor.backend import Backend
from maquette.tensor.tensor import Tensor

Step = Callable[[Any, dict[Node, Any]], Any]


class ArrayProgram:
    """Nodes of a functional graph, run in order on arrays of a backend's namespace.

    inputs: the nodes that arrays are given for. outputs: the nodes, or None, whose arrays are the
    results. Nodes that no output needs are left out.
    """

    def __init__(self, inputs: Sequence[Node], outputs: Sequence[Node | None]) -> None:
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.nodes = _needed(set(inputs), [o for o in outputs if o is not None])
        self.steps = [(node, step_of(node)) for node in self.nodes]
        self.last_use = _last_uses(self.nodes, self.outputs)

    def __call__(self, backend: Backend, arrays: Sequence[Any]) -> list[Any]:
        """The results on arrays of a backend."""
        values: dict[Node, Any] = dict(zip(self.inputs, arrays))
        for node, step in self.steps:
            values[node] = step(backend, values)
            for used in self.last_use.get(node, ()):
                del values[used]
        return [None if o is None else values[o] for o in self.outputs]

    def refusals(self, backend: Backend, probe: Callable[..., Any]) -> list[str]:
        """What a backend cannot run, a line an operator: tried on stand-ins, node by node."""
        found: dict[str, str] = {}
        for node, step in self.steps:
            reason = probe(backend, node, step)
            if reason is not None:
                found.setdefault(str(node.target), reason)
        return [f"{name}: {reason}" for name, reason in found.items()]


def _needed(inputs: set[Node], outputs: Sequence[Node]) -> list[Node]:
    """The nodes that outputs need, in order, without the inputs."""
    needed: set[Node] = set()
    waiting = list(outputs)
    while waiting:
        node = waiting.pop()
        if node in needed or node in inputs:
            continue
        if node.op in ("placeholder", "get_attr"):
            raise AssertionError(f"{node} is no input of this part of the program")
        needed.add(node)
        waiting += node.all_input_nodes
    return [n for n in outputs[0].graph.nodes if n in needed] if outputs else []


def _last_uses(nodes: Sequence[Node], outputs: Sequence[Node | None]) -> dict[Node, list[Node]]:
    """After which node each value is used no more, so that memory can be given back."""
    last: dict[Node, Node] = {}
    for node in nodes:
        for used in node.all_input_nodes:
            last[used] = node
    found: dict[Node, list[Node]] = {}
    for used, node in last.items():
        if used not in outputs:
            found.setdefault(node, []).append(used)
    return found


# --- steps ----------------------------------------------------------------------------


def step_of(node: Node) -> Step:
    """What a node computes from the arrays of others."""
    if node.target is operator.getitem:
        source, index = node.args
        return lambda backend, values: values[source][index]
    op = node.target
    if not isinstance(op, OpOverload):
        raise CompileError(
            f"{op} takes functions, and the engine runs operators only; use it outside of what is "
            f"compiled, or write its loop or branch in place"
        )
    params = _parameters(op, node)
    value = node.meta["val"]
    if op.array_kernel is not None:
        return KernelStep(op, params, metas_of(value))
    if op.mutating_link is not None:
        return _resized_step(op, op.mutating_link, params, metas_of(value))
    views = any(kind == "view" for kind, _ in returns_of(op))
    if op.shape_rule is not None and (views or _shows_its_operand(op, params, value)):
        return _view_step(op, params, value)
    return _composite_step(op, node)


def _shows_its_operand(op: OpOverload, params: Sequence[Any], value: Any) -> bool:
    """Whether an operator without a kernel gives its operand's elements, as `lift` does."""
    operand = next((p for p in params if isinstance(p, Node)), None)
    if definition_of(op) is not None or operand is None:
        return False
    return bool(operand.meta["val"].meta.numel == sum([m.numel for m in _flat(metas_of(value))]))


def _flat(metas: Any) -> list[TensorMeta]:
    return list(metas) if isinstance(metas, list) else [metas]


def metas_of(value: Any) -> Any:
    """The metas of a traced value, in its structure."""
    if isinstance(value, Tensor):
        return value.meta
    if isinstance(value, (tuple, list)):
        return [metas_of(v) for v in value]
    return None


def _parameters(op: OpOverload, node: Node) -> list[Any]:
    """All schema parameters, canonical, with nodes in the place of tensors."""
    fakes = _with_values(node.args), _with_values(node.kwargs)
    bound = list(bind(op._schema, *fakes, takes_numbers=op.takes_numbers))
    for i, argument in enumerate(op._schema.arguments):
        given = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
        if _has_node(given):
            bound[i] = tuple(given) if isinstance(given, (list, tuple)) else given
    return bound


def _with_values(value: Any) -> Any:
    if isinstance(value, Node):
        return value.meta["val"]
    if isinstance(value, (tuple, list)):
        return [_with_values(v) for v in value]
    if isinstance(value, dict):
        return {k: _with_values(v) for k, v in value.items()}
    return value


def _has_node(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_has_node(v) for v in value)
    return isinstance(value, Node)


def _filled(params: Sequence[Any], values: dict[Node, Any]) -> list[Any]:
    found = []
    for p in params:
        if isinstance(p, Node):
            p = values[p]
        elif isinstance(p, tuple) and _has_node(p):
            p = [values[v] if isinstance(v, Node) else v for v in p]
        found.append(p)
    return found


class KernelStep:
    """An operator's array kernel with its parameters, nodes in the place of arrays.

    metas: what the trace found for the results, in their structure.
    """

    def __init__(self, op: OpOverload, params: list[Any], metas: Any) -> None:
        assert op.array_kernel is not None
        self.op = op
        self.kernel = op.array_kernel
        self.params = params
        self.metas = metas

    def __call__(self, backend: Backend, values: dict[Node, Any]) -> Any:
        result = self.kernel(backend.namespace, *_filled(self.params, values))
        return self.settled(backend, result)

    @property
    def ufunc(self) -> tuple[str, list[Any]] | None:
        """The namespace's function that the kernel comes to here, and its operands.

        None where there is none, and where something is promoted.
        """
        known = self.op.facts.ufunc
        if known is None or known[0] is not self.kernel or not isinstance(self.metas, TensorMeta):
            return None
        count = getattr(np, known[1]).nin
        operands, rest = self.params[:count], self.op._schema.arguments[count:]
        kind = self.metas.dtype
        if kind not in (float32, float64) or not all(_is_of(kind, p) for p in operands):
            return None
        if not isinstance(operands[0], Node) or self.params[count:] != [a.default for a in rest]:
            return None
        return known[1], operands

    def settled(self, backend: Backend, result: Any) -> Any:
        """A kernel's result as arrays with the dtypes of the trace."""
        return _settled(backend, self.op, self.metas, result)


def _is_of(kind: dtype, operand: Any) -> bool:
    """Whether an operand is an array of a type, or a number that promotes nothing."""
    if isinstance(operand, Node):
        value = operand.meta["val"]
        return isinstance(value, Tensor) and value.meta.dtype is kind and value.meta.ndim > 0
    return type(operand) in (int, float)


def _settled(backend: Backend, op: OpOverload, metas: Any, result: Any) -> Any:
    """A kernel's arrays with the dtypes of the trace."""
    if isinstance(metas, TensorMeta):
        array = backend.as_array(result)
        if tuple(array.shape) != tuple(metas.shape):
            raise CompileError(
                f"{op}: its shape rule says {metas}, its kernel gave an array of shape "
                f"{tuple(array.shape)} on {backend.name}"
            )
        kind = metas.dtype.numpy
        return array if array.dtype == kind else array.astype(kind)
    if isinstance(metas, list):
        if result is None:
            return [None] * len(metas)
        return [_settled(backend, op, m, r) for m, r in zip(metas, result, strict=True)]
    return result


def _view_step(op: OpOverload, params: list[Any], found_value: Any) -> Step:
    """A view: the shape rule on row-major metas, laid over the values."""
    names = {a.name for a in op._schema.arguments}
    source = next(p for p in params if isinstance(p, Node))
    meta: TensorMeta = source.meta["val"].meta
    if "storage_offset" in names:
        return _strided_step(op, params, source)
    if source.meta["val"].is_conj() != _first(found_value).is_conj():
        return lambda backend, values: backend.namespace.conj(values[source])
    if source.meta["val"].is_neg() != _first(found_value).is_neg():
        return lambda backend, values: -values[source]
    if "stride" in names:  # a reshape; the strides follow
        shape = tuple(found_value.meta.shape)
        return lambda backend, values: values[source].reshape(shape)
    row_major = row_major_meta(meta)
    rule = op.shape_rule
    assert rule is not None
    given = [row_major if p is source else _meta_of_node(p) for p in params]
    made = rule(*given)

    def step(backend: Backend, values: dict[Node, Any]) -> Any:
        array = values[source]
        if isinstance(made, TensorMeta):
            return _seen(backend, array, made)
        return [_seen(backend, array, m) for m in made]  # type: ignore[attr-defined]

    return step


def _first(value: Any) -> Tensor:
    found: Tensor = value[0] if isinstance(value, (list, tuple)) else value
    return found


def _strided_step(op: OpOverload, params: list[Any], source: Node) -> Step:
    """A view of memory by sizes and strides: the memory is as its tensor's meta says."""
    meta: TensorMeta = source.meta["val"].meta
    order = _memory_order(op, source.name, meta)
    rule = op.shape_rule
    assert rule is not None
    made: Any = rule(*[_meta_of_node(p) for p in params])
    if made.offset < meta.offset:
        raise CompileError(
            f"{op} reads memory before its operand {source.name} ({meta}, offset {meta.offset}), "
            f"which a functional program does not have"
        )
    from_start = made.view(made.shape, made.strides, made.offset - meta.offset)

    def step(backend: Backend, values: dict[Node, Any]) -> Any:
        return viewed(backend.namespace, _in_order(values[source], order), from_start)

    return step


def _resized_step(op: OpOverload, mutating: OpOverload, params: list[Any], meta: Any) -> Step:
    """The functional form of what gives a tensor another size over its memory."""
    source, rule = params[0], mutating.shape_rule
    if rule is None or Tag.inplace_view not in mutating.tags:
        raise CompileError(
            f"{op} is {mutating} on copies, which writes to its operands; write what it does with "
            f"operators that mutate nothing"
        )
    order = _memory_order(op, source.name, source.meta["val"].meta)
    made = meta.view(meta.shape, meta.strides, 0)
    needed = made.storage_bytes // made.itemsize

    def step(backend: Backend, values: dict[Node, Any]) -> Any:
        xp, memory = backend.namespace, _in_order(values[source], order).reshape(-1)
        if memory.size < needed:
            more = xp.zeros((needed - memory.size,), memory.dtype)
            memory = xp.concatenate([memory, more])
        return viewed(xp, memory, made)

    return step


def _memory_order(op: OpOverload, name: str, meta: TensorMeta) -> list[int]:
    """The dims of a tensor from the outermost in memory; CompileError where it has gaps."""
    order = sorted(range(meta.ndim), key=lambda d: -meta.strides[d])
    expected = meta.numel
    for d in order:
        expected //= max(meta.shape[d], 1)
        if meta.shape[d] > 1 and meta.strides[d] != expected:
            raise CompileError(
                f"{op} reads memory as it is laid out, and {name} ({meta}, strides "
                f"{tuple(meta.strides)}) is not all of its memory; call contiguous() before it"
            )
    return order


def _in_order(array: Any, order: Sequence[int]) -> Any:
    return array if order == sorted(order) else array.transpose(order)


def row_major_meta(meta: TensorMeta) -> TensorMeta:
    """A meta with the same sizes, laid out row by row from the beginning."""
    return meta.view(meta.shape, contiguous_strides(meta.shape), 0)


def _meta_of_node(p: Any) -> Any:
    return p.meta["val"].meta if isinstance(p, Node) else p


def _seen(backend: Backend, array: Any, meta: TensorMeta) -> Any:
    if array.dtype != meta.dtype.numpy:  # view(dtype), view_as_real: other elements
        array = backend.seen_as(array, meta.dtype.numpy)
    return viewed(backend.namespace, array, meta)


def _composite_step(op: OpOverload, node: Node) -> Step:
    """An operator that others define: traced on the same metas, and run as they are."""
    definition = definition_of(op)
    if definition is None:
        raise CompileError(f"{op} has no kernel of arrays and no definition by other operators")
    params = _parameters(op, node)
    inputs = node.all_input_nodes
    single = isinstance(node.meta["val"], Tensor)

    def from_inputs(*tensors: Any) -> Any:
        return definition(*_filled(params, dict(zip(inputs, tensors))))

    traced = functional_graph(from_inputs, [n.meta["val"] for n in inputs])
    if any(n.target is op for n in traced.graph.nodes):
        raise CompileError(f"{op} is defined by a form of itself that mutates, not by a kernel")
    program = ArrayProgram(traced.placeholders, traced.outputs)

    def step(backend: Backend, values: dict[Node, Any]) -> Any:
        results = program(backend, [values[n] for n in inputs])
        return results[0] if single else results

    return step


__all__ = ["ArrayProgram", "KernelStep", "metas_of", "row_major_meta", "step_of"]
