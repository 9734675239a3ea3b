"""What functionalization does with one operator call, whoever the owner of the wrappers is.

`functionalized` gives an operator's handler ``(owner, params)``, by its form: composite operators
are taken apart, functional ones run on values, in-place, ``out=`` and mutable ones through their
functional twin, views are remembered as steps. Everything is read off schemas and pages; a page may
give a handler of its own (`memory.py` has those of `set_`, `resize_`, `detach_`, `lift_fresh`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from maquette.core.meta import TensorMeta
from maquette.core.remembered import epoch, remember
from maquette.core.strides import overlaps
from maquette.dispatch.forms import Form, FunctionalCall, Return, returns_of
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import ops
from maquette.dispatch.schemas.matching import normalise
from maquette.dispatch.tags import Tag
from maquette.tensor.tensor import Tensor
from maquette.transforms.functional.storage import (
    ViewStep,
    seen_from,
)
from maquette.transforms.functional.wrapper import (
    FunctionalWrapper,
    Owner,
    is_functional,
    steps_with,
    view_wrapper,
    wrap,
)
from maquette.transforms.rules import operators
from maquette.transforms.wrappers import Wrapper, revived

Params = tuple[Any, ...]
Handler = Callable[[Owner, Params], object]


def functionalized(op: OpOverload) -> Handler:
    """The handler of an operator."""
    facts = op.facts
    own = facts.functionalization
    if own is not None:
        return lambda owner, params: own(op, owner, params)
    if facts.conjugate_refusal or facts.negative_refusal:
        return _refusing_bits(op, _handler(op))
    return _handler(op)


def _handler(op: OpOverload) -> Handler:
    if (definition := op.facts.without_mutation) is not None:
        return lambda owner, params: definition(*params)
    if op._can_decompose():
        return _composite(op)
    if op.facts.body is not None:
        return _seen_through(op, op.facts.body)
    if op.facts.declared_form is not None and op.form is Form.FUNCTIONAL:
        return _by_declared_form(op, op.facts.declared_form)
    if not op._schema.is_mutable:
        kinds = returns_of(op)
        return _viewing(op) if any(r.kind == "view" for r in kinds) else on_values(op)
    twin = op.functional_call
    if Tag.inplace_view in op.tags and twin is not None and twin.twin.is_view:
        return _relaying(op, twin.twin)
    return _mutating(op, twin)


def _refusing_bits(op: OpOverload, handler: Handler) -> Handler:
    """Refuse what the program sees as lazily conjugated: its value may be so no longer."""
    facts = op.facts

    def checked(owner: Owner, params: Params) -> object:
        for t in tensors_of(params):
            if facts.conjugate_refusal and t.is_conj():
                raise RuntimeError(facts.conjugate_refusal)
            if facts.negative_refusal and t.is_neg():
                raise RuntimeError(facts.negative_refusal)
        return handler(owner, params)

    return checked


# --- arguments --------------------------------------------------------------------------------


def tensors_of(params: Sequence[Any]) -> Iterator[Any]:
    """The tensors among parameters, and in lists of them."""
    for p in params:
        if p.__class__ is tuple:
            for item in p:
                if isinstance(item, Tensor):
                    yield item
        elif isinstance(p, Tensor):
            yield p


_PLAIN = frozenset((int, float, bool, str, type(None)))


def values_of(params: Params, owner: Owner) -> Params:
    """The parameters with every wrapper of this owner replaced by its value, up to date."""
    return tuple(_unwrapped(params, owner, []))


def _unwrapped(params: Params, owner: Owner, found: list[FunctionalWrapper]) -> list[Any]:
    """`values_of`, as a list; adds the owner's wrappers to ``found``."""
    values: list[Any] = []
    for p in params:
        if p.__class__ is FunctionalWrapper and p._interpreter is owner:
            found.append(p)
            values.append(p._value if p._generation == p._storage.generation else p.sync())
        elif p.__class__ is tuple:
            sizes = not p or p[0].__class__ is int  # then all are numbers
            values.append(p if sizes else tuple(_unwrapped(p, owner, found)))
        elif p.__class__ in _PLAIN:
            values.append(p)
        elif isinstance(p, Wrapper) and not p._interpreter.live:
            values += _unwrapped((revived(p),), owner, found)  # in a backward pass, say
        elif p.__class__ is FunctionalWrapper and p._interpreter in owner.continued:
            values.append(p.sync())
        else:
            values.append(p)
    return values


