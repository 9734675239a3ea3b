"""Tangents of results, as forward mode needs them: read off what a page says of its derivatives.

A page that states slopes, or in which arguments its operator is linear, has said its tangent rule
(`formulas.Kind`); another may register one with ``page.tangent``. `tangent_of` evaluates either for
one call. Rules and results are operators' calls, so they are differentiated and batched in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from maquette.autograd.formulas import Derivatives, Formula, Kind, Rule, parameter_names
from maquette.core.symbols import node_of
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import ops
from maquette.dispatch.schemas.matching import normalise
from maquette.dispatch.tags import Tag
from maquette.tensor.tensor import Tensor

Tangents = Mapping[int, object]
"""By position of a parameter its tangent: a tensor, or a list (None for members without one)."""


def has_tangent_rule(op: OpOverload, positions: Sequence[int]) -> bool:
    """Whether the page says the tangent by the parameters at these positions."""
    if op.facts.tangent is not None:
        return True
    known = op.facts.derivatives
    return known is not None and _plan_of(op, known, tuple(positions)).says_all


def holds_for_complex(op: OpOverload, positions: Sequence[int]) -> bool:
    """Whether what the page says of these tangents is no formula of gradients.

    A complex function need not be holomorphic, and its formula does not say.
    """
    known = op.facts.derivatives
    if op.facts.tangent is not None or known is None:
        return True
    return _plan_of(op, known, tuple(positions)).holds_always


class _Plan:
    """What a page says of tangents by some parameters of an operator, read off once.

    says_all: whether rules say them all. holds_always: whether none is a formula of gradients.
    terms: positions with rules that are slopes or formulas. by_calls: whether arguments are linear
    or bilinear. rules, constants: what it was read off.
    """

    __slots__ = ("by_calls", "constants", "holds_always", "names", "rules", "says_all", "terms")

    def __init__(self, op: OpOverload, known: Derivatives, positions: tuple[int, ...]) -> None:
        self.names = [a.name for a in op._schema.arguments]
        rules = [(i, known.rule_of(self.names[i])) for i in positions]
        self.says_all = all(_says(op, rule) for _, rule in rules)
        self.holds_always = all(r is not None and r.kind is not Kind.FORMULA for _, r in rules)
        self.terms = [(i, r) for i, r in rules if r is not None and r.kind not in _BY_CALLS]
        by_calls = (*known.arguments(Kind.LINEAR), *known.arguments(Kind.BILINEAR))
        self.by_calls = bool(by_calls or known.constants)
        self.rules, self.constants = known.rules, known.constants


_BY_CALLS = (Kind.LINEAR, Kind.BILINEAR, Kind.FLAT)


def _plan_of(op: OpOverload, known: Derivatives, positions: tuple[int, ...]) -> _Plan:
    """The plan, made anew where the page says something else.

    With values that are worked out when a rule names them, 36 of 134 us of `jvp(sin)` less.
    """
    if known.plans is None:
        known.plans = {}
    found = known.plans.get((op, positions))
    if isinstance(found, _Plan):
        if found.rules is known.rules and found.constants is known.constants:
            return found
    found = known.plans[op, positions] = _Plan(op, known, positions)
    return found


def _says(op: OpOverload, rule: Rule | None) -> bool:
    """Whether a rule is data, or the formula of an elementwise operator, which serves both ways."""
    if rule is None:
        return False
    return rule.kind is not Kind.FORMULA or (Tag.pointwise in op.tags and not rule.joint)


def tangent_of(
    op: OpOverload, params: Sequence[object], tangents: Tangents, result: object
) -> object:
    """The tangent of the result of a functional overload: as the result is, None where it has none.

    params: canonical parameters; tangents: of those that have one; result: what the call gave.
    Raises NotImplementedError where the page does not say it.
    """
    known = op.facts.derivatives
    if op.facts.tangent is not None or known is None:
        names = [a.name for a in op._schema.arguments]
        if op.facts.tangent is None:
            _refuse(op, [names[i] for i in tangents])
        return _by_rule(op.facts.tangent, names, params, tangents, result)
    plan = _plan_of(op, known, tuple(tangents))
    names = plan.names
    if not plan.says_all:
        _refuse(op, [names[i] for i in tangents])
    found: list[object] = []
    if plan.terms:
        values = _Values(names, params, result)
        for i, rule in plan.terms:
            found += _elementwise(op, rule, tangents[i], values)
    if plan.by_calls:
        found += _by_calls(op, known, names, params, tangents)
    total = _sum(found) if found else _zero(result)
    return _fitted(total, result, known.nondifferentiable)


def _refuse(op: OpOverload, names: Sequence[str]) -> NoReturn:
    raise NotImplementedError(
        f"{op.name()}: its page does not say the tangent by {', '.join(names)}; state a slope, "
        f"linear or bilinear there, or register a rule with page.tangent"
    )


# --- rules and slopes ------------------------------------------------------------------------


def _by_rule(
    rule: Formula,
    names: Sequence[str],
    params: Sequence[object],
    tangents: Tangents,
    result: object,
) -> object:
    given = _Values(names, params, result)
    asked = parameter_names(rule)
    for i, name in enumerate(names):
        if f"{name}_t" in asked:
            given[f"{name}_t"] = _filled(tangents[i] if i in tangents else None, params[i])
    return rule(*[given[name] for name in asked])


class _Values(dict[str, object]):
    """What a rule may name, worked out when it does: parameters, metas, and results by number."""

    def __init__(self, names: Sequence[str], params: Sequence[object], result: object) -> None:
        super().__init__()
        self.names = names
        self.params = params
        self.result = result

    def __missing__(self, name: str) -> object:
        names = self.names
        if name in names:
            found = self.params[names.index(name)]
        elif name.endswith("_meta") and name.removesuffix("_meta") in names:
            value = self[name.removesuffix("_meta")]
            found = value.meta if isinstance(value, Tensor) else value
        elif name == "result":
            found = self.result
        elif name.startswith("result") and name.removeprefix("result").isdigit():
            result = self.result
            results = result if isinstance(result, (tuple, list)) else (result,)
            found = results[int(name.removeprefix("result"))]
        else:
            raise KeyError(name)
        self[name] = found
        return found


def _elementwise(op: OpOverload, rule: Rule, tangent: object, values: _Values) -> list[object]:
    """What an elementwise operator's tangent is by one argument: slope times tangent.

    The formula of a gradient multiplies with the conjugate of the slope, so that it serves here
    too, on conjugates, where the operator is real or complex throughout.
    """
    assert isinstance(tangent, Tensor)
    if rule.slope is not None:
        slope = rule.slope(*[values[name] for name in parameter_names(rule.slope)])
        return [tangent * slope]  # type: ignore[operator]  # a tensor or number
    result = values.result
    assert isinstance(result, Tensor)
    is_complex = tangent.meta.dtype.is_complex
    if is_complex is not result.meta.dtype.is_complex:
        _refuse(op, rule.wrt)
    if tangent.meta.shape != result.meta.shape:
        tangent = ops.aten.expand(tangent, result.meta.shape)
    values["grad"] = ops.aten.conj(tangent) if is_complex else tangent
    try:
        answer = rule.function(*[values[name] for name in rule.needs])
    except NotImplementedError as error:
        raise NotImplementedError(
            f"Trying to use forward AD with {op._opname} that does not support it: {error}"
        ) from error
    if answer is None:
        return []
    return [ops.aten.conj(answer) if is_complex else answer]


# --- linear and bilinear arguments -----------------------------------------------------------


def _by_calls(
    op: OpOverload,
    known: Derivatives,
    names: Sequence[str],
    params: Sequence[object],
    tangents: Tangents,
) -> list[object]:
    """Calls of the operator itself whose sum is the tangent.

    The first carries the tangents of all linear arguments; each bilinear argument that has a
    tangent takes a call, and linear arguments are zero in all but one.
    """
    added = (*known.arguments(Kind.LINEAR), *known.constants)
    linear = [i for i, name in enumerate(names) if name in added]
    pairs = set(known.arguments(Kind.BILINEAR))
    moving = [i for i in tangents if names[i] in pairs]
    first = {i: tangents[i] if i in tangents else _zero(params[i]) for i in linear}
    rest = {i: _zero(params[i]) for i in linear} if len(moving) > 1 else {}
    moved = any(i in tangents for i in linear)
    if not moving:
        if not moved:
            return []
        still = [i for i, name in enumerate(names) if name in pairs]
        return [_call(op, params, first | {i: _zero(params[i]) for i in still[:1]})]
    calls = []
    for n, i in enumerate(moving):
        calls.append(_call(op, params, (rest if n else first) | {i: tangents[i]}))
    return calls


def _zero(value: object) -> object:
    """What stands for an argument that does not move: zeros of its shape, a number's 0, None."""
    if isinstance(value, Tensor):
        return ops.aten.zeros_like(value)
    if isinstance(value, (tuple, list)):
        return [_zero(v) for v in value]
    if value is None:
        return None
    symbol = node_of(value)
    kind = type(value) if symbol is None else symbol.pytype
    return kind(0)


