"""`Node`: one step of a graph, and the values that are its arguments.

A node says what is called (``op`` and ``target``), with what (``args`` and ``kwargs``, in which
other nodes stand for their results) and who uses the result (``users``). The one idea: whoever
assigns arguments goes through `Node._set_arguments`, so that ``users`` is always true. What a node
means as Python code is `codegen.py`'s, the order of nodes `graph.py`'s.
"""

from __future__ import annotations

import builtins
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from maquette.dispatch.base import OperatorBase
from maquette.dispatch.packet import OpOverloadPacket
from maquette.fx.compatibility import compatibility
from maquette.fx.immutable_collections import immutable_dict, immutable_list
from maquette.fx.names import qualified_name, type_text
from maquette.library.effects import is_impure as operator_is_impure

if TYPE_CHECKING:
    from maquette.fx.graph import Graph

Target: TypeAlias = Callable[..., Any] | str
Argument: TypeAlias = Any  # a node, a constant, or tuples, lists, dicts and slices of arguments
Args: TypeAlias = tuple[Argument, ...]
Kwargs: TypeAlias = dict[str, Argument]
base_types = typing.Union[  # noqa: UP007  # tests look into its __args__
    str, int, float, bool, complex
]

OPS = (
    "placeholder",
    "call_method",
    "call_module",
    "call_function",
    "get_attr",
    "output",
    "root",
)
"""What a node may do; "root" stands before the first node of a graph."""
_OPS = frozenset(OPS)


# --- arguments -------------------------------------------------------------------------------


@compatibility(is_backward_compatible=True)
def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """``a`` with ``fn`` of every node in it, in collections that cannot be changed."""
    assert callable(fn), f"map_arg(a, fn): fn must be callable, got {type(fn).__name__}"
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


@compatibility(is_backward_compatible=True)
def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """``a`` with ``fn`` of everything in it that is no tuple, list, dict or slice."""
    cls = a.__class__
    if cls is tuple:
        return tuple([map_aggregate(x, fn) for x in a])
    if cls is list or cls is immutable_list:
        return immutable_list([map_aggregate(x, fn) for x in a])
    if cls is dict or cls is immutable_dict:
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    if cls is slice:
        parts = (a.start, a.stop, a.step)
        return slice(*[map_aggregate(part, fn) for part in parts])
    if isinstance(a, tuple):
        mapped = [map_aggregate(x, fn) for x in a]
        return type(a)(*mapped) if hasattr(a, "_fields") else type(a)(mapped)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    return fn(a)


def nodes_in(a: Argument) -> Iterator[Node]:
    """The nodes in an argument, as often as they stand there."""
    if isinstance(a, Node):
        yield a
    elif isinstance(a, tuple | list):
        for x in a:
            yield from nodes_in(x)
    elif isinstance(a, dict):
        for x in a.values():
            yield from nodes_in(x)
    elif isinstance(a, slice):
        yield from nodes_in((a.start, a.stop, a.step))


# --- text of arguments and targets -----------------------------------------------------------


def _get_qualified_name(func: Callable[..., Any]) -> str:
    """How code writes a function, by PyTorch's name for it."""
    return qualified_name(func)


def _type_repr(obj: object) -> str:
    return type_text(obj)


def argument_text(arg: Argument, node_text: Callable[[Node], str] = str) -> str:
    """An argument as Python writes it, nodes as ``node_text`` says."""
    if isinstance(arg, Node):
        return node_text(arg)
    if isinstance(arg, list):
        return f"[{', '.join([argument_text(a, node_text) for a in arg])}]"
    if isinstance(arg, tuple):
        items = ", ".join([argument_text(a, node_text) for a in arg])
        maybe_comma = "," if len(arg) == 1 else ""
        return f"({items}{maybe_comma})"
    if isinstance(arg, dict):
        return f"{{{', '.join([f'{k}: {argument_text(v, node_text)}' for k, v in arg.items()])}}}"
    return str(arg)


