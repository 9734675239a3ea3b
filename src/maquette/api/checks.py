"""Assertions that programs write as calls, so that traces can record them."""

from __future__ import annotations

from maquette.dispatch.torch_function import overridable


def _assert(condition: object, message: str) -> None:
    """AssertionError, with the message, unless the condition is true."""
    assert condition, message


_assert = overridable(_assert)
_assert.__module__ = "maquette.torch"  # programs know it as torch._assert
