"""Symbols in a trace: which node gives a size, and nodes for expressions of sizes.

A symbolic number is made of symbols, and each of these is a size, stride or offset of some tensor
in the graph, or what an operator such as ``item`` gave. The one idea: nothing is recorded while the
program computes with sizes; where one becomes the argument of a node, nodes for its expression are
added, once for each expression: the operations by which the program came to it, which its
environment remembers, or else what the simplified expression says.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence, Sized
from typing import TYPE_CHECKING, Any, NamedTuple

import maquette.symbolic as symbolic  # its modules are loaded when a name is asked for
from maquette.core.meta import TensorMeta
from maquette.core.symbols import node_of
from maquette.dispatch.registry import ops
from maquette.dispatch.tls import tls
from maquette.fx.node import Node
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fx.graph import Graph

aten = ops.aten


class SymbolNodes:
    """The symbolic numbers of one trace."""

    def __init__(self) -> None:
        self.graph: Graph | None = None
        # Where a number is asked for that nothing in the graph gives: a trace that this one is in.
        self.elsewhere: Callable[[Any], Node | None] | None = None
        self._nodes: dict[Any, Node] = {}  # by expression
        self._sources: dict[Any, _Source] = {}  # by expression, what no node gives yet
        # How many symbols had been replaced when the sizes of a meta were noted.
        self._noted: dict[TensorMeta, int] = {}
        self._replacements: Sized = ()
        # By expression, the first operation that gave it; and how many operations were read.
        self._operations: dict[Any, tuple[Any, ...]] = {}
        self._read = 0

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def note(self, number: Any, node: Node) -> None:
        """Say that ``node`` gives a symbolic number."""
        self._nodes.setdefault(_expression(number), node)

    def note_sizes(self, t: Tensor, node: Node) -> None:
        """Say that ``node`` gives a tensor, whose sizes, strides and offset may be symbols."""
        meta = t.meta
        # The first node that gives a size counts. Others of the meta say nothing new, unless
        # symbols were replaced since: 165 to 119 k instructions a node (callgrind).
        if self._noted.get(meta, -1) == len(self._replacements) or not meta.is_symbolic:
            return
        for dim, size in enumerate(meta.shape):
            if size.__class__ is not int:
                self._note_source(size, aten.sym_size.int, (node, dim))
        for dim, stride in enumerate(meta.strides):
            if stride.__class__ is not int:
                self._note_source(stride, aten.sym_stride.int, (node, dim))
        if meta.offset.__class__ is not int:
            self._note_source(meta.offset, aten.sym_storage_offset.default, (node,))
        environment: Any = tls.st.fake_mode
        facts = getattr(getattr(environment, "shape_env", None), "facts", None)
        if facts is not None:
            if self._replacements is not facts.replacements:
                self._noted.clear()
            self._replacements = facts.replacements
            self._noted[meta] = len(facts.replacements)

    def _note_source(self, number: Any, query: Any, args: tuple[Any, ...]) -> None:
        expression = _expression(number)
        if expression not in self._nodes:
            self._sources.setdefault(expression, _Source(number, query, args))

    def find(self, number: Any) -> Node | None:
        """The node that gives a symbolic number, made if need be; None where nothing gives it."""
        expression = _expression(number)
        if expression not in self._nodes:
            self._read_operations(node_of(number))
        made = self._node_of(expression)
        if made is None and self.elsewhere is not None:
            made = self.elsewhere(number)
            if made is not None:
                self._nodes[expression] = made
        if made is not None:
            made.meta.setdefault("val", number)
        return made

    def _node_of(self, expression: Any) -> Node | None:
        known = self._nodes.get(expression)
        if known is None:
            source = self._sources.get(expression)
            if source is not None:
                known = self._asked(source)
            else:
                known = self._as_written(expression) or self._computed(expression)
            if known is not None:
                self._nodes[expression] = known
        return known

    def _asked(self, source: _Source) -> Node:
        assert self.graph is not None
        name = str(source.query.__name__).replace(".", "_")
        # Where a tensor is made its size may be asked for, whatever is traced now.
        made = self.graph.call_function(source.query, source.args, name=name)
        made.meta["val"] = source.number
        return made

    # --- operations of the program ---------------------------------------------------

    def _read_operations(self, node: Any) -> None:
        """Read what the environment remembers to have computed since this was last asked."""
        memory = getattr(node, "results", {})
        if len(memory) == self._read:
            return  # to pass over what was read takes as long as to read it
        for operation, result in itertools.islice(memory.items(), self._read, None):
            if node_of(result) is not None:
                self._operations.setdefault(_expression(result), operation)
        self._read = len(memory)

    def _as_written(self, expression: Any) -> Node | None:
        """The operation that gave an expression; None where none did, or an operand has no node."""
        # Popped: no expression is computed by way of itself.
        operation = self._operations.pop(expression, None)
        if operation is None:
            return None
        mark, operands = operation[0], [o for o in operation[1:] if o is not float]
        function = _operations().get(mark)
        if mark == "rsub" and operands[1] == 0:
            function, operands = operator.neg, operands[:1]
        elif function is None and mark.startswith("r"):
            function = _operations().get(mark[1:])
            operands = [operands[1], operands[0]]
        if function is None:
            return None
        nodes = [self._operand(operand) for operand in operands]
        if None in nodes:
            return None
        if len(nodes) == 2 and float in (kinds := [_kind(o) for o in operands]):
            # An integer beside a float is made one first.
            nodes = [
                self._call(symbolic.sym_float, n) if k is int and isinstance(n, Node) else n
                for n, k in zip(nodes, kinds)
            ]
        return self._call(function, *nodes)

    def _operand(self, operand: Any) -> Any:
        """The node of an operand's node in its environment; a plain number itself."""
        if isinstance(operand, (int, float)):
            return operand
        expression = getattr(operand, "current", None) or operand.intern_key()
        constant = _constant(expression)
        return self._node_of(expression) if constant is None else constant

    # --- expressions -----------------------------------------------------------------

    def _computed(self, expression: Any) -> Node | None:
        """Nodes that compute an expression of what nodes give; None where a part has no node."""
        if hasattr(expression, "lhs"):
            return self._joined(_COMPARISONS[expression.op], (expression.lhs, expression.rhs))
        if getattr(expression, "args", None):
            return self._joined(_JUNCTIONS[expression.func], expression.args)
        return self._polynomial(expression)

    def _joined(self, function: Callable[..., Any], parts: Sequence[Any]) -> Node | None:
        """The function of the parts: of all of them, or of two and then of the result and more."""
        constants = [_constant(part) for part in parts]
        nodes = [self._node_of(p) if c is None else c for p, c in zip(parts, constants)]
        if None in nodes:
            return None
        if len(nodes) == 1:
            return self._call(function, *nodes)
        made = nodes[0]
        for node in nodes[1:]:
            made = self._call(function, made, node)
        return made if isinstance(made, Node) else None

    def _polynomial(self, expression: Any) -> Node | None:
        total: Any = None
        for atoms, factor in getattr(expression, "terms", {}).items():
            term: Any = None
            for atom in atoms:
                part = self._atom(atom)
                if part is None:
                    return None
                term = part if term is None else self._call(operator.mul, term, part)
            if term is None:
                term = factor
            elif factor != 1:
                term = self._call(operator.mul, factor, term)
            total = term if total is None else self._call(operator.add, total, term)
        return total if isinstance(total, Node) else None

    def _atom(self, atom: Any) -> Node | None:
        alone = atom.poly
        if alone in self._nodes or alone in self._sources:
            return self._node_of(alone)
        function = _functions().get(getattr(atom, "func", ""))
        if function is None:
            return None
        args = [_constant(arg) for arg in atom.args]
        nodes = [self._node_of(a) if c is None else c for a, c in zip(atom.args, args)]
        if None in nodes:
            return None
        made = self._nodes[alone] = self._call(function, *nodes)
        return made

    def _call(self, function: Callable[..., Any], *args: Any) -> Node:
        assert self.graph is not None
        return self.graph.call_function(function, args)


