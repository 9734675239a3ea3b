"""A level of jvp: every call computes its result and how that moves with the inputs.

A `DualTensor` is a value and its tangent, both of the level below. An operator's tangent comes from
its page (slopes, linearity, or a rule: `autograd.tangents`), its definition by other operators, or,
where only a backward formula is known, from that formula transposed: the backward pass is linear in
the gradient that it starts from, so its own backward is the tangent. Views of a value have the same
views of its tangent, so that writes to one are seen by the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NoReturn, cast

from maquette.autograd.engine import run_backward
from maquette.autograd.formulas import Kind
from maquette.autograd.node import Edge, grad_edge
from maquette.autograd.tangents import has_tangent_rule, holds_for_complex, tangent_of
from maquette.dispatch.base import TransformType
from maquette.dispatch.forms import Form, FunctionalCall
from maquette.dispatch.operator import OpOverload, keys_of
from maquette.dispatch.schemas.matching import normalise
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor
from maquette.tensor.up_to_date import make_view
from maquette.transforms.batch import definition_of
from maquette.transforms.interpreter import Interpreter, pushed, run_below
from maquette.transforms.reverse_level import GradInterpreter, refuse_captured, require_grad
from maquette.transforms.rules import Decomposition, operators, rule_of
from maquette.transforms.wrappers import (
    DualTensor,
    Wrapper,
    dual,
    is_captured,
    mark_captured,
    revived,
    tracked,
)

Call = Callable[["JvpInterpreter", Sequence[object]], object]


class JvpInterpreter(Interpreter):
    """The level of one jvp, or of a block of `forward_ad.dual_level`."""

    __slots__ = ()

    transform = TransformType.Jvp
    leaves_inference = True
    captures: ClassVar[bool] = True  # whether writing to what it did not make is refused

    @classmethod
    def call_of(cls, op: OpOverload) -> Call:
        return forward_call(op)

    def lifted(self, t: Tensor) -> Tensor:
        """A tensor at this level: itself, or one that does not move with the inputs."""
        own = t.__class__ is DualTensor and cast(Wrapper, t)._interpreter is self
        return t if own else dual(t, None, self)

    def process(self, op: OpOverload, params: Sequence[object]) -> object:
        return forward_call(op)(self, params)

    def known(self, p: object) -> object:
        """What stands for a tensor at this level: itself, but in a dual level."""
        return p


def forward_call(op: OpOverload) -> Call:
    """How an operator runs at a level of jvp."""
    definition = definition_of(op)
    known = op.facts.derivatives
    if definition is not None and not (known is not None and known.rules):
        built = definition.factory(op, 0)
        if built is not None:
            run = built
            return lambda level, params: run(tls.st.effective_keys(keys_of(params)), *params)
    functional = op.functional_call
    if functional is None or Tag.inplace_view in op.tags or op.form is Form.MUTABLE:
        return _computing(op)
    twin = functional.twin
    unknown = Tag.generated in twin.tags and twin.facts.derivatives is None
    if op.form is Form.IN_PLACE and unknown:
        return _overwriting(op, functional)
    return _writing(op, functional)


# --- values and tangents ----------------------------------------------------------------------


def _opened(level: Interpreter, params: Sequence[object]) -> tuple[list[object], dict[int, object]]:
    """The values of parameters, and by position the tangents of those that move."""
    values: list[object] = []
    tangents: dict[int, object] = {}
    for i, p in enumerate(params):
        if p.__class__ is tuple:
            members = cast(tuple[object, ...], p)
            values.append(tuple([_value(t, level) for t in members]))
            each = [tangent_at(t, level) for t in members]
            if any(t is not None for t in each):
                tangents[i] = each
        else:
            values.append(_value(p, level))
            tangent = tangent_at(p, level)
            if tangent is not None:
                tangents[i] = tangent
    return values, (tangents if tls.st.forward_enabled else {})


def _value(p: object, level: Interpreter) -> object:
    if isinstance(p, Wrapper) and not p._interpreter.live:
        p = revived(p)
    if p.__class__ is DualTensor and p._interpreter is level:
        return p._value
    return p


def tangent_at(p: object, level: Interpreter) -> Tensor | None:
    """The tangent of a dual tensor of this level; a view's may be a part of its base's."""
    if isinstance(p, Wrapper) and not p._interpreter.live:
        p = revived(p)
    if p.__class__ is not DualTensor or p._interpreter is not level:
        if not isinstance(level, JvpInterpreter):
            return None
        known = level.known(p)
        return None if known is p else tangent_at(known, level)
    if p._base.__class__ is DualTensor and p._base._tangent is not None:
        with level.lower():
            return _part(p._base, p)
    return p._tangent


def _part(base: DualTensor, view: DualTensor) -> Tensor:
    """The part of a base's tangent that belongs to a view."""
    meta, tangent = view.meta, base._tangent
    assert tangent is not None
    offset = meta.offset - base.meta.offset + tangent.meta.offset
    return cast(Tensor, operators.as_strided(tangent, meta.shape, meta.strides, offset))


