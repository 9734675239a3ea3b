"""Single checks under their older names; `opcheck` here takes a list of utilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from maquette.fx import make_fx
from maquette.opcheck import opcheck as opcheck
from maquette.opcheck.closeness import how_they_differ
from maquette.opcheck.copies import copied_arguments, map_tensors, tensors_in
from maquette.opcheck.framework import maquette_framework
from maquette.opcheck.operators import checked
from maquette.opcheck.utilities import test_autograd_registration, test_faketensor


def autograd_registration_check(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """The derivative is registered at an autograd key (L117)."""
    test_autograd_registration(checked(op), args, kwargs)


def fake_check(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """The fake gives the metadata of the real call (L118)."""
    test_faketensor(checked(op), args, kwargs)


def make_fx_check(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    tracing_mode: Literal["real", "fake", "symbolic"],
    assert_close: Callable[[Any, Any], None] | None = None,
    randomize_data: bool = False,
) -> None:
    """A function's graph, traced by `make_fx` in a mode, computes what the function does."""
    on = maquette_framework()
    expected = func(*args, **kwargs)
    named = copied_arguments(on, args, kwargs)
    flat = tensors_in(named, on)

    def program(*tensors: Any) -> Any:
        given = iter(tensors)

        def chosen(t: Any) -> Any:
            return next(given)

        placed = map_tensors(chosen, named[0], on), map_tensors(chosen, named[1], on)
        return func(*placed[0], **placed[1])

    graph = make_fx(program, tracing_mode=tracing_mode)(*flat)
    found = graph(*flat)
    if assert_close is not None:
        if not randomize_data:
            assert_close(expected, found)
        return
    for e, f in zip(tensors_in(expected, on), tensors_in(found, on), strict=True):
        problem = "" if randomize_data else how_they_differ(on, e, f)
        assert not problem, f"make_fx_check: {tracing_mode}: {problem}"


def aot_autograd_check(
    func: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic: bool,
    assert_raises_regex_fn: Callable[..., Any] | None = None,
    assert_equals_fn: Callable[..., Any] | None = None,
    check_gradients: bool | str = "auto",
    try_check_data_specialization: bool = False,
    skip_correctness_check: bool = False,
    disable_functionalization: bool = False,
) -> None:
    """The functionalized graph of forward and backward computes what eager does (L119)."""
    from maquette.opcheck.utilities import aot_dispatch  # noqa: PLC0415

    aot_dispatch(checked(func), args, kwargs, dynamic=dynamic)
