"""What the formulas of a node make of fakes, remembered: a node seen before calls no operator.

An operator's answer on fakes is a function of metas, which the cache of shape rules remembers. The
formulas of a derivative call operators alone, so the gradients that they give are a function of
metas, too: of the gradients that come, the saved tensors and the plain saved values. The first time
a node has some, its formulas run and it is written down how each gradient was made (`recipes.py`);
from the second on the engine's step makes the gradients so, in a third of the time. Checks of saved
tensors, hooks and adding up are the engine's, as ever.

Whoever could see the operators has them run: modes, observers of memory, counts of the cache, who
tracks fakes. So do formulas that call anything whose answer the cache does not remember (random
operators, factories, what a user implements), or that reach a tensor which the node did not save.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, cast

from maquette.autograd.compiled_formulas import SHORTCUT, AtHand, Held, Shortcut
from maquette.autograd.engine import conform
from maquette.autograd.node import Grad, OpNode
from maquette.core.device import device
from maquette.core.meta import TensorMeta
from maquette.core.promotion import defaults
from maquette.core.remembered import EPOCH, remember
from maquette.core.scalar_types import dtype
from maquette.dispatch import keysets as K
from maquette.dispatch.call import NUMBERS
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.modes import Answers, TorchDispatchMode
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import DispatchState
from maquette.fake.cache import REMEMBERED_STEPS, watching
from maquette.fake.derivatives.recipes import Answer, recipe_of, version_of
from maquette.fake.mode import ACTIVE, FakeTensorMode
from maquette.fake.real.propagation import propagating
from maquette.fake.tensor import FakeTensor, maker, tensors_in
from maquette.library.infer import key_of
from maquette.tensor.keys import ADINPLACE, FAKE, fake_keys_for
from maquette.tensor.storage import OBSERVERS
from maquette.tensor.tensor import Tensor

_new = object.__new__
Entry = tuple[Callable[..., Answer], object]
"""What makes the gradients of a node, and what it is given first."""


# --- the source of a step --------------------------------------------------------------


def _shortcut(at_hand: AtHand) -> Shortcut:
    """Source that finds the gradients of a node by its metas."""
    space: dict[str, object] = {
        "_Fake": FakeTensor,
        "_active": ACTIVE,
        "_bits": at_hand.bits,
        "_defaults": defaults,
        "_epoch": EPOCH,
        "_is_plain": is_plain,
        "_mode_of": _mode_of,
        "_number": Family(),
        "_numbers": _NUMBERS,
        "_observers": OBSERVERS,
        "_outline": outline,
        "_outlines": _outlines,
        "_plain": plain_state,
        "_remembered": REMEMBERED_STEPS,
        "_symbolic": _SYMBOLIC,
        "_unknown": unknown,
    }
    return Shortcut(
        lambda: _lines(at_hand),
        "_known[0](_known[1], _m, _grads, _node, _bits, _key)",
        lambda: _outline_lines(at_hand),
        space,
    )


def _lines(at_hand: AtHand) -> list[str]:
    conditions, said = _said(at_hand)
    conditions = [
        "_m is not None",
        "(_run.state.effective is _plain[0] or _is_plain(_run.state))",
        "not _observers",
        "(_active[0] is _m or _active[0] is None)",
        *conditions,
    ]
    parts = ["_number", "_epoch[0]", "_defaults['float']"]
    parts += ["_grads.meta", "_grads._keys"] if at_hand.plain else ["_outlines(_grads, _m)"]
    return [
        "_known = None",
        *([] if at_hand.bits is not None else ["_links = _node.links"]),
        f"_m = {'_grads.fake_mode' if at_hand.plain else '_mode_of(_grads)'}",
        f"if {' and '.join(conditions)}:",
        "    try:",
        f"        _key = ({', '.join([*parts, *said])})",
        "        _known = _remembered[_key]",
        "    except KeyError:",
        "        _known = _unknown(_key, _m)",
        "    except TypeError:",  # something symbolic, or that no key can say
        "        pass",
    ]


def _outline_lines(at_hand: AtHand) -> list[str]:
    """Lines that return all that a node's key says but of the gradients; else they go on."""
    conditions, said = _said(at_hand)
    return [
        *([] if at_hand.bits is not None else ["_links = _node.links"]),
        f"if {' and '.join(conditions or ['True'])}:",
        f"    return ({''.join(f'{part}, ' for part in said)})",
    ]