# --- operators that compute -------------------------------------------------------------------


def _computing(op: OpOverload) -> Call:
    """Functional operators, views, and in-place views, which are linear."""
    aliased = [i for i, a in enumerate(op._schema.arguments) if a.alias_info is not None]
    written = [i for i, a in enumerate(op._schema.arguments) if a.is_write]
    in_place = op.form is Form.IN_PLACE
    views = not op.facts.hides_aliases
    known = op.facts.derivatives
    detaches = known is not None and bool(known.nondifferentiable)

    def call(level: JvpInterpreter, params: Sequence[object]) -> object:
        for i in written:
            _target(op, params[i], level)
        values, tangents = _opened(level, params)
        if aliased and tangents and not in_place:
            _lay_out_alike(level, params, tangents, aliased[0])
        if in_place and tangents and known is None:
            _refuse(op)
        result = run_below(level, op, values)
        moved: object = None
        if in_place:
            return _same(level, op, params, values, tangents)
        if tangents:
            with level.lower():
                moved = _tangents(op, values, tangents, result)
        made = closed(result, moved, level)
        if aliased:
            origin = params[aliased[0]]
            if not detaches:
                _link(made, origin, result, values[aliased[0]])
            own = origin.__class__ is DualTensor and origin._interpreter is level
            if views and (not own or is_captured(origin)):
                mark_captured(made)
        return made

    return call


def _lay_out_alike(
    level: Interpreter, params: Sequence[object], tangents: dict[int, object], i: int
) -> None:
    """Give a tensor a tangent with the strides of its value, so that it has the same views."""
    p, tangent = params[i], tangents.get(i)
    if isinstance(p, DualTensor) and isinstance(tangent, Tensor):
        value = p._value
        meta = value.meta
        spread = any(s == 0 and n > 1 for s, n in zip(meta.strides, meta.shape))
        if meta.strides != tangent.meta.strides and not spread:
            with level.lower():
                alike = tangent.new_empty_strided(meta.shape, meta.strides)
                tangents[i] = p._tangent = alike.copy_(tangent)


def _same(
    level: Interpreter,
    op: OpOverload,
    params: Sequence[object],
    values: Sequence[object],
    tangents: dict[int, object],
) -> object:
    """An in-place view has changed a value's geometry: its tangent's too."""
    target = params[0]
    tangent = tangents.get(0)
    known = op.facts.derivatives
    if tangent is not None and known is not None and known.nondifferentiable:
        cast(DualTensor, target)._tangent = None
    elif tangent is not None:
        run_below(level, op, [tangent, *values[1:]])
    if isinstance(target, DualTensor):
        target.meta, target._storage = target._value.meta, target._value._storage
    return target


