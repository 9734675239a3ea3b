"""What a composite call made: its result and its nodes, ready to be made again of equal metas.

`fold_of` reads that off a call that ran, and refuses (None) whatever a later call could not be
given without running. `Fold.entry` is a function that makes it: the result, and one node that
stands for those of the call (`node.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from maquette.autograd.node import NOWHERE, Edge, Node, OpNode, grad_edge, next_sequence
from maquette.autograd.record_source import edge_lines
from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout, memory_format
from maquette.core.meta import TensorMeta
from maquette.core.remembered import EPOCH, remember
from maquette.dispatch import keysets as K
from maquette.dispatch.generated import generate
from maquette.fake.composites.node import HiddenHistory, Kept, folded_class
from maquette.fake.derivatives.recipes import fresh_lines, object_lines, version_of
from maquette.fake.mode import FakeTensorMode
from maquette.fake.tensor import FakeTensor
from maquette.library.infer import Outcome
from maquette.tensor.history import OutputHistory, VersionCounter
from maquette.tensor.keys import fake_keys_for
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor

_new = object.__new__
Place = tuple[str, Any]
"""Where a value is: ("kept", i), ("version", i) of it, ("view", i), or ("value", itself)."""


class View(NamedTuple):
    """A view that a node holds of what the call was given.

    of: its place among what is kept. node: the number of the node that made it, if one did.
    """

    meta: TensorMeta
    keys: int
    of: int
    node: int | None


class Part(NamedTuple):
    """A node of a call: its class, where its edges lead, and what it saves.

    links: for each input a place, ("inside", number of a node) or ("outside", number of a link of
    the whole), None for an input without gradient; an output number; a meta.
    """

    node_class: type[OpNode]
    links: tuple[tuple[Place | None, int, TensorMeta | None], ...]
    saved: tuple[Place, ...]


class Fold:
    """The result of a call and its nodes.

    kept: the numbers of the parameters that nodes hold, and whether by views alone. linked: those
    of the parameters that gradients go to, in the order in which they do. base: what the result is
    a view of, if it is one; nobody else has that.
    """

    __slots__ = ("alone", "base", "entry", "kept", "linked", "outcome", "parts", "views")

    def __init__(
        self,
        outcome: Outcome,
        parts: Sequence[Part],
        views: Sequence[View],
        kept: dict[int, bool],
        linked: Sequence[int],
        count: int,
        base: Outcome | None = None,
    ) -> None:
        """count: of the parameters."""
        self.outcome = outcome
        self.base = base
        self.parts = tuple(parts)
        self.views = tuple(views)
        self.kept = kept
        self.linked = tuple(linked)
        self.alone = (self,)
        self.entry = _entry(tuple(kept.items()), self.linked, len(parts), count, base is not None)

    def kept_in(self, saved: Sequence[Any]) -> list[Kept]:
        """What a node holds of a call, taken out of its ``saved``."""
        found: list[Kept] = []
        rest = iter(saved[1:])
        for by_view in self.kept.values():
            found.append(Kept(next(rest), next(rest), next(rest) if by_view else None))
        return found


# --- reading a call --------------------------------------------------------------------------


def fold_of(
    mode: FakeTensorMode, params: Sequence[object], result: object, first: int
) -> Fold | None:
    """What a call made, whose first node has the sequence number ``first`` or a later one."""
    given = {i: p for i, p in enumerate(params) if isinstance(p, Tensor)}
    if not isinstance(result, FakeTensor):
        return None
    root, base = result._ag, result._base
    if not _is_fresh(result, mode, given) and not _is_view_of_fresh(result, mode, given):
        return None
    outcome = Outcome(result.meta)
    if root is None:
        return Fold(outcome, (), (), {}, (), len(params))
    reader = _Reader(given, first)
    if not isinstance(root, OpNode) or not reader.read(root):
        return None
    kept = {i: i not in reader.directly for i in reader.kept}
    if any(by_view and _forbids(given[i]) for i, by_view in kept.items()):
        return None
    under = None if base is None else Outcome(base.meta)
    return Fold(outcome, reader.parts, reader.views, kept, reader.linked, len(params), under)


def _is_fresh(t: FakeTensor, mode: FakeTensorMode, given: dict[int, Tensor]) -> bool:
    """Whether nothing is known of a result but its meta, memory of its own, and its node."""
    keys = t.meta.fake_grad_keys if t._ag is not None else fake_keys_for(t.meta)
    plain = t.__class__ is FakeTensor and not t.__dict__ and t._keys == keys
    own = t._base is None and t._storage._nbytes == t.meta.storage_bytes and not version_of(t)
    apart = all(t._storage is not g._storage for g in given.values())
    return plain and own and apart and t.fake_mode is mode and t.constant is None


def _is_view_of_fresh(t: FakeTensor, mode: FakeTensorMode, given: dict[int, Tensor]) -> bool:
    """Whether a result is a view, by one node, of what nobody else has, which is fresh."""
    base, node = t._base, t._ag
    if base.__class__ is not FakeTensor or not _is_fresh(base, mode, given):
        return False
    usual = _is_only_view(t, base) and t.fake_mode is mode and t._keys == t.meta.fake_grad_keys
    return usual and isinstance(node, OpNode) and node.links[0] is base._ag is not None


class _Reader:
    """Reads the nodes of a call; `read` says whether that can be said of all."""

    def __init__(self, given: dict[int, Tensor], first: int) -> None:
        self.given = given
        self.first = first
        self.parts: list[Part] = []
        self.views: list[View] = []
        self.kept: list[int] = []
        self.directly: set[int] = set()  # what nodes hold itself, not only views of it
        self.linked: list[int] = []
        self._ids: dict[int, Place] = {}
        self._nodes: list[OpNode] = []
        self._edges: dict[Edge, int] = {}

    def read(self, root: OpNode) -> bool:
        for i, t in self.given.items():
            edge = grad_edge(t) if t._keys & K.REQUIRES_GRAD else None
            if edge is not None and (edge[0] is NOWHERE[0] or edge in self._edges):
                return False
            if edge is not None:
                self._edges[edge] = i
        if not self._gather(root) or root is not self._nodes[-1]:
            return False
        own = {node: n for n, node in enumerate(self._nodes)}
        parts = [self._part(node, own) for node in reversed(self._nodes)]  # as gradients go
        if None in parts or [n.sequence for n in self._nodes] != self._numbers(root):
            return False
        self.parts = [part for part in reversed(parts) if part is not None]
        return True

    def _numbers(self, root: OpNode) -> list[int]:
        """The sequence numbers of so many nodes, the last of them ``root``."""
        return [*range(root.sequence - len(self._nodes) + 1, root.sequence + 1)]

    def _gather(self, root: OpNode) -> bool:
        """Find the nodes of the call, each of which one edge leads to."""
        stack: list[Node] = [root]
        while stack:
            node = stack.pop()
            if node.folded:
                node.unfold()  # of a composite that this one calls
            if not isinstance(node, OpNode) or node in self._nodes:
                return False
            usual = node.plain and not node.lists and node.hooks is None and node.context is None
            if not usual or node.saved is None:
                return False
            self._nodes.append(node)
            for target in node.links[::3]:
                if target is not None and target.sequence >= self.first and not self._leaf(target):
                    stack.append(target)
        self._nodes.sort(key=lambda n: n.sequence)
        return True

    def _leaf(self, node: Node) -> bool:
        return any(node is edge[0] for edge in self._edges)

    def _part(self, node: OpNode, own: dict[OpNode, int]) -> Part | None:
        links: list[tuple[Place | None, int, TensorMeta | None]] = []
        flat = node.links
        for target, output, meta in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            place: Place | None = None
            if target in own:
                place = "inside", own[target]
            elif target is not None:
                i = self._edges.get((target, output))
                if i is None or i in self.linked or meta is not self.given[i].meta:
                    return None
                place = "outside", len(self.linked)
                self.linked.append(i)
            links.append((place, output, meta))
        saved: list[Place] = []
        assert node.saved is not None
        for at, value in enumerate(node.saved):
            found = self._saved(value, own)
            if at in node.versions and saved[-1][0] in ("kept", "view"):
                kind, i = saved[-1]
                found = "version", self.views[i].of if kind == "view" else i
            if found is None:
                return None
            saved.append(found)
        return Part(node.__class__, tuple(links), tuple(saved))

    def _saved(self, value: object, own: dict[OpNode, int]) -> Place | None:
        """Where a saved value is, or None if a later call has no such."""
        if not isinstance(value, Tensor):
            return ("value", value) if _is_constant(value) else None
        if id(value) in self._ids:
            return self._ids[id(value)]
        for i, t in self.given.items():
            if value is t:
                self.directly.add(i)
                return "kept", self._keep(i)
        # What shares a base may be apart in a later call: which of the two it is then is unknown.
        over = [(i, t) for i, t in self.given.items() if value._base is _root(t)]
        for i, t in over:
            if len(over) == 1 and _is_only_view(value, t):
                history = value._ag
                node = own.get(history) if isinstance(history, OpNode) else None
                if node is None and history is not None:
                    return None
                place = "view", len(self.views)
                self.views.append(View(value.meta, value._keys, self._keep(i), node))
                self._ids[id(value)] = place
                return place
        return None

    def _keep(self, i: int) -> int:
        if i not in self.kept:
            self.kept.append(i)
        return self.kept.index(i)


def _root(t: Tensor) -> Tensor:
    """What views of a tensor have for a base."""
    return t if t._base is None else t._base


def _forbids(t: Tensor) -> bool:
    """Whether views of a tensor would be remembered as such that may not be written."""
    return t._base is not None and t._ag is not None and bool(t._ag.creation_meta)


def _is_only_view(view: Tensor, of: Tensor) -> bool:
    """Whether nothing is known of a view but its meta, its base and its node."""
    plain = view.__class__ is FakeTensor and not view.__dict__ and view.constant is None
    usual = view._keys & ~K.REQUIRES_GRAD == fake_keys_for(view.meta)
    return plain and usual and view._storage is of._storage and view._vc is of._vc


_CONSTANTS = frozenset(
    (int, float, bool, complex, str, type(None), dtype, device, layout, memory_format, TensorMeta)
)


def _is_constant(value: object) -> bool:
    if value.__class__ is tuple:
        return all(_is_constant(v) for v in cast(tuple[object, ...], value))
    return value.__class__ in _CONSTANTS


# --- making it again -------------------------------------------------------------------------


def _entry(
    kept: tuple[tuple[int, bool], ...],
    linked: tuple[int, ...],
    nodes: int,
    count: int,
    is_view: bool,
) -> Callable[..., FakeTensor | None]:
    """``_make(fold, mode, key, *parameters)``: the result, or None where the call has to run."""
    shape = (kept, linked, nodes, count, is_view)
    found = _ENTRIES.get(shape)
    if found is None:
        lines = [f"def _make(_fold, _m, _key, {', '.join(f'p{i}' for i in range(count))}):"]
        lines += [f"    {line}" for line in _lines(kept, linked, nodes, is_view)]
        space: dict[str, object] = {
            "_Counter": VersionCounter,
            "_Fake": FakeTensor,
            "_Hidden": HiddenHistory,
            "_Output": OutputHistory,
            "_Storage": UntypedStorage,
            "_edge": grad_edge,
            "_new": _new,
            "_next": next_sequence,
            "_nowhere": NOWHERE,
            "_req": K.REQUIRES_GRAD,
        }
        if nodes:
            space["_Node"] = folded_class(tuple([by_view for _, by_view in kept]), len(linked))
        found = generate("\n".join(lines) + "\n", "_make", "composite", space)
        remember(_ENTRIES, shape, found, EPOCH[0])
    return found


_ENTRIES: dict[object, Callable[..., FakeTensor | None]] = {}


def _lines(
    kept: tuple[tuple[int, bool], ...], linked: tuple[int, ...], nodes: int, is_view: bool
) -> list[str]:
    viewed = [i for i, by_view in kept if by_view]
    lines: list[str] = []
    if viewed:  # `_forbids`, written out
        forbidden = [
            f"p{i}._base is not None and p{i}._ag and p{i}._ag.creation_meta" for i in viewed
        ]
        lines += [f"if {' or '.join(forbidden)}:", "    return None"]
    if linked:
        lines += ["_mask = 0"]
    for bit, i in enumerate(linked):
        lines += edge_lines(f"p{i}", bit, len(linked))
    if linked:
        lines += [f"if _mask != {(1 << len(linked)) - 1}:", "    return None"]
    lines += ["_o = _fold.outcome", *(_VIEW if is_view else fresh_lines("_r", "_o"))]
    if not nodes:
        return [*lines, "return _r"]
    held = ["_fold"]
    for i, by_view in kept:
        held += [f"p{i}", f"0 if p{i}._vc is None else p{i}._vc.value"]
        if by_view:
            lines += [f"p{i}._viewed = True"]
            held += [f"p{i}._storage"]
    links = "".join(f"_n{bit}, _k{bit}, _m{bit}, " for bit in range(len(linked)))
    return [
        *lines,
        "_r._keys = _o.meta.fake_grad_keys",
        "_n = _r._ag = _new(_Node)",
        f"_n.links = ({links})",
        f"_n.saved = ({', '.join(held)},)",
        *["_next()"] * (nodes - 1),
        "_n.sequence = _next()",
        "_n.context = _n.hooks = None",
        *(_OF_VIEW if is_view else ()),
        "return _r",
    ]


_VIEW = (
    "_u = _fold.base",
    *fresh_lines("_b", "_u", viewed=True),
    "_b._keys = _u.meta.fake_grad_keys",
    *object_lines("_r", "_o.meta"),
    "_r._storage = _s",
    "_r._vc = _c",
    "_r._base = _b",
)
_OF_VIEW = ("_n.view_version = 0", "_h = _b._ag = _new(_Hidden)", "_h.node = _n")
