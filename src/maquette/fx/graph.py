"""`Graph`: the nodes of a function in order, and how they are added, found, copied and removed.

A graph is a ring of nodes that begins and ends at a hidden root. What one node is, `node.py` says;
how a graph is written as Python, `codegen.py`; what a whole graph is, `checking.py`.
The one idea: a new node goes before the *insert point*, which is the end unless an
`inserting_before` block is open.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from maquette.fx import checking
from maquette.fx.codegen import (  # noqa: F401  # by PyTorch's name for this module
    CodeGen,
    PythonCode,
    _custom_builtins,
    _CustomBuiltin,
    _register_custom_builtin,
)
from maquette.fx.compatibility import compatibility
from maquette.fx.magic import (  # noqa: F401  # by PyTorch's name for this module
    inplace_methods,
    magic_methods,
    reflectable_magic_methods,
)
from maquette.fx.names import Namespace
from maquette.fx.node import Argument, Node, Target, map_arg, target_text
from maquette.fx.pytree_codegen import PyTreeCodeGen, _PyTreeCodeGen, _PyTreeInfo  # noqa: F401

if TYPE_CHECKING:
    from maquette.fx.graph_module import GraphModule

_Namespace = Namespace
_new: Any = object.__new__
_GAP = 1 << 20  # between the labels of neighbours, so that nodes can come between them
_MAGIC = re.compile(r"^__(.+)__$")


class NodeList:
    """The nodes of a graph in order; nodes may be added and erased while it is walked."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        assert direction in ("_next", "_prev")
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        if self.direction == "_next":
            node = root._next
            while node is not root:
                if not node._erased:
                    yield node
                node = node._next
        else:
            node = root._prev
            while node is not root:
                if not node._erased:
                    yield node
                node = node._prev

    def __reversed__(self) -> NodeList:
        return NodeList(self.graph, "_prev" if self.direction == "_next" else "_next")

    def __contains__(self, node: object) -> bool:
        return isinstance(node, Node) and node.graph is self.graph and not node._erased


_node_list = NodeList


class _InsertPoint:
    """Where new nodes go, for a block."""

    def __init__(self, graph: Graph, before: Node) -> None:
        self.graph = graph
        self.outer = graph._insert_before
        graph._insert_before = before

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.graph._insert_before = self.outer


