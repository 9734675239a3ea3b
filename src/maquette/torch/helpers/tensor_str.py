"""`torch._tensor_str`: how tensors print, under torch's private names.

The work is done by `maquette.tensor.printing`; here are the forms that programs with tensors of
their own call for a ``__repr__``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maquette.tensor.printing import (
    array_of,
    format_array,
    get_printoptions,
    options_in_force,
    printoptions,
    set_printoptions,
    tensor_text,
    with_suffixes,
)
from maquette.tensor.tensor import Tensor


class _Options:
    """The options that `set_printoptions` sets, as attributes that are read when asked for."""

    def __getattr__(self, name: str) -> object:
        return getattr(options_in_force(), name)


PRINT_OPTS = _Options()


def _tensor_str(self: Tensor, indent: int) -> str:
    """The values alone, further lines indented; ``...`` where there are none."""
    array = array_of(self)
    return "..." if array is None else format_array(np.asarray(array), indent, options_in_force())


def _add_suffixes(
    tensor_str: str, suffixes: Sequence[str], indent: int, force_newline: bool
) -> str:
    """The text, what is to be said of the tensor, and the closing bracket, in lines."""
    first = f",\n{' ' * indent}{suffixes[0]}" if force_newline and suffixes else ""
    rest = suffixes[1:] if first else suffixes
    return with_suffixes(tensor_str + first, rest, indent, options_in_force().linewidth)


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """What ``repr`` of a tensor gives. tensor_contents: stands in the place of the values."""
    return tensor_text(self, tensor_contents)


_str_intern = _str

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]