class _Source(NamedTuple):
    """Where a symbolic number is to be had: what is called, with what."""

    number: Any
    query: Any
    args: tuple[Any, ...]


@functools.cache
def _functions() -> dict[str, Callable[..., Any]]:
    """What computes a call in an expression, on plain numbers."""
    return {
        "FloorDiv": operator.floordiv,
        "CleanDiv": operator.floordiv,
        "Mod": operator.mod,
        "PythonMod": operator.mod,
        "Max": symbolic.sym_max,
        "Min": symbolic.sym_min,
        "IntTrueDiv": operator.truediv,
        "FloatTrueDiv": operator.truediv,
        "PowByNatural": operator.pow,
        "FloatPow": operator.pow,
        "ToFloat": symbolic.sym_float,
        "TruncToInt": math.trunc,
        "FloorToInt": math.floor,
        "CeilToInt": math.ceil,
        "RoundToInt": round,
        "Abs": abs,
        "LShift": operator.lshift,
        "RShift": operator.rshift,
        "BitwiseFn_bitwise_and": operator.and_,
        "BitwiseFn_bitwise_or": operator.or_,
        "BitwiseFn_bitwise_xor": operator.xor,
    }


@functools.cache
def _operations() -> dict[str, Callable[..., Any]]:
    """What environments call their operations (`maquette.symbolic.numbers`)."""
    return {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "floordiv": operator.floordiv,
        "mod": operator.mod,
        "truediv": operator.truediv,
        "pow": operator.pow,
        "lshift": operator.lshift,
        "rshift": operator.rshift,
        "and": operator.and_,
        "or": operator.or_,
        "xor": operator.xor,
        "eq": operator.eq,
        "ne": operator.ne,
        "lt": operator.lt,
        "le": operator.le,
        "gt": operator.gt,
        "ge": operator.ge,
        "max": symbolic.sym_max,
        "min": symbolic.sym_min,
        "not": symbolic.sym_not,
        "ite": symbolic.sym_ite,
        "ToFloat": symbolic.sym_float,
        "TruncToInt": math.trunc,
        "FloorToInt": math.floor,
        "CeilToInt": math.ceil,
        "RoundToInt": round,
        "Abs": operator.abs,
    }


_COMPARISONS: dict[str, Callable[..., Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_JUNCTIONS: dict[str, Callable[..., Any]] = {
    "And": operator.and_,
    "Or": operator.or_,
    "Not": operator.not_,
}
"""What computes a condition, on plain numbers and bools."""


def _expression(number: Any) -> Any:
    """A symbolic number's expression as it is known now; equal ones are one object."""
    node: Any = node_of(number)
    assert node is not None, f"expected a symbolic number, got {number!r}"
    return getattr(node, "current", None) or node.intern_key()


def _kind(operand: Any) -> type:
    """The kind of a plain number, or of that a node of an environment stands for."""
    kind: type = operand.__class__ if isinstance(operand, (int, float)) else operand.pytype
    return kind


def _constant(expression: Any) -> Any:
    return getattr(expression, "constant", None)
