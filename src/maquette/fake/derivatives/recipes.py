"""How a node's gradients are made of those that came, without its formulas.

A recipe says which new tensors and views to make and where each answer then is; it has metas alone.
A function is generated for each shape of recipes and makes the tensors in line, as the kernels at
Fake and at ADInplaceOrView do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from maquette.autograd.node import Grad
from maquette.core.meta import TensorMeta
from maquette.core.remembered import EPOCH, remember
from maquette.dispatch import keysets as K
from maquette.dispatch.generated import Text, generate, indented
from maquette.fake.mode import FakeTensorMode
from maquette.fake.tensor import FakeTensor
from maquette.library.infer import Outcome
from maquette.tensor.aliasing import IN_NO_GRAD
from maquette.tensor.history import VersionCounter
from maquette.tensor.keys import fake_keys_for
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor

_new = object.__new__
Answer = tuple[Grad, ...]


def version_of(t: Tensor) -> int:
    """How often a tensor was mutated, inference tensors' never."""
    return 0 if t._vc is None else t._vc.value


Place = tuple[str, int]
"""Where a tensor is: ("grads", i) or ("made", i)."""


class Made(NamedTuple):
    """A tensor that a recipe makes: new, or a view of what is at ``of``.

    version: of a new one, how often it was mutated.
    """

    meta: TensorMeta
    of: Place | None
    version: int = 0


class Recipe(NamedTuple):
    """How to make the gradients of a node: tensors to make, and where each answer then is."""

    made: list[Made]
    answers: list[Place | None]
    many: bool = False  # whether the gradients come in a list

    def entry(self) -> tuple[Callable[..., Answer], tuple[object, ...]]:
        """A function that makes the gradients, and what it is to be given of metas."""
        facts = tuple([m.meta if m.of else Outcome(m.meta) for m in self.made])
        return self._function(), facts

    def _function(self) -> Callable[..., Answer]:
        """Of one shape of recipes, made once: metas are not in it."""
        shape = (tuple([(m.of, m.version) for m in self.made]), tuple(self.answers), self.many)
        found = _FUNCTIONS.get(shape)
        if found is None:
            text = Text(shape, self._text)
            found = generate(text, "_make", "gradients", dict(_SPACE))
            remember(_FUNCTIONS, shape, found, EPOCH[0])
        return found

    def _text(self) -> str:
        lines = ["def _make(_facts, _m, _grads, _node, _bits, _key):"]
        if self.made:
            lines += [f"    {''.join(f'_f{i}, ' for i in range(len(self.made)))}= _facts"]
        viewed = {m.of[1] for m in self.made if m.of and m.of[0] == "made"}
        for i, made in enumerate(self.made):
            if made.of:
                more = self._view(i, made.of)
            else:
                more = fresh_lines(f"_t{i}", f"_f{i}", made.version, viewed=i in viewed)
            lines += indented(more)
        answers = "".join(f"{'None' if a is None else self._name(a)}, " for a in self.answers)
        return "\n".join([*lines, f"    return ({answers})\n"])

    def _name(self, place: Place) -> str:
        kind, i = place
        if kind == "made":
            return f"_t{i}"
        return f"_grads[{i}]" if self.many else "_grads"

    def _view(self, i: int, of: Place) -> list[str]:
        """Lines that make a view as the operators at Fake and ADInplaceOrView do."""
        origin, t = self._name(of), f"_t{i}"
        lines = [f"_o = {origin}"] if "[" in origin else []
        o = "_o" if lines else origin
        lines += [
            *object_lines(t, f"_f{i}"),
            f"{t}._keys = _f{i}.fake_keys",
            f"{t}._storage = {o}._storage",
        ]
        lines += [f"_c = {o}._vc"]
        if of[0] == "grads":
            lines += ["if _c is None:", f"    _c = {o}._vc = _new(_Counter)", "    _c.value = 0"]
        lines += [f"{t}._vc = _c", f"{t}._ag = _in_no_grad[_c.value]"]
        if of[0] == "made":
            return [*lines, f"{t}._base = {o}"]
        return [
            *lines,
            f"_b = {o}._base",
            "if _b is None:",
            f"    {t}._base = {o}",
            f"    {o}._viewed = True",
            "else:",
            f"    {t}._base = _b",
            "    if _b._keys & _req:",
            f"        {t}._keys |= _req",
        ]


