"""What new nodes take over from the node that is being run (`torch.fx.traceback`).

While `preserve_node_meta` is open, an interpreter tells here which node it runs, and whoever makes
nodes meanwhile copies that node's ``meta``: so a graph made from a graph keeps stack traces.
"""

from __future__ import annotations

import functools
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from maquette.fx.node import Node

F = TypeVar("F", bound=Callable[..., Any])
_COPIED = ("stack_trace", "nn_module_stack", "source_fn_stack", "custom", "recompute", "seq_nr")


class _State(threading.local):
    def __init__(self) -> None:
        self.meta: dict[str, Any] = {}
        self.preserve = False


_state = _State()
OPEN: list[None] = []
"""An item for each block of any thread in which new nodes may take something over."""


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Have new nodes take over the ``meta`` of the node that is run, for the block."""
    before, meta = _state.preserve, _state.meta
    _state.preserve = enable
    _state.meta = dict(meta)
    if enable:
        OPEN.append(None)
    try:
        yield
    finally:
        _state.preserve, _state.meta = before, meta
        if enable:
            OPEN.pop()


def has_preserved_node_meta() -> bool:
    """Whether `preserve_node_meta` is open in this thread."""
    return _state.preserve


def set_stack_trace(stack: list[str]) -> None:
    """Say where new nodes come from, while `preserve_node_meta` is open."""
    if _state.preserve and stack:
        _state.meta["stack_trace"] = "".join(stack)


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Have new nodes carry these values in ``meta["custom"]``, for the block."""
    meta = _state.meta
    _state.meta = {**meta, "custom": {**meta.get("custom", {}), **annotation_dict}}
    OPEN.append(None)
    try:
        yield
    finally:
        _state.meta = meta
        OPEN.pop()


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[F], F]:
    """A decorator: new nodes of the function's calls carry these values, as by `annotate`."""

    def annotated(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return cast(F, call)

    return annotated


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """Have new nodes take over the ``meta`` of ``node``, for the block."""
    if not _state.preserve or not node.meta:
        yield
        return
    before = _state.meta
    _state.meta = dict(node.meta)
    OPEN.append(None)
    try:
        yield
    finally:
        _state.meta = before
        OPEN.pop()


def get_current_meta() -> dict[str, Any]:
    """The ``meta`` that new nodes take over."""
    return _state.meta


_NOTHING: Mapping[str, Any] = MappingProxyType({})


def inherits() -> bool:
    """Whether there may be something that new nodes take over."""
    return bool(_state.meta)


def inherited_meta() -> Mapping[str, Any]:
    """What a new node takes over now."""
    meta = _state.meta
    if not meta or (not _state.preserve and "custom" not in meta):
        return _NOTHING
    return {key: _state.meta[key] for key in _COPIED if key in _state.meta}


def format_stack() -> list[str]:
    """The stack as lines: of the node being run, or else of the caller."""
    if _state.preserve:
        return [_state.meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])