def _link(made: object, origin: object, result: object, value: object) -> None:
    """Views know their base, so that a write of what moves into one is seen by the other."""
    if isinstance(made, (tuple, list)):
        for m, r in zip(made, cast(Sequence[object], result), strict=True):
            _link(m, origin, r, value)
    elif isinstance(made, DualTensor) and isinstance(origin, DualTensor):
        if isinstance(result, Tensor) and isinstance(value, Tensor):
            same = result.dtype is value.dtype and result.is_conj() == value.is_conj()
            if same and result._storage is value._storage and result.is_neg() == value.is_neg():
                make_view(made, origin)


def closed(result: object, tangents: object, level: Interpreter) -> object:
    """Results of the level below, with their tangents, at this level."""
    if isinstance(result, Tensor):
        kind = result.meta.dtype
        moves = kind.is_floating_point or kind.is_complex
        return dual(result, cast("Tensor | None", tangents) if moves else None, level)
    if isinstance(result, (tuple, list)):
        each = tangents if isinstance(tangents, (tuple, list)) else [tangents] * len(result)
        return type(result)([closed(r, t, level) for r, t in zip(result, each, strict=True)])
    return result


# --- operators that write ---------------------------------------------------------------------


def _writing(op: OpOverload, functional: FunctionalCall) -> Call:
    """Compute by the functional twin, then write values to values and tangents to tangents."""
    pure = forward_call(functional.twin)

    def call(level: JvpInterpreter, params: Sequence[object]) -> object:
        targets = [_target(op, params[at], level) for at in functional.mutated]
        values, tangents = _opened(level, params)
        if not tangents:
            result = run_below(level, op, values)
            return _returned(functional, params, result, level)
        given = list(params)
        for at in functional.mutated:
            given[at] = _unwritten(level, params[at])
        result = pure(level, functional.parameters(tuple(given)))
        for (_, new), target in zip(functional.new_values(result), targets, strict=True):
            _write(level, op, target, new)
        results = functional.results(result)
        return _returned(functional, params, results if len(results) > 1 else results[0], level)

    return call


def _unwritten(level: JvpInterpreter, target: object) -> object:
    """What is computed with in the place of what is written: its copy, if a level below records.

    Formulas keep values and tangents as they were before the write.
    """
    if isinstance(target, tuple):
        return tuple([_unwritten(level, t) for t in target])
    if not isinstance(target, DualTensor):
        return target
    root = target._base if isinstance(target._base, DualTensor) else target
    kept = target._value.requires_grad or (
        root._tangent is not None and root._tangent.requires_grad
    )
    return forward_call(operators.clone.default)(level, (target, None)) if kept else target


def _forgets(op: OpOverload) -> bool:
    """Whether an operator's page has rules that hold in place: it overwrites, or is linear."""
    known = op.facts.derivatives
    return known is not None and all(r.kind in (Kind.FLAT, Kind.LINEAR) for r in known.rules)


def _overwriting(op: OpOverload, functional: FunctionalCall) -> Call:
    """A twin that calls ``op`` on copies cannot serve: what is written moves as the page says."""
    served = _forgets(op)

    def call(level: JvpInterpreter, params: Sequence[object]) -> object:
        target = _target(op, params[functional.mutated[0]], level)
        values, tangents = _opened(level, params)
        if tangents and not served:
            _refuse(op)
        result = run_below(level, op, values)
        if tangents:
            with level.lower():
                moved = _tangents(op, values, tangents, result)
            write_tangent(cast(DualTensor, target), cast("Tensor | None", moved), level)
        return _returned(functional, params, result, level)

    return call


def _refuse(op: OpOverload) -> NoReturn:
    name = op._schema.name.rpartition(":")[2]
    if name.startswith("resize"):
        raise RuntimeError("cannot resize variables that has a forward grad: detach it first")
    raise NotImplementedError(
        f"Trying to use forward AD with {name} that does not support it: detach what it writes to."
    )


