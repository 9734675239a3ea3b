"""`reinplace`: a functionalized graph made to reuse memory again, where nobody can tell.

A call ``b = a.add(x)`` becomes ``a.add_(x)`` if the memory of ``a`` is the graph's own and nobody
reads it afterwards. ``base = slice_scatter(base, part)`` falls away where ``part`` was computed in
the slice itself; otherwise it becomes a ``copy_`` into the slice. A run on fakes tells which nodes
share memory; what was made in place is counted as shared from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from maquette.core.meta import TensorMeta
from maquette.core.pytree import tree_flatten
from maquette.core.strides import overlaps
from maquette.dispatch.forms import Form
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import find_packet
from maquette.dispatch.tags import Tag
from maquette.fx.compatibility import compatibility
from maquette.fx.graph_module import GraphModule
from maquette.fx.interpreter import Interpreter
from maquette.fx.node import Node, map_arg
from maquette.fx.passes.fake_tensor_prop import FakeTensorProp, fake_mode_of
from maquette.tensor.tensor import Tensor


@compatibility(is_backward_compatible=True)
def reinplace(gm: GraphModule, *sample_args: Any) -> GraphModule:
    """Have a functional graph of operators mutate its own memory where that changes no result.

    sample_args: inputs such as the graph was traced with; they tell which nodes share memory. The
    module is changed and returned. Memory of inputs and constants is never mutated.
    """
    memory = _Memory(gm, sample_args)
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        view = _scattered_view(node.target)
        if view is not None:
            _drop_scatter(memory, node, view)
        else:
            _make_in_place(memory, node)
    gm.graph.lint()
    gm.recompile()
    return gm


class _Memory:
    """Which nodes share memory, by a run on fakes and by what was made in place since."""

    def __init__(self, gm: GraphModule, sample_args: tuple[Any, ...]) -> None:
        self.graph = gm.graph
        self.order = {node: n for n, node in enumerate(gm.graph.nodes)}
        self.values: dict[Node, Any] = {}
        self._same: dict[int, int] = {}
        mode = fake_mode_of(*sample_args)
        _Recorder(gm, mode, self.values).propagate(*sample_args)
        self.foreign = {
            storage
            for node in gm.graph.nodes
            if node.op in ("placeholder", "get_attr")
            for storage in self.storages(node)
        }

    def storages(self, node: Node) -> set[int]:
        """The memory of all tensors that a node gives."""
        return {self._root(t._storage.id) for t in _tensors(self.values.get(node))}

    def _root(self, storage: int) -> int:
        while storage in self._same:
            storage = self._same[storage]
        return storage

    def merge(self, node: Node, target: Node) -> None:
        """Note that a node's tensor now lies in the memory of another's."""
        (mine,), (theirs,) = self.storages(node), self.storages(target)
        if mine != theirs:
            self._same[mine] = theirs

    def is_own(self, node: Node) -> bool:
        """Whether a node's memory is neither an input's nor a constant's."""
        return not any(self._root(f) in self.storages(node) for f in self.foreign)

    def sharing(self, node: Node) -> list[Node]:
        """The nodes that give tensors in the same memory."""
        mine = self.storages(node)
        return [other for other in self.values if self.storages(other) & mine]

    def readers_after(self, node: Node, target: Node) -> Iterator[Node]:
        """Users, after ``node``, of the memory of ``target``; taking a view is no use of it."""
        mine = self.storages(target)
        for shared in self.sharing(target):
            for user in shared.users:
                if user is node or self.order.get(user, -1) <= self.order[node]:
                    continue
                if not (_only_views(user) and self.storages(user) <= mine):
                    yield user


class _Recorder(FakeTensorProp):
    """Keeps what each node gives, and leaves the nodes as they are."""

    def __init__(self, gm: GraphModule, mode: Any, values: dict[Node, Any]) -> None:
        super().__init__(gm, mode)
        self.garbage_collect_values = False
        self.user_to_last_uses = {}
        self._values = values

    def run_node(self, n: Node) -> Any:
        self._values[n] = result = Interpreter.run_node(self, n)
        return result


def _tensors(value: Any) -> list[Tensor]:
    return [t for t in tree_flatten(value)[0] if isinstance(t, Tensor)]


def _only_views(node: Node) -> bool:
    """Whether a node does no more than look at memory in another way."""
    if isinstance(node.target, OpOverload):
        return node.target.is_view
    return getattr(node.target, "__name__", "") == "getitem"


def _make_in_place(memory: _Memory, node: Node) -> None:
    """``a.op(...)`` as ``a.op_(...)``, if nobody can tell."""
    assert isinstance(node.target, OpOverload)
    form = in_place_form(node.target)
    target = node.args[0] if node.args else None
    if form is None or not isinstance(target, Node):
        return
    resized = Tag.inplace_view in form.tags
    if not _fits(memory, node, target, resized=resized):
        return
    if resized and not _is_alone(memory, node, target):
        return
    readers = memory.readers_after(node, target)
    if any(not _is_inverse(memory, user, node, target) for user in readers):
        return
    if not resized and not _same_strides(memory.values[target].meta, memory.values[node].meta):
        # Who reads the result may count on its strides; those who put it into its place do not.
        if not all(_is_inverse(memory, user, node, target) for user in node.users):
            return
    node.target = form
    memory.merge(node, target)
    node.replace_all_uses_with(target)