def _said(at_hand: AtHand) -> tuple[list[str], list[str]]:
    """Of saved values and links: whether a key can say what they are, and what it says."""
    conditions: list[str] = []
    parts: list[str] = []
    for name, held in at_hand.saved().items():
        if held is Held.TENSOR:
            conditions.append(f"{name}.fake_mode is _m")
            parts += [f"{name}.meta", f"{name}._keys"]
        elif held is Held.OPERAND:
            is_number = f"{name}v is None"
            plain = f"{name}.__class__ in _numbers"  # to hash a symbolic one may be to guard
            conditions.append(f"({plain} if {is_number} else {name}.fake_mode is _m)")
            parts += [f"({name}, {name}.__class__) if {is_number} else {name}.meta"]
            parts += [f"0 if {is_number} else {name}._keys"]
        elif held is Held.NUMBER:
            conditions.append(f"{name}.__class__ not in _symbolic")
            parts += [name, f"{name}.__class__"]
        elif held is Held.VALUE:
            parts += [name]
        else:
            of_mode = f"{name}.__class__ is _Fake and {name}.fake_mode is _m"
            parts += [f"({name}.meta, {name}._keys) if {of_mode} else _outline({name}, _m)"]
    if at_hand.bits is None:
        absent = "tuple([_n is None for _n in _links[::3]])"
        parts += ["_links[2::3]", f"None in _links[::3] and {absent}"]
    else:
        parts += [f"_m{bit}" for bit in at_hand.bits]
    return conditions, parts


_NUMBERS = frozenset((int, float, bool, complex))
_NO_TENSORS = _NUMBERS | {str, type(None), dtype, device}
_SYMBOLIC = NUMBERS - _NUMBERS  # to hash one may be to guard

# The ``effective`` of a thread where nobody sees the operators that a formula calls.
plain_state: list[object] = [None]
_UNSEEN = K.key_bits(DispatchKey.BackendSelect) | ADINPLACE | FAKE


def is_plain(st: DispatchState) -> bool:
    """Whether nothing but the fake mode has a part in what operators do in a thread."""
    if st.include & ~_UNSEEN or st.exclude != K.AUTOCAST or st.grad_enabled or st.transforms:
        return False
    plain_state[0] = st.effective
    return True


def _mode_of(grads: Sequence[Grad]) -> object:
    """The mode of the first gradient that came."""
    first = grads[0]
    if first is not None:
        return first.fake_mode
    return next((g.fake_mode for g in grads if g is not None), None)


def _outlines(grads: Sequence[Grad], mode: object) -> Hashable:
    return tuple(
        [
            (g.meta, g._keys)
            if g.__class__ is FakeTensor and g.fake_mode is mode
            else outline(g, mode)
            for g in cast("Sequence[FakeTensor]", grads)
        ]
    )


def outline(value: object, mode: object) -> Hashable:
    """What a key says of a value; TypeError for what none can say, or a tensor of another mode."""
    if isinstance(value, Tensor):
        if value.fake_mode is not mode:
            raise TypeError("a tensor of another mode")
        return value.meta, value._keys
    if value.__class__ is tuple or value.__class__ is list:
        return tuple([outline(v, mode) for v in cast(Sequence[object], value)])
    if value is None or value.__class__ is TensorMeta:
        return value
    if value.__class__ in _NUMBERS:
        return value, value.__class__
    raise TypeError("not a plain value")


# --- seen for the first time, and the second -------------------------------------------


unlearnt = [0]
"""How often it was found that no recipe says a node's gradients; threads may leave some out."""


class Family:
    """Nodes of one class, or calls of one operator, that differ in metas; ``met``: how many do."""

    __slots__ = ("met",)

    def __init__(self) -> None:
        self.met = 0


_AT_ONCE = 8
"""How many of a family are written down the first time, as layers are many and alike.

To be heard takes half as long again as to run. A program with ever other sizes pays that eight
times; of what comes later, only what comes again is heard.
"""


def to_learn(family: Family) -> bool:
    """Whether to write down a member of a family that was not met before."""
    family.met += 1
    return family.met <= _AT_ONCE


def unknown(key: tuple[Hashable, ...], mode: FakeTensorMode) -> Entry | None:
    """What is to make the gradients of a node not met before; None: its formulas are."""
    if not may_note(key, mode):
        return None
    if isinstance(key[0], Family) and not to_learn(key[0]):
        remember(REMEMBERED_STEPS, key, (_learn, None), EPOCH[0])
        return None
    return _learn, None


def may_note(key: tuple[Hashable, ...], mode: FakeTensorMode) -> bool:
    """Whether what a mode makes may be remembered by metas, and these metas are no symbols'."""
    if watching() or propagating() or maker() is not _new or mode.prefer_device_type is not None:
        return False
    return _is_static(key)


def _is_static(key: tuple[Hashable, ...]) -> bool:
    for part in key:
        if isinstance(part, TensorMeta) and part.is_symbolic:
            return False
        if part.__class__ is tuple and not _is_static(cast("tuple[Hashable, ...]", part)):
            return False
    return True


def _learn(
    _: object,
    mode: FakeTensorMode,
    grads: Any,
    node: OpNode,
    bits: tuple[int, ...] | None,
    key: tuple[Hashable, ...],
) -> Answer:
    """Run a node's formulas, and write down how their answers are made."""
    since = EPOCH[0]
    given: list[Grad] = [grads] if isinstance(grads, Tensor) else list(grads)
    saved = list(tensors_in(node.__class__.open_saved(node)))
    sources = [*(g for g in given if g is not None), *saved]
    versions = [version_of(t) for t in sources]
    listener = Listener(sources)
    with listener:
        answers = node.formulas(list(given))
        numbers = range(len(answers)) if bits is None else bits
        wanted = tuple([_fitted(node, answers[i], i) for i in numbers])
    recipe = None
    untouched = versions == [version_of(t) for t in sources]
    if listener.pure and untouched and all(_is_usual(t, mode) for t in sources):
        recipe = recipe_of(mode, given, saved, wanted)
        if recipe is not None and not isinstance(grads, Tensor):
            recipe = recipe._replace(many=True)
    unlearnt[0] += recipe is None
    remember(REMEMBERED_STEPS, key, None if recipe is None else recipe.entry(), since)
    return wanted