def _call(op: OpOverload, params: Sequence[object], changed: Mapping[int, object]) -> object:
    given = [_filled(changed[i], p) if i in changed else p for i, p in enumerate(params)]
    args, kwargs = normalise(op._schema, tuple(given))
    return op(*args, **kwargs)


def _filled(tangent: object, primal: object) -> object:
    """A tangent with zeros in the place of what has none: the whole, or members of a list."""
    if tangent is None:
        return _zero(primal)
    if not isinstance(primal, (tuple, list)):
        return tangent
    members: Sequence[object] = tangent  # type: ignore[assignment]  # a list, as the primal is
    return tuple([_zero(p) if t is None else t for t, p in zip(members, primal, strict=True)])


# --- results ---------------------------------------------------------------------------------


def _sum(terms: Sequence[object]) -> object:
    if isinstance(terms[0], (tuple, list)):
        return [_sum(parts) for parts in zip(*terms, strict=True)]
    total, *rest = terms
    for term in rest:
        total = total + term  # type: ignore[operator]  # tensors
    return total


def _fitted(tangent: object, result: object, without: Sequence[int]) -> object:
    """A tangent in the shape and dtype of its result; None where that is not differentiable."""
    if isinstance(result, (tuple, list)):
        pairs = zip(tangent, result, strict=True)  # type: ignore[call-overload]  # as the result
        fitted = [None if n in without else _fitted(t, r, ()) for n, (t, r) in enumerate(pairs)]
        return type(result)(fitted)
    if not isinstance(tangent, Tensor) or not isinstance(result, Tensor) or 0 in without:
        return None
    if not (result.meta.dtype.is_floating_point or result.meta.dtype.is_complex):
        return None
    meta = result.meta
    if tangent.meta.dtype is not meta.dtype:
        return _fitted(ops.aten.to(tangent, meta.dtype), result, without)
    same = tangent.meta.shape == meta.shape
    return tangent if same else ops.aten.expand(tangent, meta.shape)
