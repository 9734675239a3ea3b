"""What an author of a higher-order operator calls: `register_fake`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from maquette.dispatch.higher_order import HigherOrderOperator
from maquette.fake.mode import FakeTensorMode

F = TypeVar("F", bound=Callable[..., Any])


def register_fake(
    hop: HigherOrderOperator, fn: F | None = None, *, skip_cache: bool = False
) -> F | Callable[[F], F]:
    """Have ``fn(*args, **kwargs)`` give an operator's results on fake tensors; a decorator too.

    It runs inside the fake mode. skip_cache: said for PyTorch; no call of one is remembered here.
    TypeError for what is no higher-order operator.
    """
    if not isinstance(hop, HigherOrderOperator):
        raise TypeError(
            f"register_fake: expected a HigherOrderOperator, got {hop!r}; for an operator with a "
            f"schema use maquette.library.register_fake"
        )

    def register(function: F) -> F:
        @hop.py_impl(FakeTensorMode)
        def on_fakes(mode: FakeTensorMode, *args: Any, **kwargs: Any) -> Any:
            with mode:
                return function(*args, **kwargs)

        return function

    return register if fn is None else register(fn)


__all__ = ["register_fake"]
