"""What a plan assumes where a program asks for values that are not there.

A size that only data tells is taken at its largest, which is what a memory must hold; a truth
value is taken as false, as of a padding mask's ``any()``. Each assumption is told with the line
that asked. Numbers are not assumed: a program that computes with one is refused, as always; of a
script (`script.py`), which prints its loss, they are.

While a model is built, small tensors of the cpu are real (`building`), so what a constructor
computes with them, such as the drop rates of its layers, is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from maquette.core.dtype import bool_, dtype
from maquette.core.meta import TensorMeta
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.matching import bind
from maquette.fake.constants import running_for_real
from maquette.fake.exceptions import DataDependentOutputException, DynamicOutputShapeException
from maquette.fake.mode import FakeTensorMode
from maquette.fake.tensor import fresh_fake, tensors_in
from maquette.library.infer import rule_argument
from maquette.tensor.tensor import Tensor

SMALL = 4096  # elements of a tensor that is real while a model is built

Mapping = dict[str, object]


class _Largest:
    """In the place of fresh unbacked numbers: what is assumed of each."""

    def __init__(self) -> None:
        self.said = ""

    def size(self, least: int = 0, largest: object = None) -> int:
        if not isinstance(largest, int):
            raise NotImplementedError
        self.said = f"a size that data tells is at its largest, {largest}"
        return largest

    def truth(self) -> bool:
        self.said = "a truth value that data tells is false"
        return False

    def integer(self) -> int:
        raise NotImplementedError

    def real(self) -> float:
        raise NotImplementedError


def assumed(
    op: OpOverload,
    args: tuple[object, ...],
    kwargs: Mapping | None,
    error: Exception,
    *,
    numbers: bool = False,
) -> tuple[object, str]:
    """The result of an operator that refused for want of data, and what was assumed for it.

    numbers: whether a number that data tells is taken as 1. Raises ``error`` where nothing can be
    assumed: where the operator's page does not say which
    numbers data would tell, where one has no upper bound, or where it is no size or truth value.
    """
    params = bind(op._schema, args, dict(kwargs or {}), takes_numbers=op.takes_numbers)
    fakes = (p for p in params if isinstance(p, Tensor) and p.fake_mode is not None)
    fake = next(fakes, None)
    if fake is None or not isinstance(fake.fake_mode, FakeTensorMode):
        raise error
    new = _Largest()
    if isinstance(error, DataDependentOutputException):
        if fake.meta.dtype is bool_:
            return new.truth(), new.said
        if not numbers:
            raise error
        return _one(fake.meta.dtype), "a number that data tells is 1"
    if op.facts.through_others is not None:
        with fake.fake_mode, _Assuming(new):
            return op.facts.through_others(*params), new.said
    rule = op.facts.unbacked
    if rule is None:
        raise error
    try:
        answer = rule(new, *map(rule_argument, params))
    except NotImplementedError:
        raise error from None
    return _fakes(answer, fake.fake_mode), new.said


def _one(kind: dtype) -> complex:
    return 1 + 0j if kind.is_complex else 1.0 if kind.is_floating_point else 1


def _fakes(answer: object, mode: FakeTensorMode) -> object:
    if isinstance(answer, TensorMeta):
        return fresh_fake(mode, answer)
    return tuple([_fakes(a, mode) for a in answer]) if isinstance(answer, tuple) else answer


class _Assuming(TorchDispatchMode):
    """Assumes what the operators that another is made of need to know."""

    measures_memory = True

    def __init__(self, new: _Largest) -> None:
        super().__init__()
        self._new = new

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: Mapping | None = None,
    ) -> object:
        assert isinstance(func, OpOverload)
        try:
            return func(*args, **(kwargs or {}))
        except DynamicOutputShapeException as error:
            result, self._new.said = assumed(func, args, kwargs, error)
            return result


class _SmallAreReal(TorchDispatchMode):
    """Runs operators on small tensors of the cpu for real, all others as the mode below does."""

    measures_memory = True

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: Mapping | None = None,
    ) -> object:
        given = kwargs or {}
        tensors = list(tensors_in((args, tuple(given.values()))))
        device: Any = given.get("device")
        elsewhere = device is not None and getattr(device, "type", device) != "cpu"
        if elsewhere or any(t.fake_mode is not None for t in tensors):
            return func(*args, **given)
        if not tensors and _numel(func(*args, **given)) > SMALL:
            return func(*args, **given)
        with running_for_real():
            return func(*args, **given)


def _numel(result: object) -> int:
    """Elements of the results; as many as nobody calls small where one is not on the cpu."""
    tensors = list(tensors_in(result))
    if any(t.meta.device.type != "cpu" for t in tensors):
        return SMALL + 1
    return sum(t.numel() for t in tensors)


@contextmanager
def building() -> Iterator[FakeTensorMode]:
    """A block that builds a model: parameters are fake, small tensors of the cpu are real."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, _SmallAreReal():
        yield mode