def _target(op: OpOverload, p: object, level: JvpInterpreter) -> object:
    members = cast(tuple[object, ...], p) if p.__class__ is tuple else (p,)
    for t in members:
        own = t.__class__ is DualTensor and t._interpreter is level
        if own and (op.form is not Form.IN_PLACE or not is_captured(t)):
            continue
        if isinstance(t, Tensor) and level.captures:
            refuse_captured(op)
    return p


def _write(level: Interpreter, op: OpOverload, target: object, new: object) -> None:
    if isinstance(target, tuple):
        for t, n in zip(target, cast(Sequence[object], new), strict=True):
            _write(level, op, t, n)
        return
    assert isinstance(target, DualTensor)
    value, tangent = _value(new, level), tangent_at(new, level)
    assert isinstance(value, Tensor)
    with level.lower():
        if op.form is Form.OUT and target._value.meta.shape != value.meta.shape:
            target._value.resize_(value.meta.shape)
            target._tangent = None
        target._value.copy_(value)
    target.meta, target._storage = target._value.meta, target._value._storage
    write_tangent(target, tangent, level)


def write_tangent(target: DualTensor, tangent: Tensor | None, level: Interpreter) -> None:
    """Give a written tensor its new tangent: where views share it, into what they share."""
    own = tangent_at(target, level)
    if own is None and tangent is None:
        return
    base = target._base
    root = base if isinstance(base, DualTensor) else target
    with level.lower():
        if tangent is None:
            assert own is not None
            own.zero_()
            return
        if own is None and root is target:
            kind = target.meta.dtype
            target._tangent = tangent if tangent.dtype is kind else tangent.to(kind)
            return
        if own is None or (tangent._differs and not own._differs):
            root._tangent = _room(root, tangent)
        part = root._tangent if root is target else _part(root, target)
        assert part is not None
        part.copy_(tangent)


def _room(root: DualTensor, like: Tensor) -> Tensor:
    """A tangent for a base that can hold one part ``like`` this: batched, where that is."""
    meta = root.meta
    made: Tensor = like.new_empty_strided(meta.shape, meta.strides, dtype=meta.dtype)
    return made.zero_() if root._tangent is None else made.copy_(root._tangent)


def _returned(
    functional: FunctionalCall, params: Sequence[object], result: object, level: Interpreter
) -> object:
    """Results of a form that writes: written arguments are themselves."""
    kinds = functional.returns
    if not kinds:
        return None
    results = (result,) if len(kinds) == 1 else cast(Sequence[object], result)
    found = []
    for kind, r in zip(kinds, results):
        if kind.kind == "written":
            found.append(params[kind.source])
        elif isinstance(r, DualTensor) and r._interpreter is level:
            found.append(r)
        else:
            found.append(closed(r, None, level))
    return found[0] if len(kinds) == 1 else tuple(found)


# --- tangents ---------------------------------------------------------------------------------


def _tangents(
    op: OpOverload, values: Sequence[object], tangents: dict[int, object], result: object
) -> object:
    """The tangents of a call's results, computed on the level below; None where there are none."""
    known = op.facts.derivatives
    positions = list(tangents)
    if op.facts.overloads[0] is op or op.facts.tangent is None:
        if has_tangent_rule(op, positions) and _trusted(op, values, positions):
            return tangent_of(op, values, tangents, result)
    if known is not None and known.nondifferentiable and not known.rules:
        return None
    if not _moves(result):
        return None
    rule = rule_of(op)
    if isinstance(rule, Decomposition):
        return by_definition(rule.function, values, tangents)
    return transposed_backward(op, values, tangents, result)


def _moves(result: object) -> bool:
    if isinstance(result, (tuple, list)):
        return any(_moves(r) for r in result)
    if not isinstance(result, Tensor):
        return False
    return result.meta.dtype.is_floating_point or result.meta.dtype.is_complex


def _trusted(op: OpOverload, values: Sequence[object], positions: Sequence[int]) -> bool:
    """Whether a backward formula may serve as the tangent: of real elementwise operators only."""
    if holds_for_complex(op, positions):
        return True
    return not any(isinstance(v, Tensor) and v.meta.dtype.is_complex for v in values)