def _fitted(node: OpNode, grad: Grad, i: int) -> Grad:
    """A gradient made to fit its input, as the step makes it; None if it goes nowhere."""
    target, _, meta = node.links[3 * i : 3 * i + 3]
    if grad is None or target is None:
        return None
    if grad.meta.dtype is meta.dtype and grad.meta.shape == meta.shape:
        return grad
    return conform(node, grad, meta, i)


def _is_usual(t: Tensor, mode: FakeTensorMode) -> bool:
    """Whether a tensor is a fake of the mode of which only its meta is known, or its value too.

    Who reads a value is not pure (`Listener`), and an answer that has one is not remembered.
    """
    usual = t._keys & ~(K.REQUIRES_GRAD | K.CONSTANT) == fake_keys_for(t.meta)
    return t.fake_mode is mode and usual


# Kernels for nested tensors stand there once those are used; plain fakes never reach them.
_AT_FAKE_OR_ABOVE = (K.bits_above(DispatchKey.Fake) | FAKE) & ~(
    K.key_bits(DispatchKey.AutogradNestedTensor) | K.key_bits(DispatchKey.NestedTensor)
)
_COMPOSITE = frozenset(K.key_parse(name) for name in DispatchKey.__members__ if "Composite" in name)
_UNREMEMBERED = frozenset((Tag.nondeterministic_seeded, Tag.data_dependent_output))


class Listener(TorchDispatchMode):
    """Sees whether all operators that run are functions of the metas of tensors known here.

    given: the tensors that are known at the start; results of operators are from then on.
    """

    measures_memory = True  # formulas are to do what they do where no mode sees them

    def __init__(self, given: Sequence[Tensor]) -> None:
        super().__init__()
        self.pure = True
        self._storages = {id(t._storage): t._storage for t in given}

    @property
    def _answers_of_operators(self) -> Answers:  # type: ignore[override]  # nobody sets it
        # Parameters come as kernels get them. To be told of them as handlers are, and to match them
        # with the schema again, took a quarter of the time in which derivatives are learnt.
        return self

    def get(self, op: OpOverload, /) -> Callable[..., object]:
        """What answers calls of any operator: `_hear`."""
        return partial(self._hear, op)

    def _hear(self, op: OpOverload, ks: int, *params: object) -> object:
        """Run an operator, of which the result is known from now on."""
        given: set[int] = set()
        for p in params:
            if p.__class__ is FakeTensor:
                given.add(id(p._storage))
            elif p.__class__ not in _NO_TENSORS:
                given.update([id(t._storage) for t in tensors_in((p,))])
        result = op.run(ks, params)
        if self.pure:
            known_here = self._storages.keys() >= given and (bool(given) or _says_all(op, params))
            self.pure = known_here and _answers_by_metas(op, params)
        for t in (result,) if isinstance(result, Tensor) else tensors_in(result):
            self._storages[id(t._storage)] = t._storage
        return result

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """What `_hear` is not told of: calls of no operator of ours, or with what has a handler."""
        self.pure = False
        return func(*args, **(kwargs or {}))


def _says_all(op: OpOverload, params: Sequence[object]) -> bool:
    """Whether a factory is told of what dtype and on what device; defaults may be others later."""
    named = {a.name: p for a, p in zip(op._schema.arguments, params, strict=True)}
    return named.get("dtype") is not None and named.get("device") is not None


def _answers_by_metas(op: OpOverload, params: Sequence[object]) -> bool:
    """Whether the cache remembers what an operator's shape rule just said of such a call."""
    if not is_ours(op):
        return False
    if op._kernels.get(DispatchKey.Fake) and op.shape_rule is not None:
        return True  # an operator of ours that is another one's under a name of its own
    try:
        return op.infer_cache.get(key_of(op, params)) is not None  # where nothing is symbolic
    except TypeError:
        return False


def is_ours(op: OpOverload) -> bool:
    """Whether what a call makes may be a function of metas, and no kernel of a user's makes it."""
    since, answer = op.__dict__.get("_ours_since", (None, False))
    if since != EPOCH[0]:
        since, answer = op.__dict__["_ours_since"] = EPOCH[0], _has_our_kernels(op)
    return cast(bool, answer)


def _has_our_kernels(op: OpOverload) -> bool:
    if not _UNREMEMBERED.isdisjoint(op.tags):
        return False
    for key, stack in op._kernels.items():
        if stack and key.members & _AT_FAKE_OR_ABOVE and key not in _COMPOSITE:
            if any(kernel.python is not None for kernel in stack):
                return False  # it may do anything
    return True


SHORTCUT[0] = _shortcut
