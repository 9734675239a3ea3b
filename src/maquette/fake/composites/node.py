"""The nodes of a composite call as one, which becomes them as soon as somebody looks.

A linear map of many rows is four operators, so its backward graph has four nodes. Mostly nobody
ever looks at them: their gradients are made in one step, of what the call was given. Whoever can
see nodes (`grad_fn`, `next_functions`, hooks, a backward that is watched or takes gradients out
on its way) has them unfolded: the node turns into the last of the call's, and the others are
there, with all that they would have saved.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from maquette.autograd.compiled_formulas import hand_on_lines
from maquette.autograd.engine import Run, conform, joined
from maquette.autograd.node import AccumulateGrad, Grad, Node, OpNode
from maquette.core.promotion import defaults
from maquette.core.remembered import EPOCH, remember
from maquette.dispatch.generated import generate
from maquette.fake.cache import REMEMBERED_STEPS
from maquette.fake.derivatives.steps import is_plain, plain_state, unknown
from maquette.fake.mode import ACTIVE
from maquette.fake.tensor import FakeTensor, make_fake
from maquette.tensor.aliasing import OF_WRITTEN
from maquette.tensor.history import History
from maquette.tensor.storage import OBSERVERS, UntypedStorage

if TYPE_CHECKING:
    from maquette.fake.composites.fold import Fold, View

_new = object.__new__
_lock = threading.RLock()


class FoldedNode(OpNode):
    """What stands for the nodes of a call; its classes are made by `folded_class`.

    ``saved`` begins with the `Fold`. Then come, for each tensor that nodes of the call hold, it,
    the version it had, and, where they hold views of it, its storage. Nothing but the fold is left
    of it once backward has been here.
    """

    __slots__ = ()

    folded = True
    plain = True
    lists = False
    saves_tensors = True
    saves_written = False

    @property
    def grad_fn(self) -> Node:  # type: ignore[override]  # as the state of its output it is itself
        self.unfold()
        return self

    def name(self) -> str:
        self.unfold()
        return self.name()  # it has become another class's

    def release(self) -> None:
        self.saved = self._everything()[:1]

    def formulas(self, grads: list[Grad]) -> list[Grad]:
        """The gradients by the formulas of the nodes, which are made for this and dropped."""
        parts = self.parts()
        links = self.links[::3]
        answers: list[Grad] = [None] * len(links)
        came: dict[Node, Grad] = {parts[-1]: grads[0]}
        for part in reversed(parts):
            grad = came.pop(part, None)
            targets, metas = part.links[::3], part.links[2::3]
            if grad is None:
                continue
            for i, answer in enumerate(part.formulas([grad])):
                target = targets[i]
                if answer is None or target is None:
                    continue
                fitted = conform(part, answer, metas[i], i)
                if target in links:
                    answers[links.index(target)] = fitted
                else:
                    came[target] = fitted
        return answers

    def parts(self) -> list[OpNode]:
        """New nodes of the call, in the order in which it makes them."""
        everything = self._everything()
        fold = cast("Fold", everything[0])
        freed = len(everything) == 1
        nodes: list[Any] = [_new(part.node_class) for part in fold.parts]
        kept = [] if freed else fold.kept_in(everything)
        views = [
            _view_again(v, kept[v.of], None if v.node is None else nodes[v.node])
            for v in (() if freed else fold.views)
        ]
        first = self.sequence - len(nodes) + 1
        for number, (node, part) in enumerate(zip(nodes, fold.parts, strict=True)):
            links: list[object] = []
            for place, output, meta in part.links:
                if place is None:
                    links += (None, 0, meta)
                elif place[0] == "inside":
                    links += (nodes[place[1]], output, meta)
                else:
                    links += (*self.links[3 * place[1] : 3 * place[1] + 2], meta)
            node.links = tuple(links)
            node.sequence = first + number
            node.context = node.hooks = None
            if freed and part.node_class.saves_tensors:
                node.saved = None
                continue
            node.saved = tuple([_saved_again(s, kept, views) for s in part.saved])
        return nodes

    def unfold(self) -> Sequence[Node]:
        with _lock:
            if not self.folded:  # another thread was first
                return ()
            *others, last = self.parts()
            self.links = last.links
            self.saved = last.saved
            self.__class__ = last.__class__  # type: ignore[assignment]  # alike in memory
            others.reverse()
            joined(self, others)
        return others

    def _everything(self) -> tuple[object, ...]:
        assert self.saved is not None
        return self.saved

    @staticmethod
    def open_saved(node: OpNode) -> tuple[object, ...]:  # type: ignore[override]  # a class has one
        """The tensors that the call was given and its nodes hold."""
        everything = cast(FoldedNode, node)._everything()
        return tuple([kept.tensor for kept in cast("Fold", everything[0]).kept_in(everything)])


class HiddenHistory(History):
    """The history of what the result of a call is a view of: the node before the last.

    ``node`` stands for the nodes of the call.
    """

    __slots__ = ("node",)

    node: OpNode
    requires_grad = True

    @property
    def grad_fn(self) -> Node:  # type: ignore[override]  # nobody sets it
        self.node.unfold()
        found: Node = self.node.links[0]
        return found


class Kept:
    """A tensor that nodes of a call hold, or views of it: as it was when the call was made."""

    __slots__ = ("storage", "tensor", "version")

    def __init__(self, tensor: FakeTensor, version: int, storage: UntypedStorage | None) -> None:
        self.tensor = tensor
        self.version = version
        self.storage = storage


def _view_again(made: View, kept: Kept, node: OpNode | None) -> FakeTensor:
    """A view that a call made of a tensor, as that was then."""
    origin = kept.tensor
    assert kept.storage is not None
    view = make_fake(origin.fake_mode, made.meta, kept.storage, made.keys)
    view._vc = origin._version_counter()
    view._base = origin if origin._base is None else origin._base
    if node is not None:
        view._ag = node
        node.view_version = kept.version
    elif kept.version:
        view._ag = OF_WRITTEN[kept.version]
    return view


def _saved_again(place: tuple[str, Any], kept: list[Kept], views: list[FakeTensor]) -> object:
    kind, what = place
    if kind == "kept":
        return kept[what].tensor
    if kind == "version":
        return kept[what].version
    return views[what] if kind == "view" else what


# --- classes and their step ------------------------------------------------------------------


def folded_class(kept: tuple[bool, ...], links: int) -> type[FoldedNode]:
    """The class of nodes that keep so many tensors and have so many links.

    kept: of each tensor, whether views of it are what is held.
    """
    found = _CLASSES.get((kept, links))
    if found is None:
        made: Any = type("FoldedNode", (FoldedNode,), {"__slots__": ()})
        made.step = _step(kept, links)
        made.outline = staticmethod(_outline(kept))
        remember(_CLASSES, (kept, links), made, EPOCH[0])
        found = made
    return cast(type[FoldedNode], found)


_CLASSES: dict[object, type[FoldedNode]] = {}


def _said(kept: tuple[bool, ...]) -> tuple[list[str], list[str], list[str]]:
    """Names of what a node holds, when a key can say what they are, and what it says."""
    unpacked = ["_fold"]
    conditions: list[str] = []
    parts: list[str] = []
    for i, by_view in enumerate(kept):
        unpacked += [f"_p{i}", f"_v{i}", *([f"_s{i}"] if by_view else [])]
        conditions += [
            f"_p{i}.fake_mode is _m",
            f"(0 if _p{i}._vc is None else _p{i}._vc.value) == _v{i}",
        ]
        parts += [f"_p{i}._keys", *([] if by_view else [f"_p{i}.meta"])]
    return unpacked, conditions, parts


def _outline(kept: tuple[bool, ...]) -> Any:
    """``_facts_of(node, mode)``: `Node.outline`."""
    unpacked, conditions, parts = _said(kept)
    lines = [
        "def _facts_of(_node, _m):",
        "    try:",
        f"        {', '.join(unpacked)}, = _node.saved",
        f"        if {' and '.join(conditions or ['True'])}:",
        f"            return ({', '.join(['_fold', *parts])},)",
        "    except (AttributeError, TypeError, ValueError):",  # no fakes, or freed
        "        pass",
    ]
    return generate("\n".join(lines) + "\n", "_facts_of", "composite", {})


def _step(kept: tuple[bool, ...], links: int) -> Any:
    """``_step(node, gradient, buffers, run)``: as `DerivativePlan` makes it for one operator."""
    unpacked, of_kept, parts = _said(kept)
    conditions = [
        "(_run.state.effective is _plain[0] or _is_plain(_run.state))",
        "not _observers",
        "(_active[0] is _m or _active[0] is None)",
        *of_kept,
    ]
    key = ["_fold", "_epoch[0]", "_defaults['float']", "_grads.meta", "_grads._keys", *parts]
    tensors = [name for name in unpacked if name[1] in "ps"]
    answers = [f"_a{i}" for i in range(links)]
    lines = [
        "def _step(_node, _grads, _buffers, _run):",
        "    if _grads is None:",
        "        return _run.pass_by(_node)",
        f"    {''.join(f'_n{i}, _k{i}, _m{i}, ' for i in range(links))}= _node.links",
        "    _known = None",
        "    _saved = _node.saved",
        f"    if len(_saved) == {len(unpacked)}:",
        f"        {', '.join(unpacked)}, = _saved",
        "        _m = _grads.fake_mode",
        f"        if {' and '.join(conditions)}:",
        f"            _key = ({', '.join(key)})",
        "            try:",
        "                _known = _remembered[_key]",
        "            except KeyError:",
        "                _known = _unknown(_key, _m)",
        "    if _known is None:",
        "        _given = [_grads]",
        f"        {' = '.join(['_grads', '_saved', *tensors])} = None",
        "        return _apart(_node, _given, _buffers, _run)",
        f"    {', '.join(answers)}, = _known[0](_known[1], _m, _grads, _node, None, _key)",
        f"    {' = '.join(['_grads', '_saved', *tensors])} = None",
        "    if not _run.retain_graph:",
        "        _node.saved = _fold.alone",
    ]
    for i, answer in enumerate(answers):
        lines += [f"    {line}" for line in hand_on_lines(i, answer)]
    space: dict[str, object] = {
        "_Leaf": AccumulateGrad,
        "_active": ACTIVE,
        "_apart": _apart,
        "_defaults": defaults,
        "_epoch": EPOCH,
        "_is_plain": is_plain,
        "_observers": OBSERVERS,
        "_plain": plain_state,
        "_remembered": REMEMBERED_STEPS,
        "_unknown": unknown,
    }
    return generate("\n".join(lines) + "\n", "_step", "composite", space)


def _apart(node: OpNode, given: list[Grad], buffers: dict[Node, object], run: Run) -> None:
    """The step of a node by those of the nodes that it stands for; it takes what is given."""
    run.remembered = False
    others = node.unfold()
    node.step(given.pop(), buffers, run)
    run.go_on(others)