def _format_arg(arg: Argument, max_list_len: float = float("inf")) -> str:
    """An argument as the text of a graph has it: ``%x``; long lists are cut short."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return str(arg._custom_fx_repr_fn())
    if isinstance(arg, list | tuple):
        shown = [_format_arg(a, max_list_len) for i, a in enumerate(arg) if i < max_list_len]
        if len(arg) > max_list_len:
            shown.append(f"...[total_len={len(arg)}]")
        items = ", ".join(shown)
        if isinstance(arg, list):
            return f"[{items}]"
        return f"({items},)" if len(arg) == 1 else f"({items})"
    if isinstance(arg, dict):
        return f"{{{', '.join([f'{k}: {_format_arg(v, max_list_len)}' for k, v in arg.items()])}}}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


def target_text(target: Target) -> str:
    """A target as the text of a graph has it."""
    if isinstance(target, str):
        return target
    if hasattr(target, "__module__") or hasattr(target, "__objclass__"):
        name = getattr(target, "__name__", None)
        if name is None:
            return str(target)
        if getattr(builtins, name, None) is target:
            return f"builtins.{name}"
        if isinstance(target, types.FunctionType) and name == "<lambda>":
            return f"{target.__module__}.{name}"
        return qualified_name(target).removeprefix("_" if target.__module__ == "_operator" else "")
    return str(target)


# --- nodes -----------------------------------------------------------------------------------


@compatibility(is_backward_compatible=True)
class Node:
    """One step of a `Graph`; made by the graph's methods.

    ``op`` is one of: placeholder (an input of the function, called ``target``), get_attr (fetch
    ``target``, a path in the module), call_function, call_method (``target`` is its name, the
    first argument the object), call_module (``target`` is its path), output (``args[0]`` is what
    the function returns). ``meta`` is a dict for whoever works with the graph.
    """

    __slots__ = (
        "__dict__", "__weakref__", "_args", "_erased", "_kwargs", "_late_from", "_late_meta",
        "_next", "_place", "_prev", "_repr_fn", "_users", "graph", "name", "op", "target", "type",
    )  # fmt: skip

    graph: Graph
    name: str
    op: str
    target: Target
    type: Any | None
    _users: (
        Node | dict[Node, None] | None
    )  # the only user there was when `users` was last asked for
    _args: Args
    _kwargs: Kwargs
    _prev: Node
    _next: Node
    _place: int  # its label in the graph's order; see Graph._label
    _erased: bool
    # What gives `meta` when it is asked for: a function, with its later arguments; its first.
    _late_meta: tuple[Any, ...]
    _late_from: object
    _repr_fn: Callable[[Node], str] | None

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: Args,
        kwargs: Kwargs,
        return_type: Any | None = None,
    ) -> None:
        if op not in _OPS:
            raise AssertionError(f"a node's op must be one of {', '.join(OPS)}; got {op!r}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                    f"{type(target).__name__} but a Callable is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                f"{type(target).__name__} but a str is expected"
            )
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self._users = None
        self.meta = {}
        self._input_nodes = {}
        self._prev = self._next = self
        self._place = 0
        self._erased = False
        self._repr_fn = None
        self._set_arguments(args, kwargs)

    @cached_property
    def meta(self) -> dict[str, Any]:
        """Whatever is noted of the node; what a trace notes is made when it is first asked for."""
        late = self._late_meta
        self._late_meta = ()
        return late[0](self._late_from, *late[1:]) if late else {}

    @cached_property
    def _input_nodes(self) -> dict[Node, None]:
        """The nodes among the arguments, as keys."""
        return dict.fromkeys(nodes_in((self._args, self._kwargs)))

    # --- arguments -------------------------------------------------------------------

    @property
    def users(self) -> dict[Node, None]:
        """The nodes that have this one among their arguments, as keys."""
        users = self._users
        if not isinstance(users, dict):
            users = self._users = {} if users is None else {users: None}
        return users

    def _note_user(self, user: Node) -> None:
        # Most nodes have one user: without a dict until somebody asks, a trace makes a quarter
        # fewer objects for the garbage collector.
        if self._users is None:
            self._users = user
        else:
            self.users[user] = None

    @property
    def args(self) -> Args:
        """The positional arguments; assign to change them, which keeps ``users`` true."""
        return self._args

    @args.setter
    def args(self, a: Args) -> None:
        self._set_arguments(a, self._kwargs)

    @property
    def kwargs(self) -> Kwargs:
        """The keyword arguments; assign to change them, which keeps ``users`` true."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: Kwargs) -> None:
        self._set_arguments(self._args, k)

    def _set_arguments(self, args: Args, kwargs: Mapping[str, Argument]) -> None:
        """Take new arguments, and have the nodes in them know that they are used."""
        for used in self._input_nodes:
            used.users.pop(self, None)
        inputs: dict[Node, None] = {}

        def note(x: Argument) -> Argument:
            if isinstance(x, Node):
                inputs[x] = None
                x._note_user(self)
            return x

        self._args = tuple([map_aggregate(x, note) for x in args])
        self._kwargs = immutable_dict({k: map_aggregate(v, note) for k, v in kwargs.items()})
        self._input_nodes = inputs

    @compatibility(is_backward_compatible=True)
    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace one positional argument."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    @compatibility(is_backward_compatible=True)
    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Put an argument before the positional one at ``idx``, or at the end."""
        assert 0 <= idx <= len(self._args), "insert_args index must be between 0 and len(self.args)"
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    @compatibility(is_backward_compatible=True)
    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Replace or add one keyword argument."""
        self.kwargs = {**self._kwargs, key: arg}

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once, in their order."""
        return list(self._input_nodes)

    @compatibility(is_backward_compatible=True)
    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use another node wherever the arguments have ``old_input``."""
        swap = lambda n: new_input if n is old_input else n  # noqa: E731
        for hook in self.graph._replace_hooks:
            hook(old=old_input, new=new_input.name, user=self)
        self._set_arguments(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    @compatibility(is_backward_compatible=True)
    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Have the users of this node use another one; the users that were changed.

        delete_user_cb: says of a user whether it is to be changed; all are without it.
        propagate_meta: copy ``meta``, which must be empty on the other node (AssertionError).
        """
        if propagate_meta:
            assert len(replace_with.meta) == 0, (
                "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                "replace_with already has .meta keys"
            )
            replace_with.meta.update(self.meta)
        users = list(self.users)
        changed = users if delete_user_cb is None else list(filter(delete_user_cb, users))
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # --- place in the graph ----------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after this one; after the last one the graph's root."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    @compatibility(is_backward_compatible=True)
    def prepend(self, x: Node) -> None:
        """Move ``x`` to before this node."""
        assert self.graph is x.graph, "Attempting to move a Node into a different Graph"
        if x is self:
            return
        self.graph._link(self._prev if self._prev is not x else x._prev, x)

    @compatibility(is_backward_compatible=True)
    def append(self, x: Node) -> None:
        """Move ``x`` to after this node."""
        self._next.prepend(x)

    @property
    def _sort_key(self) -> tuple[int]:
        return (self._place,)

    def __lt__(self, other: Node) -> bool:
        """Whether this node comes before the other in their graph."""
        return self._place < other._place

    def __gt__(self, other: Node) -> bool:
        return self._place > other._place

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    # --- what it says ----------------------------------------------------------------

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    @property
    def stack_trace(self) -> str | None:
        """Where the program made the node, as a traceback reads; None where nobody recorded it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    @compatibility(is_backward_compatible=True)
    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node does more than compute its result, so that it stays even if unused.

        impure_random: whether drawing random numbers counts as such.
        """
        return is_impure(self, impure_random)

    @compatibility(is_backward_compatible=False)
    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """The arguments by the names of the target's parameters, or None where they are unknown.

        root: the module whose attributes the graph means. arg_types and kwarg_types choose among
        overloads. The result has ``args`` and ``kwargs``.
        """
        normalize = NORMALIZE[0]
        if normalize is None:
            raise RuntimeError("import maquette.fx before normalizing arguments")
        return normalize(self, root, arg_types, kwarg_types, normalize_to_only_use_kwargs)

    def _pretty_print_target(self, target: Target) -> str:
        return target_text(target)

    @compatibility(is_backward_compatible=True)
    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node as a line of a graph's text.

        placeholder_names: a list that placeholders add themselves to, instead of having a line.
        maybe_return_typename: one string, which becomes the annotation of the output.
        """
        from_type = f"{type_text(self.type)} " if self.type else ""
        users = f"[num_users={len(self.users)}]"
        if self.op == "placeholder":
            if placeholder_names is not None:
                annotation = f" : {type_text(self.type)}" if self.type else ""
                placeholder_names.append(f"{self.target}{annotation}")
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"%{self.name} : {from_type}{users} = {self.op}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"%{self.name} : {from_type}{users} = {self.op}[target={self.target}]"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_text(self.type)}"
            return f"return {self.args[0]}"
        shape = _shape_text(self) if include_tensor_metadata else ""
        return (
            f"%{self.name} : {from_type}{shape}{users} = {self.op}"
            f"[target={target_text(self.target)}]"
            f"(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"
        )

    def _rename(self, candidate: str) -> None:
        """Give the node a free name like ``candidate``."""
        if candidate == self.name:
            return
        self.name = self.graph._graph_namespace.create_name(candidate, None)

    def __setstate__(self, state: Any) -> None:
        raise TypeError("a node is not pickled alone; pickle its graph")


def _shape_text(node: Node) -> str:
    value = node.meta.get("tensor_meta")
    return "" if value is None else f"{value.dtype}{list(value.shape)} "


NORMALIZE: list[Callable[..., Any] | None] = [None]
"""What finds the parameters of targets: set by `operator_schemas.py`, which knows modules."""


# --- purity ----------------------------------------------------------------------------------

_side_effectful_functions: set[Callable[..., Any]] = set()


@compatibility(is_backward_compatible=False)
def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Note that calls of ``fn`` are kept even if nothing uses their results; gives ``fn``."""
    _side_effectful_functions.add(fn)
    return fn


def is_impure(node: Node, impure_random: bool = True) -> bool:
    """Whether a node must stay even if nothing uses it."""
    if node.op in ("placeholder", "output"):
        return True
    if node.op == "call_function":
        return _is_impure_function(node.target, impure_random)
    if node.op == "call_module":
        owner = node.graph.owning_module
        assert owner is not None, "self.graph.owning_module not set for purity check"
        return bool(getattr(owner.get_submodule(node.target), "_is_impure", False))
    return False


def _is_impure_function(target: Any, impure_random: bool) -> bool:
    if target in _side_effectful_functions:
        return True
    if isinstance(target, OpOverloadPacket):
        overloads = target.op_overloads()
        return bool(overloads) and all(_is_impure_function(o, impure_random) for o in overloads)
    return isinstance(target, OperatorBase) and operator_is_impure(target, random=impure_random)