def _remembered_shape(op: OpOverload) -> Callable[[Params], Any]:
    """The operator's shape rule as a function of parameters, which remembers its answers.

    It is asked for each call of a view or mutation, though the operator's own kernel will ask, too:
    the program's tensor may be laid out otherwise than its value.
    """
    known: dict[Any, Any] = {}
    rule = op.shape_rule
    assert rule is not None

    def shape(params: Params) -> Any:
        metas: list[Any] = []
        parts: list[Any] = []
        for p in params:
            if isinstance(p, Tensor):
                metas.append(p.meta)
                parts.append(p.meta)
                continue
            meta = tuple([_meta(i) for i in p]) if p.__class__ is tuple else p
            metas.append(meta)
            # 1 and 1.0 are equal as keys and not as arguments.
            parts += meta, tuple(map(type, meta)) if meta.__class__ is tuple else meta.__class__
        key = tuple(parts)
        try:
            found = known.get(key, known)
        except TypeError:  # something without a hash, as symbolic sizes are
            return rule(*metas)
        if found is not known:
            return found
        since = epoch()
        found = rule(*metas)
        if not any(p.meta.is_symbolic for p in tensors_of(params)):
            remember(known, key, found, since)
        return found

    return shape


def _metas(params: Params) -> list[Any]:
    """What a shape rule takes: metas for tensors, also in lists."""
    return [tuple([_meta(i) for i in p]) if p.__class__ is tuple else _meta(p) for p in params]


def _meta(p: Any) -> Any:
    return p.meta if isinstance(p, Tensor) else p


# --- functional and composite ------------------------------------------------------------------


def _composite(op: OpOverload) -> Handler:
    key = DispatchKey.CompositeImplicitAutograd
    kernel = op.kernel_at(key)
    assert kernel is not None
    built = kernel.factory(op, 0)
    assert built is not None

    def handler(owner: Owner, params: Params) -> object:
        return built(0, *params)

    return handler


def _seen_through(op: OpOverload, body: Callable[..., object]) -> Handler:
    schema = op._schema

    def handler(owner: Owner, params: Params) -> object:
        args, kwargs = normalise(schema, params)
        return body(*args, **kwargs)

    return handler


def _by_declared_form(op: OpOverload, form: Callable[..., OpOverload | None]) -> Handler:
    """What mutates without saying so, by the form that says it where something is mutated."""
    handlers: dict[OpOverload | None, Handler] = {None: on_values(op)}

    def handler(owner: Owner, params: Params) -> object:
        declared = form(*params)
        if declared not in handlers:
            handlers[declared] = functionalized(declared)  # type: ignore[arg-type]  # None is there
        return handlers[declared](owner, params)

    return handler


def on_values(op: OpOverload) -> Handler:
    """The handler of an operator that neither mutates nor aliases: it runs whole, on values."""

    def handler(owner: Owner, params: Params) -> object:
        mine: list[FunctionalWrapper] = []
        result = owner.call(op, _unwrapped(params, owner, mine))
        if result.__class__ is Tensor and len(mine) == 1:
            (only,) = mine
            return only if result is only._value else wrap(result, owner)
        if mine or next(tensors_of(params), None) is None:
            return _wrapped(result, owner, mine)
        return result

    return handler


def _wrapped(result: Any, owner: Owner, mine: Sequence[FunctionalWrapper] = ()) -> Any:
    """A result with its tensors wrapped; one that is the value of an argument is that argument."""
    if isinstance(result, Tensor):
        for t in mine:
            if t._value is result:
                return t
        return wrap(result, owner)
    if isinstance(result, (tuple, list)):
        return type(result)([_wrapped(r, owner, mine) for r in result])
    return result


# --- views ------------------------------------------------------------------------------------


