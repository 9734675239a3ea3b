"""The level of `forward_ad.dual_level`, where tensors from outside may start to move.

A `DualTensor` is made by the level, so a tensor from outside is never one. Where a dual number is
written into such a tensor, the level keeps a dual of it, its stand-in: calls that are given the
tensor, or a view of its memory, take the stand-in, until the level is left. Calls of which nothing
is dual run on the level below, as though there were no level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from maquette.dispatch.forms import Form
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor
from maquette.tensor.up_to_date import make_view
from maquette.transforms.forward_level import JvpInterpreter, closed, forward_call, tangent_at
from maquette.transforms.interpreter import run_below
from maquette.transforms.wrappers import DualTensor, Wrapper, dual

Call = Callable[[JvpInterpreter, Sequence[object]], object]


class DualLevelInterpreter(JvpInterpreter):
    """The level of `forward_ad.dual_level`: autograd outside of it goes on as ever."""

    __slots__ = ("_stand_ins",)

    explicit = False
    leaves_inference = False

    def __init__(self) -> None:
        super().__init__()
        # By the tensor's id, which the entry keeps from being another's.
        self._stand_ins: dict[int, tuple[Tensor, DualTensor]] = {}

    @classmethod
    def call_of(cls, op: OpOverload) -> Call:
        return cast(Call, _knowing_stand_ins(op))

    def process(self, op: OpOverload, params: Sequence[object]) -> object:
        return self.call_of(op)(self, params)

    def known(self, p: object) -> object:
        """What stands for a tensor at this level: a dual where its memory has begun to move."""
        if not self._stand_ins or not isinstance(p, Tensor) or self._is_own(p):
            return p
        held = self._stand_ins.get(id(p if p._base is None else p._base))
        if held is None or p._base is None:
            return p if held is None else held[1]
        view = dual(p, None, self)
        make_view(view, held[1])
        return view

    def begin_to_move(self, t: Tensor) -> None:
        """Have a tensor from outside be a dual number of this level from now on."""
        root = t if t._base is None else t._base
        self._stand_ins[id(root)] = (root, dual(root, None, self))

    def is_dual(self, p: object) -> bool:
        """Whether a value is a dual number of this level, or has a stand-in that is."""
        return isinstance(p, Tensor) and (self._is_own(p) or self.known(p) is not p)

    def _is_own(self, p: Tensor) -> bool:
        return p.__class__ is DualTensor and cast(Wrapper, p)._interpreter is self

    def forget(self) -> None:
        """Let go of the stand-ins: the level is left."""
        self._stand_ins.clear()


def _knowing_stand_ins(
    op: OpOverload,
) -> Callable[[DualLevelInterpreter, Sequence[object]], object]:
    written = [i for i, a in enumerate(op._schema.arguments) if a.is_write]
    call = forward_call(op)

    def with_stand_ins(level: DualLevelInterpreter, params: Sequence[object]) -> object:
        flat = _flat(params)
        if not any(level.is_dual(p) for p in flat):
            return run_below(level, op, params)  # as outside: what it gives, views too
        moving = tls.st.forward_enabled and any(tangent_at(p, level) is not None for p in flat)
        if moving and op.form is Form.OUT:
            raise NotImplementedError(
                f"Trying to use forward AD with {op._opname} that does not support it because it "
                f"is an out= function: leave out= away, and copy_() the result"
            )
        targets = _flat([params[i] for i in written])
        outside = [t for t in targets if isinstance(t, Tensor) and not level.is_dual(t)]
        if outside and not moving:
            return _run_outside(level, op, params)
        for t in outside:
            level.begin_to_move(t)
        given = [
            tuple([level.known(t) for t in cast(tuple[object, ...], p)])
            if p.__class__ is tuple
            else level.known(p)
            for p in params
        ]
        return _as_given(call(level, given), given, params)

    return with_stand_ins


def _run_outside(level: DualLevelInterpreter, op: OpOverload, params: Sequence[object]) -> object:
    """Write to tensors from outside what does not move: below the level."""
    values = [
        tuple([_value(t, level) for t in cast(tuple[object, ...], p)])
        if p.__class__ is tuple
        else _value(p, level)
        for p in params
    ]
    result = run_below(level, op, values)
    results = result if isinstance(result, (tuple, list)) else (result,)
    known = {id(v): p for v, p in zip(_flat(values), _flat(params), strict=True)}
    made = [known[id(r)] if id(r) in known else closed(r, None, level) for r in results]
    return type(result)(made) if isinstance(result, (tuple, list)) else made[0]


def _value(p: object, level: DualLevelInterpreter) -> object:
    return p._value if isinstance(p, DualTensor) and p._interpreter is level else p


def _as_given(result: object, given: Sequence[object], params: Sequence[object]) -> object:
    """A result with the caller's own tensors in the places of what stood for them."""
    if isinstance(result, (tuple, list)):
        return type(result)([_as_given(r, given, params) for r in result])
    for mine, p in zip(_flat(given), _flat(params), strict=True):
        if result is mine:
            return p
    return result


def _flat(params: Sequence[object]) -> list[object]:
    found: list[object] = []
    for p in params:
        if p.__class__ is tuple:
            found += cast(tuple[object, ...], p)
        else:
            found.append(p)
    return found


__all__ = ["DualLevelInterpreter"]