@compatibility(is_backward_compatible=True)
class Graph:
    """A function as nodes in the order in which they run; `GraphModule` runs it.

    >>> from maquette import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_method("relu", (x,)))
    >>> print(graph.python_code("self").src.strip())
    def forward(self, x):
        relu = x.relu();  x = None
        return relu
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Any] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert_before = self._root
        self._len = 0
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._owners = 0
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._replace_hooks: list[Callable[..., object]] = []
        self._create_node_hooks: list[Callable[[Node], object]] = []
        self._erase_node_hooks: list[Callable[[Node], object]] = []
        self._deepcopy_hooks: list[Callable[..., object]] = []

    @property
    def owning_module(self) -> Any:
        """The module that the graph belongs to, or None."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> NodeList:
        """The nodes in order; `reversed` works too."""
        return NodeList(self)

    # --- the ring --------------------------------------------------------------------

    def _link(self, before: Node, x: Node) -> None:
        """Put ``x``, wherever it is, after the node ``before``."""
        x._prev._next, x._next._prev = x._next, x._prev
        after = before._next
        before._next = after._prev = x
        x._prev, x._next = before, after
        x._place = self._label(before, after)

    def _label(self, before: Node, after: Node) -> int:
        """A number between those of two neighbours, by which nodes are compared."""
        low = before._place
        if after is self._root:
            return low + _GAP
        high = after._place
        if high - low > 1:
            return (low + high) // 2
        label = 0
        node = self._root._next
        while node is not self._root:  # no number is left between: number all anew
            label += _GAP
            node._place = label
            node = node._next
        return before._next._place

    # --- making nodes ----------------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """A new node at the insert point; see `Node` for what ``op`` and ``target`` may be.

        name: what its variable is called, as nearly as names are free.
        """
        args = () if args is None else args
        kwargs = {} if kwargs is None else kwargs
        assert isinstance(args, tuple), f"args must be a tuple, got {type(args).__name__}"
        assert isinstance(kwargs, dict), f"kwargs must be a dict, got {type(kwargs).__name__}"
        candidate = name if name is not None else self._target_to_str(target)
        node = Node(self, "", op, target, args, kwargs, type_expr)
        node.name = self._graph_namespace.create_name(candidate, None)
        self._add(node)
        return node

    def add_call(
        self,
        target: Callable[..., Any],
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        inputs: Iterable[Node],
        candidate: str,
    ) -> Node:
        """`create_node` of a call of arguments that nobody changes; ``inputs`` are their nodes.

        What a trace makes by the thousand: 5 us less, as nothing looks into the arguments. Its
        ``meta`` is empty unless ``_late_meta`` is assigned. candidate: the name that it asks for.
        """
        names = self._graph_namespace
        last = names._last.get(candidate)
        # As `Namespace.create_name` does where it gave this name before, without the call.
        if last is None or (name := f"{candidate}_{last + 1}") in names._used:
            name = names.create_name(candidate, None)
        elif candidate in names._used and not candidate[-1].isdigit():
            names._last[candidate] = last + 1
            names._used.add(name)
        else:
            name = names.create_name(candidate, None)
        node = _new(Node)
        node.graph = self
        node.name = name
        node.op = "call_function"
        node.target = target
        node._args = args
        node._kwargs = kwargs
        node.type = node._repr_fn = node._users = None
        node._erased = False
        node._late_meta = ()
        for used in inputs:
            used._note_user(node)
        root = self._root
        if self._insert_before is not root or self._create_node_hooks:
            node._prev = node._next = node
            self._add(node)
            return node
        last_node = root._prev
        last_node._next = root._prev = node
        node._prev, node._next = last_node, root
        node._place = last_node._place + _GAP
        self._len += 1
        return node

    def _add(self, node: Node) -> None:
        """Put a new node at the insert point."""
        if self._insert_before is self._root:  # `_link` at the end, where most nodes go
            last = self._root._prev
            last._next = self._root._prev = node
            node._prev, node._next = last, self._root
            node._place = last._place + _GAP
        else:
            self._link(self._insert_before._prev, node)
        self._len += 1
        for hook in self._create_node_hooks:
            hook(node)

    def _target_to_str(self, target: Target) -> str:
        """The name that a node of this target asks for."""
        if callable(target):
            name = getattr(target, "__name__", type(target).__name__)
        else:
            name = target
            magic = _MAGIC.match(name)
            if magic is not None:
                name = magic[1]
        return snake_case(name)

    @compatibility(is_backward_compatible=True)
    def placeholder(
        self,
        name: str,
        type_expr: Any | None = None,
        default_value: Any = inspect.Signature.empty,
    ) -> Node:
        """An input called ``name``, after the inputs there are; ``*name`` takes the rest.

        default_value: what it is if it is not given; an input that has none must be given.
        """
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Fetch the attribute at a path of the module, ``layers.0.weight``."""
        if self.owning_module and not _has_attribute(self.owning_module, qualified_name):
            warnings.warn(
                f"Attempted to insert a get_attr Node with no underlying reference in the owning "
                f"GraphModule! Call GraphModule.add_submodule to add the necessary submodule, "
                f"GraphModule.add_parameter to add the necessary Parameter, or "
                f"nn.Module.register_buffer to add the necessary buffer: {qualified_name}",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Call the submodule at a path."""
        if self.owning_module and not _has_attribute(self.owning_module, module_name):
            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning "
                f"GraphModule! Call GraphModule.add_submodule to add the necessary submodule: "
                f"{module_name}",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Call a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Call a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    @compatibility(is_backward_compatible=True)
    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """Return ``result``, in which nodes stand for what they compute."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    # --- where new nodes go ----------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Put new nodes before ``n`` (None: at the beginning): for a block, or from now on."""
        if n is None:
            return self.inserting_after(self._root)
        assert n.graph is self, "Node to insert before is not in graph."
        return _InsertPoint(self, n)

    @compatibility(is_backward_compatible=True)
    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Put new nodes after ``n`` (None: at the end): for a block, or from now on."""
        if n is None:
            return self.inserting_before(self._root)
        assert n.graph is self, "Node to insert after is not in graph."
        return _InsertPoint(self, n._next)

    @property
    def _insert(self) -> Callable[[Node], None]:
        return self._insert_before.prepend

    # --- copying, finding and removing -----------------------------------------------

    @compatibility(is_backward_compatible=True)
    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x
    ) -> Node:
        """A node like one of another graph; ``arg_transform`` gives its arguments in this one."""
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        assert isinstance(args, tuple)
        assert isinstance(kwargs, dict)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    @compatibility(is_backward_compatible=True)
    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Argument | None:
        """Copy all nodes of ``g`` here but its output; what ``g`` returns, in this graph's nodes.

        val_map: the node here for a node there, which grows; a node in it already is not copied.
        return_output_node: give the pair of that result and the output node of ``g``.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls)
        memo[id(self)] = made
        made._codegen = copy.deepcopy(self._codegen)
        made._tracer_extras = self._tracer_extras
        val_map: dict[Node, Node] = {}
        copied = made.graph_copy(self, val_map, return_output_node=True)
        memo.update({id(old): new for old, new in val_map.items()})
        if copied is not None:
            result, old_output = copied
            output = made.output(result, type_expr=old_output.type)
            output.meta = copy.copy(old_output.meta)
            memo[id(old_output)] = output
        return made

    @compatibility(is_backward_compatible=True)
    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that nothing uses; RuntimeError where something does."""
        if len(to_erase.users) > 0:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in self._erase_node_hooks:
            hook(to_erase)
        if self._insert_before is to_erase:
            self._insert_before = to_erase._next
        # Its own links stay, so that a walk that stands on it goes on.
        to_erase._prev._next, to_erase._next._prev = to_erase._next, to_erase._prev
        to_erase._erased = True
        self._len -= 1
        to_erase._set_arguments((), {})

    @compatibility(is_backward_compatible=False)
    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of an op, and a target where that decides: of calls and attributes."""
        if op == "call_function" and target is None:
            raise AssertionError("find_nodes(op='call_function') needs a target")
        return [
            n
            for n in self.nodes
            if n.op == op and (target is None or n.target is target or n.target == target)
        ]

    @compatibility(is_backward_compatible=False)
    def output_node(self) -> Node:
        """The node that returns the result."""
        found = next(iter(reversed(self.nodes)))
        assert found.op == "output", f"the last node of the graph, {found}, is no output"
        return found

    # --- checking and cleaning -------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def lint(self) -> None:
        """Check that the graph is whole; RuntimeError (or ValueError) says what is not.

        Nodes are in order, names are used once, nodes know their users, and attributes and
        submodules are there.
        """
        checking.lint(self)

    @compatibility(is_backward_compatible=True)
    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove nodes that nothing uses and that do nothing else; whether there were any.

        is_impure_node: says which nodes do something else, instead of `Node.is_impure`.
        """
        return checking.eliminate_dead_code(self, is_impure_node)

    # --- as Python -------------------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """The graph as a Python function, and the global names that it needs.

        root_module: what the function calls its module, ``self``. verbose: with shapes and the
        places in the program that nodes come from.
        """
        namespace = Namespace()
        saved = [(node, node._repr_fn) for node in self.nodes]
        repr_fn = lambda n: namespace.create_name(n.name, n)  # noqa: E731
        for node, _ in saved:
            node._repr_fn = repr_fn
        try:
            return self._codegen._gen_python_code(
                self.nodes,
                root_module,
                namespace,
                verbose=verbose,
                include_stride=include_stride,
                include_device=include_device,
                colored=colored,
                expanded_def=expanded_def,
                record_func=record_func,
            )
        finally:
            for node, before in saved:
                node._repr_fn = before

    @compatibility(is_backward_compatible=False)
    def set_codegen(self, codegen: CodeGen) -> None:
        """Write the graph as Python in another way."""
        self._codegen = codegen

    @compatibility(is_backward_compatible=False)
    def on_generate_code(
        self, make_transformer: Callable[[Callable[..., Any] | None], Callable[..., Any]]
    ) -> Any:
        """Change the lines of generated code before they are put together.

        make_transformer: given the change there is (or None), gives the new one, from lines to
        lines. The result undoes this at the end of a ``with`` block; a graph module has to
        `recompile` to follow.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        return _Undo(lambda: setattr(self._codegen, "_body_transformer", before))

    @compatibility(is_backward_compatible=False)
    def process_inputs(self, *args: Any) -> Any:
        """Arguments of the function as its placeholders take them."""
        return self._codegen.process_inputs(*args)

    @compatibility(is_backward_compatible=False)
    def process_outputs(self, out: Any) -> Any:
        """The result of the output node as the function returns it."""
        return self._codegen.process_outputs(out)

    def flatten_inps(self, *args: Any) -> Any:
        """`process_inputs`, by an older name."""
        return self.process_inputs(*args)

    def unflatten_outs(self, out: Any) -> Any:
        """`process_outputs`, by an older name."""
        return self.process_outputs(out)

    # --- as text ---------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [n.format_node() for n in self.nodes]
        return "graph():" + "".join([f"\n    {line}" for line in lines if line])

    @compatibility(is_backward_compatible=True)
    def print_tabular(self) -> None:
        """Print a table of the nodes: op, name, target, arguments."""
        header = ["opcode", "name", "target", "args", "kwargs"]
        rows = [[n.op, n.name, target_text(n.target), n.args, n.kwargs] for n in self.nodes]
        print(table(header, rows))  # noqa: T201  # it is asked to

    # --- as data ---------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        # A node's links would be followed as deep as the graph is long.
        from maquette.fx import saving  # noqa: PLC0415  # saving makes graphs

        return saving.load_graph, (saving.records_of(self),)