def _viewing(op: OpOverload) -> Handler:
    source = next(r.source for r in returns_of(op) if r.kind == "view")
    assert source == 0, f"{op}: what is viewed comes first"
    shape = None if op.shape_rule is None else _remembered_shape(op)
    by_value = op._opname != "as_strided"  # it sees memory, which may lie otherwise

    def handler(owner: Owner, params: Params) -> object:
        origin = params[0]
        if not (origin.__class__ is FunctionalWrapper and origin._interpreter is owner):
            origin = revived(origin)
            if not is_functional(origin, owner):
                return owner.call(op, values_of(params, owner))
        step = ViewStep(op, values_of(params[1:], owner), -1, origin.meta, owner.copies)
        same = origin._value.meta is origin.meta and not step.copies and by_value
        metas = None if shape is None or same else shape(params)
        result = first_look(origin, step, owner)
        if not isinstance(result, (list, tuple)):
            return view_wrapper(origin, result, _meta_or(metas, result), step)
        known = metas if isinstance(metas, (list, tuple)) else [None] * len(result)
        return [
            view_wrapper(origin, part, _meta_or(meta, part), step._replace(part=i))
            for i, (part, meta) in enumerate(zip(result, known, strict=True))
        ]

    return handler


def _meta_or(meta: Any, value: Tensor) -> TensorMeta:
    return meta if isinstance(meta, TensorMeta) else value.meta


def first_look(origin: FunctionalWrapper, step: ViewStep, owner: Owner) -> Any:
    """What a view operator gives for a value that may be out of date: the view is, too, then."""
    *before, last = steps_with(origin, step)
    if len(before) < len(origin._steps):
        return last.apply(seen_from(origin._storage.base, tuple(before), owner.call), owner.call)
    return last.apply(origin._value, owner.call)


def _relaying(op: OpOverload, view: OpOverload) -> Handler:
    """`t_` and the like: the wrapper itself becomes a view of its memory."""

    def handler(owner: Owner, params: Params) -> object:
        target = params[0]
        if not is_functional(target, owner):
            return owner.call(op, values_of(params, owner))
        given = values_of(params[1:], owner)
        step = ViewStep(view, given, -1, target.meta, owner.copies)
        assert op.shape_rule is not None
        meta = op.shape_rule(*_metas(params))
        target._value = first_look(target, step, owner)
        relay(target, step, meta)
        return target

    return handler


def relay(target: FunctionalWrapper, step: ViewStep, meta: Any) -> None:
    """Have a wrapper be one step further from its base, with another meta."""
    assert isinstance(meta, TensorMeta)
    target._steps = steps_with(target, step)
    target.meta = meta
    target._metadata_changed = True


# --- mutation ---------------------------------------------------------------------------------


def _mutating(op: OpOverload, twin: FunctionalCall | None) -> Handler:
    arguments = op._schema.arguments
    mutated = [i for i, a in enumerate(arguments) if a.is_write]
    kinds = returns_of(op)
    check = None if op.shape_rule is None or twin is None else _remembered_shape(op)
    plain = twin is not None and _is_plain(op, twin)

    def handler(owner: Owner, params: Params) -> object:
        for t in tensors_of([params[i] for i in mutated]):
            if not is_functional(t, owner):
                refuse_mixed(op, t, params, owner)
                return owner.call(op, values_of(params, owner))
            if t._steps and not t.meta.is_dense:
                _refuse_overlap(op, t)
        if check is not None:
            check(params)  # what the form refuses and its twin does not
        values = values_of(params, owner)
        if plain:
            assert twin is not None
            target = params[mutated[0]]
            target.exchange(owner.call(twin.twin, values))
            return target
        if twin is None:
            news, results = _without_twin(op, owner, mutated, values)
        else:
            result = owner.call(twin.twin, twin.parameters(values))
            news, results = twin.new_values(result), twin.results(result)
        for at, new in news:
            _exchange(params[at], new)
        return _returned(kinds, params, results, owner)

    return handler


def _refuse_overlap(op: OpOverload, t: FunctionalWrapper) -> None:
    """Refuse to mutate a view that shows a place twice: which of its values would it hold?"""
    if not t.meta.is_symbolic and overlaps(t.meta.shape, t.meta.strides):
        raise RuntimeError(
            f"{op}: encountered a tensor being mutated that has internal overlap: {t.meta} with "
            f"strides {t.meta.strides} shows one place in memory more than once. Mutate a clone()"
        )


