"""Symbols in a trace: which node gives a size, and nodes for expressions of sizes.

A symbolic number is made of symbols, and each of these is a size, stride or offset of some tensor
in the graph, or what an operator such as ``item`` gave. The one idea: nothing is recorded while the
program computes with sizes; where one becomes the argument of a node, nodes for its expression are
added, once for each expression.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence, Sized
from typing import TYPE_CHECKING, Any, NamedTuple

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
        self._nodes: dict[Any, Node] = {}  # by expression
        self._sources: dict[Any, _Source] = {}  # by expression, what no node gives yet
        # How many symbols had been replaced when the sizes of a meta were noted.
        self._noted: dict[TensorMeta, int] = {}
        self._replacements: Sized = ()

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
        made = self._node_of(_expression(number))
        if made is not None:
            made.meta.setdefault("val", number)
        return made

    def _node_of(self, expression: Any) -> Node | None:
        known = self._nodes.get(expression)
        if known is None:
            source = self._sources.get(expression)
            known = self._computed(expression) if source is None else self._asked(source)
            if known is not None:
                self._nodes[expression] = known
        return known

    def _asked(self, source: _Source) -> Node:
        assert self.graph is not None
        name = str(source.query.__name__).replace(".", "_").removesuffix("_default")
        # Where a tensor is made its size may be asked for, whatever is traced now.
        made = self.graph.call_function(source.query, source.args, name=name)
        made.meta["val"] = source.number
        return made

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
        function = _FUNCTIONS.get(getattr(atom, "func", ""))
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


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Max": max,
    "Min": min,
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "PowByNatural": operator.pow,
    "FloatPow": operator.pow,
    "ToFloat": float,
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
"""What computes a call in an expression, on plain numbers."""


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


def _constant(expression: Any) -> Any:
    return getattr(expression, "constant", None)
