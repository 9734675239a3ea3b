"""How a decomposition is said: the values by other operators, on canonical parameters.

`decomposes` takes care of the rest: arguments are matched with the schema, half precision is
computed in float32, and results have the dtype and strides that the operator's shape rule says. The
forms of an operator that mutate follow from its functional one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from maquette.aten.common.operators import aten
from maquette.core.dtype import bfloat16, float16, float32
from maquette.core.meta import TensorMeta
from maquette.core.promotion import get_default_dtype
from maquette.dispatch.forms import FunctionalCall
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import find_packet
from maquette.dispatch.schemas.matching import bind
from maquette.dispatch.tags import Tag
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import Decomposition

Rule = Callable[..., Any]
RULES: dict[OpOverload, Rule] = {}
"""Operators of PyTorch's core table with their decompositions, which are called as they are."""
FURTHER: dict[OpOverload, Rule] = {}
"""Such of operators that are core operators themselves."""
_HALVES = (float16, bfloat16)


def decomposes(*names: str, core: bool = True, wide: bool = True) -> Callable[[Rule], Rule]:
    """A decorator: the function gives the values of these overloads, from all their parameters.

    core: whether PyTorch's core table has them. wide: compute half precision in float32.
    """

    def register(rule: Rule) -> Rule:
        for name in names:
            op = overload(name)
            table = RULES if core else FURTHER
            table[op] = finished = _finished(op, rule, wide=wide)
            for form in _forms(op):
                assert form.functional_call is not None
                table[form] = _mutating(form, form.functional_call, finished)
        return rule

    return register


def by_page(name: str) -> None:
    """Take what an operator's page says beside its kernel for its decomposition."""
    op = overload(name)
    RULES[op] = functools.partial(op._op_dk, DispatchKey.CompositeExplicitAutograd)


def by_vmap(*names: str, core: bool = True, wide: bool = True) -> None:
    """Take the definition by other operators, which a page says for vmap, for the decomposition."""
    for name in names:
        said = overload(name).facts.batching
        assert isinstance(said, Decomposition), f"{name}: the page has no batching_decomposition"
        decomposes(name, core=core, wide=wide)(said.function)


def as_kernels(value: Any, *tensors: Any) -> Any:
    """A number as the kernel takes it: among tensors of whole numbers without its fraction."""
    kinds = [t.dtype for t in tensors]
    if isinstance(value, float) and not any(k.is_floating_point or k.is_complex for k in kinds):
        return int(value)
    return value


def overload(name: str) -> OpOverload:
    """The overload of aten with a name such as ``add.Tensor``."""
    packet, _, which = name.partition(".")
    found = find_packet(f"aten::{packet}")
    assert found is not None, name
    op: OpOverload = getattr(found, which or "default")
    return op


def _forms(op: OpOverload) -> list[OpOverload]:
    """The in-place and ``out=`` overloads whose functional twin an operator is."""
    in_place = find_packet(f"{op.name().partition('.')[0]}_")
    named = [] if in_place is None else in_place.op_overloads()
    candidates = dict.fromkeys([*op.overloadpacket.op_overloads(), *op.facts.overloads, *named])
    calls = [(o, o.functional_call) for o in candidates if o is not op]
    twins = [o for o, call in calls if call is not None and call.twin is op]
    return [o for o in twins if Tag.inplace_view not in o.tags]


def _finished(op: OpOverload, rule: Rule, *, wide: bool) -> Rule:
    @functools.wraps(rule)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        params = bind(op._schema, args, kwargs, takes_numbers=op.takes_numbers)
        result = rule(*([_widened(p) for p in params] if wide else params))
        if op.is_view or op.shape_rule is None:
            return result
        return _as_said(op.shape_rule(*[_meta(p) for p in params]), result)

    return decomposition


def _mutating(form: OpOverload, call: FunctionalCall, rule: Rule) -> Rule:
    """The decomposition of a form that mutates: the values, copied where they go."""

    @functools.wraps(rule)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        params = bind(form._schema, args, kwargs, takes_numbers=form.takes_numbers)
        given = zip(call.parameters(params), call.twin._schema.arguments)
        pairs = [(a, p) for p, a in given]
        positional = [p for a, p in pairs if not a.kwarg_only]
        result = rule(*positional, **{a.name: p for a, p in pairs if a.kwarg_only})
        for at, new in call.new_values(result):
            _put(params[at], new)
        kept = [params[at] for at, _ in call.new_values(result)]
        return None if not call.returns else kept[0] if len(kept) == 1 else tuple(kept)

    return decomposition


def _put(target: Any, new: Any) -> None:
    if target.__class__ is tuple:
        for each, value in zip(target, new, strict=True):
            _put(each, value)
        return
    if tuple(target.shape) != tuple(new.shape):
        aten.resize_(target, new.shape)
    aten.copy_(target, new)


def _widened(p: Any) -> Any:
    if p.__class__ is tuple:
        return tuple([_widened(item) for item in p])
    if isinstance(p, Tensor) and p.meta.dtype in _HALVES:
        return aten._to_copy(p, dtype=float32)
    return p


def _meta(p: Any) -> Any:
    if p.__class__ is tuple:
        return tuple([_meta(item) for item in p])
    return p.meta if isinstance(p, Tensor) else p


def _as_said(said: Any, result: Any) -> Any:
    """Results in the dtype and with the strides that a shape rule says."""
    if isinstance(result, (tuple, list)):
        metas = said if isinstance(said, (tuple, list)) else [said]
        return tuple([_as_said(m, r) for m, r in zip(metas, result)])
    if not isinstance(result, Tensor) or not isinstance(said, TensorMeta):
        return result
    if result.meta.dtype is not said.dtype:
        result = aten._to_copy(result, dtype=said.dtype)
    if said.is_symbolic or _same_strides(result.meta, said):
        return result
    return aten.copy(aten.new_empty_strided(result, said.shape, said.strides), result)


def _same_strides(a: TensorMeta, b: TensorMeta) -> bool:
    return a.numel == 0 or all(n == 1 or s == t for n, s, t in zip(a.shape, a.strides, b.strides))


# --- what many rules say ------------------------------------------------------------------------


def reduced(loss: Any, reduction: int) -> Any:
    """A loss as it is (0), its mean (1) or its sum (2)."""
    return loss if reduction == 0 else loss.mean() if reduction == 1 else loss.sum()


def spread(grad: Any, loss_like: Any, reduction: int) -> Any:
    """The gradient of each element of a loss that `reduced` reduced."""
    return grad / loss_like.numel() if reduction == 1 else grad


def floated(x: Any) -> Any:
    """Integers and truth values as numbers of the default dtype, as such operators take them."""
    return x if x.is_floating_point() or x.is_complex() else x.to(get_default_dtype())


def at_dim(index: Any, dim: int, ndim: int) -> Any:
    """A vector as a tensor of ``ndim`` dimensions that runs along ``dim``."""
    shape = [1] * ndim
    shape[dim] = -1
    return index.view(shape)


def indexed(self: Any, dim: int, index: Any) -> Any:
    """``self`` at indices along one dimension, which may have several dimensions."""
    return aten.index(self, [None] * dim + [index])


def counting(count: Any, like: Any) -> Any:
    """``0 .. count - 1`` where a tensor is."""
    return aten.arange(count, device=like.device)


Ints = Sequence[int]