def fresh_lines(t: str, outcome: str, version: int = 0, *, viewed: bool = False) -> list[str]:
    """Lines that make a tensor over memory of its own, as the kernels at Fake do."""
    lines = [
        *object_lines(t, f"{outcome}.meta"),
        f"{t}._keys = {outcome}.fake_keys",
        "_s = _new(_Storage)",
        f"_s._nbytes = {outcome}.nbytes",
        f"_s.device = {outcome}.device",
        "_s.data = None",
        "_s.foreign = False",
        "_s._id = 0",
        f"{t}._storage = _s",
        f"{t}._base = {t}._ag = None",
    ]
    if viewed:
        lines += [f"{t}._viewed = True"]
    if version or viewed:
        return [*lines, f"_c = {t}._vc = _new(_Counter)", f"_c.value = {version}"]
    return [*lines, f"{t}._vc = None"]


def object_lines(t: str, meta: str) -> list[str]:
    """Lines that make the object of a fake, with the parts that all have alike."""
    return [
        f"{t} = _new(_Fake)",
        f"{t}.meta = {meta}",
        f"{t}._mq_data = {t}.constant = None",
        f"{t}.fake_mode = _m",
    ]


FRESH: dict[str, object] = {
    "_Counter": VersionCounter,
    "_Fake": FakeTensor,
    "_Storage": UntypedStorage,
    "_new": _new,
}
"""What the lines of `fresh_lines` name."""
_SPACE: dict[str, object] = {**FRESH, "_in_no_grad": IN_NO_GRAD, "_req": K.REQUIRES_GRAD}
_FUNCTIONS: dict[object, Callable[..., Answer]] = {}


def recipe_of(
    mode: FakeTensorMode, grads: list[Grad], saved: list[Tensor], answers: Answer
) -> Recipe | None:
    """How answers were made of these gradients; None if there is more to them than metas."""
    made: list[Made] = []
    places: dict[int, Place] = {id(g): ("grads", i) for i, g in enumerate(grads) if g is not None}
    sources = [t for t in (*grads, *saved) if t is not None]
    fresh_storages: list[UntypedStorage] = []

    def make(t: Tensor, of: Place | None, version: int = 0) -> Place:
        place = places[id(t)] = "made", len(made)
        made.append(Made(t.meta, of, version))
        return place

    def fresh(t: Tensor) -> Place | None:
        if id(t) in places:
            return places[id(t)]
        own = t._base is None and t._ag is None and t._storage._nbytes == t.meta.storage_bytes
        if not own or not _is_new(t, mode) or any(t._storage is s for s in fresh_storages):
            return None
        fresh_storages.append(t._storage)
        return make(t, None, version_of(t))

    def place_of(t: Tensor) -> Place | None:
        over = [i for i, source in enumerate(sources) if source._storage is t._storage]
        if len(over) > 1:
            return None  # over the same memory this time
        if id(t) in places:
            return places[id(t)]
        if not _is_new(t, mode):
            return None
        if over:
            origin = sources[over[0]]
            base = origin if origin._base is None else origin._base
            of = places.get(id(origin))
            return make(t, of) if of is not None and _is_view(t, base, origin) else None
        if t._base is None:
            return fresh(t)
        of = fresh(t._base)
        return make(t, of) if of is not None and _is_view(t, t._base, t._base) else None

    found: list[Place | None] = []
    for answer in answers:
        place = None if answer is None else place_of(answer)
        if answer is not None and place is None:
            return None
        found.append(place)
    return Recipe(made, found)


def _is_new(t: Tensor, mode: FakeTensorMode) -> bool:
    """Whether nothing is known of a tensor but its meta, memory and history."""
    plain = t.__class__ is FakeTensor and not t.__dict__ and t._keys == fake_keys_for(t.meta)
    return plain and t.fake_mode is mode and t.constant is None


def _is_view(t: Tensor, base: Tensor, origin: Tensor) -> bool:
    """Whether a tensor is the view that an operator makes of ``origin`` where nothing records."""
    return t._base is base and t._vc is origin._vc and t._ag is IN_NO_GRAD[version_of(t)]