def _is_alone(memory: _Memory, node: Node, target: Node) -> bool:
    """Whether only ``node`` looks at the memory of ``target`` from then on, which it resizes."""
    users = [user for user in target.users if memory.order[user] > memory.order[node]]
    return memory.sharing(target) == [target] and not users and node.all_input_nodes == [target]


def in_place_form(op: OpOverload) -> OpOverload | None:
    """The overload that mutates its first argument and returns it, where ``op`` returns a new one.

    None where there is none, and for views.
    """
    name, _, overload = op.name().partition(".")
    packet = None if op.is_view else find_packet(f"{name}_")
    if packet is None or (overload or "default") not in packet._overloads:
        return None
    form: OpOverload = getattr(packet, overload or "default")
    call = form.functional_call
    alike = call is not None and call.twin is op and call.mutated == (0,)
    same = alike and call.arguments == tuple(range(len(op._schema.arguments)))  # type: ignore[union-attr]  # alike
    return form if same else None


def _fits(memory: _Memory, node: Node, target: Node, *, resized: bool) -> bool:
    """Whether the memory of ``target`` may hold the result of ``node``."""
    old, new = memory.values.get(target), memory.values[node]
    if not (isinstance(old, Tensor) and isinstance(new, Tensor)):
        return False
    if not (resized or _same_form(old.meta, new.meta)) or _overlaps_itself(old.meta):
        return False
    if old.is_conj() or old.is_neg() or not memory.is_own(target):
        return False
    mine = memory.storages(target)
    others: list[Node] = []
    map_arg((node.args[1:], node.kwargs), others.append)
    return not any(memory.storages(other) & mine for other in others)


def _same_form(a: TensorMeta, b: TensorMeta) -> bool:
    return a.dtype is b.dtype and a.device == b.device and tuple(a.shape) == tuple(b.shape)


def _same_strides(a: TensorMeta, b: TensorMeta) -> bool:
    return all(s == t for n, s, t in zip(a.shape, a.strides, b.strides) if not _is_one(n))


def _is_one(size: Any) -> bool:
    return size.__class__ is int and size == 1


def _overlaps_itself(meta: TensorMeta) -> bool:
    """Whether two elements may lie in one place."""
    if meta.is_symbolic:
        return not meta.is_contiguous
    return overlaps(meta.shape, meta.strides)


def _scattered_view(op: OpOverload) -> OpOverload | None:
    """The view into which a functional operator puts values, if it is such a one."""
    return op.facts.scatters_into if op.form is Form.FUNCTIONAL else None


# --- scatters -------------------------------------------------------------------------


def _is_inverse(memory: _Memory, user: Node, node: Node, view: Node) -> bool:
    """Whether ``user`` puts the result of ``node`` where ``view`` looks, and no more."""
    if not isinstance(user.target, OpOverload) or _scattered_view(user.target) is None:
        return False
    base, source, *rest = user.args
    if source is not node or base is node or not isinstance(base, Node):
        return False
    if not memory.storages(base) <= memory.storages(view) or _mentions(rest, user.kwargs, node):
        return False
    return _looks_at(memory, user, base, view)


def _mentions(args: Any, kwargs: Any, node: Node) -> bool:
    found: list[Node] = []
    map_arg((args, kwargs), found.append)
    return node in found


def _looks_at(memory: _Memory, scatter: Node, base: Node, view: Node) -> bool:
    """Whether ``view`` shows the part of ``base`` into which ``scatter`` puts values."""
    assert isinstance(scatter.target, OpOverload)
    rest, kwargs = map_arg((scatter.args[2:], scatter.kwargs), lambda n: memory.values[n])
    base_value, view_value = memory.values[base], memory.values[view]
    with base_value.fake_mode:
        view_op = _scattered_view(scatter.target)
        assert view_op is not None
        part = view_op(base_value, *rest, **kwargs)
    mine, theirs = part.meta, view_value.meta
    same = _same_form(mine, theirs) and _same_strides(mine, theirs)
    return same and mine.offset == theirs.offset


def _operator(name: str) -> OpOverload:
    qualified, _, overload = name.partition(".")
    packet = find_packet(qualified)
    assert packet is not None
    found: OpOverload = getattr(packet, overload or "default")
    return found


def _drop_scatter(memory: _Memory, node: Node, view: OpOverload) -> None:
    """``base = scatter(base, part)``: nothing where the part lies there, else a copy into it."""
    base, part = node.args[:2]
    if not isinstance(base, Node) or not isinstance(part, Node) or not _fits_scatter(memory, node):
        return
    if memory.storages(part) == memory.storages(base):
        if not _looks_at(memory, node, base, part):
            return
    else:
        with memory.graph.inserting_before(node):
            look = memory.graph.call_function(view, (base, *node.args[2:]), dict(node.kwargs))
            copy = memory.graph.call_function(_operator("aten::copy_"), (look, part))
        memory.order[look] = memory.order[copy] = memory.order[node]
    memory.merge(node, base)
    node.replace_all_uses_with(base)
    memory.values.pop(node)
    memory.graph.erase_node(node)


def _fits_scatter(memory: _Memory, node: Node) -> bool:
    base = node.args[0]
    assert isinstance(base, Node)
    old, new = memory.values.get(base), memory.values[node]
    if not isinstance(old, Tensor) or not _same_form(old.meta, new.meta):
        return False
    if not _same_strides(old.meta, new.meta):
        return False
    if _overlaps_itself(old.meta) or not memory.is_own(base):
        return False
    return not any(True for _ in memory.readers_after(node, base))


__all__ = ["in_place_form", "reinplace"]