def by_definition(
    function: Callable[..., object], values: Sequence[object], tangents: dict[int, object]
) -> object:
    """The tangent by a definition by other operators, as batching rules have it too."""
    level = JvpInterpreter()
    with pushed(level):
        output = function(*[_dual(v, tangents.get(i), level) for i, v in enumerate(values)])
        outputs = output if isinstance(output, (tuple, list)) else [output]
        found = [tangent_at(t, level) for t in outputs]
    return tuple(found) if isinstance(output, (tuple, list)) else found[0]


def _dual(value: object, tangent: object, level: Interpreter) -> object:
    if isinstance(value, tuple):
        each = tangent if isinstance(tangent, list) else [None] * len(value)
        return tuple([_dual(v, t, level) for v, t in zip(value, each)])
    return dual(value, tangent, level) if isinstance(tangent, Tensor) else value  # type: ignore[arg-type]  # a tensor, as its tangent is


def transposed_backward(
    op: OpOverload, values: Sequence[object], tangents: dict[int, object], result: object
) -> object:
    """The tangent by the backward formulas: the generic rule, for pages that say no more.

    The backward pass gives ``J^H u``, linear in ``u``; its own backward pass with the tangent gives
    ``J`` times that. It costs two backward passes, and needs formulas that can be differentiated.
    """
    first = GradInterpreter()
    with pushed(first):
        leaves: list[Tensor] = []
        moved: list[Tensor] = []
        given = [_leaf(v, tangents.get(i), first, leaves, moved) for i, v in enumerate(values)]
        args, kwargs = normalise(op._schema, tuple(given))
        output = op(*args, **kwargs)
        outputs = _flat(output)
        edges = [_edge(t) for t in outputs]
        wanted = [cast(Edge, grad_edge(t)) for t in leaves]
    zeros = [None if e is None else operators.zeros_like(t) for t, e in zip(outputs, edges)]
    second = GradInterpreter()
    with pushed(second):
        starts = [None if z is None else require_grad(tracked(z, second)) for z in zeros]
        pulled = run_backward(
            [e for e in edges if e is not None],
            [s for s in starts if s is not None],
            retain_graph=False,
            create_graph=True,
            wanted=wanted,
            accumulate=False,
        )
        back = [
            (e, t)
            for g, t in zip(pulled, moved)
            if g is not None and (e := grad_edge(g)) is not None
        ]
        goals = [None if s is None else cast(Edge, grad_edge(s)) for s in starts]
    found = run_backward(
        [e for e, _ in back],
        [t for _, t in back],
        retain_graph=False,
        create_graph=tls.st.grad_enabled,
        wanted=[g for g in goals if g is not None],
        accumulate=False,
    )
    answers = iter(found)
    return _nested(output, iter([None if g is None else next(answers) for g in goals]))


def _flat(output: object) -> list[object]:
    """The results of a call, lists among them opened."""
    if isinstance(output, (tuple, list)):
        return [leaf for o in output for leaf in _flat(o)]
    return [output]


def _nested(output: object, leaves: Iterator[object]) -> object:
    if isinstance(output, (tuple, list)):
        return type(output)([_nested(o, leaves) for o in output])
    return next(leaves)


def _leaf(
    value: object, tangent: object, level: Interpreter, leaves: list[Tensor], moved: list[Tensor]
) -> object:
    if isinstance(value, tuple):
        each = tangent if isinstance(tangent, list) else [None] * len(value)
        return tuple([_leaf(v, t, level, leaves, moved) for v, t in zip(value, each)])
    if isinstance(value, Tensor) and isinstance(tangent, Tensor):
        leaves.append(require_grad(tracked(value, level)))
        moved.append(tangent)
        return leaves[-1]
    return value


def _edge(t: object) -> Edge | None:
    return grad_edge(t) if isinstance(t, Tensor) else None


__all__ = ["JvpInterpreter", "tangent_at", "transposed_backward"]
