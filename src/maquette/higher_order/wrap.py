"""Calls kept whole: `wrap`, and an operator with the state it draws from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maquette.core.device import device
from maquette.higher_order.common import Function, FunctionalHop, record
from maquette.tensor.streams.generator import generator_of
from maquette.tensor.tensor import Tensor


class Wrap(FunctionalHop):
    """``higher_order.wrap(func, *args, **kwargs)``: a call that a trace keeps as one node."""

    def __init__(self) -> None:
        super().__init__("wrap")

    def eager(self, func: Function, *args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    def operands_of(self, at: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args[1:]


class RunAndSaveRngState(FunctionalHop):
    """``higher_order.run_and_save_rng_state(op, *args)``: ``(state before, op(*args))``."""

    def __init__(self) -> None:
        super().__init__("run_and_save_rng_state")

    def eager(self, op: Function, *args: Any, **kwargs: Any) -> Any:
        return generator_of(_device_of(args, kwargs)).get_state(), op(*args, **kwargs)

    def functional(self, ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with ctx.redispatch_to_next():
            result = self(*ctx.unwrap_tensors(args), **ctx.unwrap_tensors(kwargs))
        return ctx.wrap_tensors(result)

    def traced(self, mode: Any, *args: Any, **kwargs: Any) -> Any:
        return record(mode, self, args, kwargs)


class RunWithRngState(RunAndSaveRngState):
    """``higher_order.run_with_rng_state(state, op, *args)``: ``op`` draws what it drew then."""

    def __init__(self) -> None:
        FunctionalHop.__init__(self, "run_with_rng_state")

    def eager(  # type: ignore[override]  # the state comes first
        self, rng_state: Tensor, op: Function, *args: Any, **kwargs: Any
    ) -> Any:
        with _drawing_from(rng_state, _device_of(args, kwargs)):
            return op(*args, **kwargs)


@contextmanager
def _drawing_from(state: Tensor, where: Any) -> Iterator[None]:
    generator = generator_of(where)
    before = generator.get_state()
    generator.set_state(state)
    try:
        yield
    finally:
        generator.set_state(before)


def _device_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The device that a call draws on: as it says, or of its first tensor."""
    named = kwargs.get("device")
    first = next((a.device for a in args if isinstance(a, Tensor)), None)
    return device(named) if named is not None else first or device("cpu")


wrap = Wrap()
run_and_save_rng_state = RunAndSaveRngState()
run_with_rng_state = RunWithRngState()

__all__ = [
    "RunAndSaveRngState",
    "RunWithRngState",
    "Wrap",
    "run_and_save_rng_state",
    "run_with_rng_state",
    "wrap",
]