def _is_plain(op: OpOverload, twin: FunctionalCall) -> bool:
    """Whether the twin takes the same parameters and gives the one that is mutated and returned."""
    same = twin.arguments == tuple(range(len(op._schema.arguments)))
    one = len(twin.mutated) == len(twin.returns) == 1 and twin.returns[0].kind == "written"
    single = one and len(twin.twin._schema.returns) == 1
    return same and single and op._schema.arguments[twin.mutated[0]].type.kind == "tensor"


def refuse_mixed(op: OpOverload, at: Any, params: Params, owner: Owner) -> None:
    """Refuse to mutate ``at``, which is not functionalized, with what is.

    What a higher-order operator's function captures of the functionalized program is read only.
    """
    captured = isinstance(at, FunctionalWrapper) and at.owner() in owner.continued
    if not captured and not any(is_functional(t, owner) for t in tensors_of(params)):
        return
    name = next(
        (
            a.name
            for a, p in zip(op._schema.arguments, params)
            if any(at is t for t in tensors_of([p]))
        ),
        "self",
    )
    raise RuntimeError(
        f"{op}: mutating a non-functional tensor with a functional tensor is not allowed: '{name}' "
        f"({at.meta}) was made outside of what is functionalized. Please ensure that all of your "
        f"inputs are wrapped inside of a functionalize() call."
    )


def _exchange(target: Any, new: Any) -> None:
    """Give a wrapper, or a list of them, its new value."""
    if target.__class__ is tuple:
        for t, n in zip(target, new, strict=True):
            _exchange(t, n)
    else:
        target.exchange(new)


def _without_twin(
    op: OpOverload, owner: Owner, mutated: Sequence[int], values: Params
) -> tuple[list[tuple[int, Any]], tuple[Any, ...]]:
    """Call a form without functional twin as one functional call, or on clones."""
    with owner.beneath():  # imported by the first such call: it is of a layer above
        found = ops.higher_order.auto_functionalized_v2.of_values(op, values)
    if found is None:
        return _on_clones(op, owner, mutated, values)
    count = len(op._schema.returns)
    news = iter(found[max(count, 1) :])
    taken = [(i, _as_given(values[i], news)) for i in mutated]
    return [(i, new) for i, new in taken if new is not None], found[:count]


def _as_given(value: Any, news: Iterator[Any]) -> Any:
    """The next new values, in the structure of an argument."""
    if value.__class__ is tuple:
        return tuple([_as_given(v, news) for v in value])
    return next(news) if isinstance(value, Tensor) else None


def _on_clones(
    op: OpOverload, owner: Owner, mutated: Sequence[int], values: Params
) -> tuple[list[tuple[int, Any]], tuple[Any, ...]]:
    """Run a form without functional twin on clones of what it mutates."""
    given = list(values)
    with owner.beneath():
        for i in mutated:
            given[i] = _cloned(given[i])
    result = owner.call(op, tuple(given))
    results = () if result is None else result if isinstance(result, tuple) else (result,)
    return [(i, given[i]) for i in mutated if given[i] is not None], results


def _cloned(value: Any) -> Any:
    if value.__class__ is tuple:
        return tuple([_cloned(v) for v in value])
    return operators.clone(value) if isinstance(value, Tensor) else value


def _returned(kinds: Sequence[Return], params: Params, results: Sequence[Any], owner: Owner) -> Any:
    """The form's results: mutated arguments themselves, the rest of the twin's wrapped."""
    found = [
        _unlisted(params[r.source]) if r.kind == "written" else _wrapped(results[n], owner)
        for n, r in enumerate(kinds)
    ]
    return None if not found else found[0] if len(found) == 1 else tuple(found)


def _unlisted(p: Any) -> Any:
    return list(p) if p.__class__ is tuple else p


__all__ = [
    "first_look",
    "functionalized",
    "on_values",
    "refuse_mixed",
    "relay",
    "tensors_of",
    "values_of",
]
