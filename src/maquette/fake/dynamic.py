"""Operators whose result only data tells, where a mode has a shape environment.

What data would tell becomes a fresh unbacked number: the size of `nonzero`, the value of `item`.
Which number stands where is said on the operator's page (the role `unbacked`). The same tensor,
not written to since, gives the same numbers again (`SizeMemos`, spec F71-F76).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from maquette.core.meta import TensorMeta
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.fake.tensor import FakeTensor, fresh_fake, tensors_in
from maquette.library.infer import rule_argument
from maquette.symbolic.expr import MAX_INT
from maquette.tensor.keys import ADINPLACE

if TYPE_CHECKING:
    from maquette.fake.mode import FakeTensorMode
    from maquette.symbolic import ShapeEnv

Numbers = list[object]
ITEM = "aten::_local_scalar_dense"


class FreshNumbers:
    """Makes the numbers that data would tell, or hands out those of an earlier call in order."""

    def __init__(self, env: ShapeEnv, known: Numbers | None) -> None:
        self._env = env
        self._known = known
        self.given: Numbers = []

    def _next(self, make: Callable[[], object]) -> Any:
        made = make() if self._known is None else self._known[len(self.given)]
        self.given.append(made)
        return made

    def size(self, least: int = 0, largest: object = None) -> Any:
        """A size from ``least`` to ``largest``, which may be symbolic: then to its upper bound.

        Where ``largest`` can be no more than 0 the size is 0.
        """
        if largest is not None and not isinstance(largest, int):
            bound = self._env.facts.bounds(self._env.poly_of(largest)).upper
            largest = int(bound) if bound < MAX_INT else MAX_INT - 1
        if largest == 0:
            return 0
        top = MAX_INT if largest is None else largest
        return self._next(lambda: self._env.new_size(least, top))

    def integer(self) -> Any:
        """An int of any size."""
        return self._next(self._env.create_unbacked_symint)

    def real(self) -> Any:
        """A float."""
        return self._next(self._env.create_unbacked_symfloat)

    def truth(self) -> Any:
        """A bool."""
        return self._next(self._env.create_unbacked_symbool)


class SizeMemos:
    """The numbers that operators gave for tensors of one mode, by tensor and operator."""

    def __init__(self) -> None:
        self._entries: dict[
            int, tuple[weakref.ref[FakeTensor], dict[object, tuple[int, int, Numbers]]]
        ] = {}

    def _of(self, t: FakeTensor) -> dict[object, tuple[int, int, Numbers]]:
        found = self._entries.get(id(t))
        if found is None or found[0]() is not t:
            key, entries = id(t), self._entries
            reference = weakref.ref(t, lambda gone: _drop(entries, key, gone))
            found = entries[key] = (reference, {})
        return found[1]

    def get(self, t: FakeTensor, key: object, epoch: int) -> Numbers | None:
        """The numbers, if the tensor was not written to and the epoch is the same.

        A float that has a hint stays through epochs (F76): it is an input's.
        """
        if not t._keys & ADINPLACE or id(t) not in self._entries:
            return None
        found = self._of(t).get(key)
        if found is None or found[0] != t._version:
            return None
        kept = found[1] == epoch or all(map(_is_hinted_float, found[2]))
        return found[2] if kept else None

    def put(self, t: FakeTensor, key: object, epoch: int, numbers: Numbers) -> None:
        """Remember the numbers; of an inference tensor nothing, since nobody counts its writes."""
        if t._keys & ADINPLACE:
            self._of(t)[key] = (t._version, epoch, numbers)


def _drop(entries: dict[int, Any], key: int, gone: object) -> None:
    found = entries.get(key)
    if found is not None and found[0] is gone:
        del entries[key]


def _is_hinted_float(number: Any) -> bool:
    return hasattr(number, "node") and number.node.pytype is float and number.node.has_hint()


def result_with_unbacked(op: OpOverload, mode: FakeTensorMode, params: Sequence[object]) -> object:
    """The result of an operator that only data could tell, with fresh numbers in it.

    NotImplemented where the mode has no environment, or that does not allow it, or where the page
    does not say how.
    """
    env = mode.shape_env
    if env is None or not _is_allowed(op, mode, env):
        return NotImplemented
    if op.facts.through_others is not None:
        with mode:
            return op.facts.through_others(*params)
    rule = op.facts.unbacked
    if rule is None:
        return NotImplemented
    of = next(cast("list[FakeTensor]", list(tensors_in(params))).__iter__(), None)
    plain = tuple(p for p in params if not isinstance(p, FakeTensor))
    key = ITEM if op.name() == ITEM else (op, repr(plain))
    memoised = op.facts.memoised and of is not None
    known = mode.size_memos.get(of, key, mode.epoch) if memoised and of is not None else None
    new = FreshNumbers(env, known)
    answer = rule(new, *map(rule_argument, params))
    if memoised and of is not None and known is None:
        mode.size_memos.put(of, key, mode.epoch, new.given)
    return _as_fakes(answer, mode)


def _is_allowed(op: OpOverload, mode: FakeTensorMode, env: ShapeEnv) -> bool:
    if Tag.data_dependent_output in op.tags:
        return env.settings.allow_scalar_outputs or mode.allow_scalar_outputs
    return env.settings.allow_dynamic_output_shape_ops


def _as_fakes(answer: object, mode: FakeTensorMode) -> object:
    if isinstance(answer, TensorMeta):
        return fresh_fake(mode, answer)
    if isinstance(answer, tuple):
        return tuple([_as_fakes(a, mode) for a in answer])
    return answer