class _Undo:
    """A context manager that does something at its end."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._undo()


def table(header: list[str], rows: list[list[Any]]) -> str:
    """Columns of text, padded to the same width, under a header."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells)]

    def line(row: list[str]) -> str:
        return "  ".join([cell.ljust(width) for cell, width in zip(row, widths)]).rstrip()

    rule = "  ".join(["-" * width for width in widths])
    return "\n".join([line(header), rule, *map(line, cells)])


@functools.lru_cache(4096)  # 7 us each, and few names there are
def snake_case(name: str) -> str:
    """``MaxPool2d`` as ``max_pool2d``."""
    parts: list[str] = []
    before_lower = False
    for char in name:
        if char.isupper() and before_lower:
            parts.append("_")
        parts.append(char.lower())
        before_lower = char.islower()
    return "".join(parts)


_snake_case = snake_case


def _has_attribute(module: Any, path: str) -> bool:
    *prefix, last = path.split(".")
    for name in prefix:
        module = getattr(module, name, None)
        if module is None:
            return False
    return hasattr(module, last) and (
        last in dict(module.named_buffers(recurse=False))
        or last in dict(module.named_parameters(recurse=False))
        or last in dict(module.named_children())
        or getattr(module, last, None) is not None
    )


__all__ = ["CodeGen", "Graph", "PyTreeCodeGen", "PythonCode", "typing"]
