"""Which tensor of offsets or lengths a nested int stands for.

The number is tied to the tensor object and dies with it; numbers are global and never given again.
"""

from __future__ import annotations

import itertools

from maquette.symbolic.nested_ints import NestedInt
from maquette.tensor.tensor import Tensor

_numbers = itertools.count(1)
_NUMBER = "_nested_int_number"


def nested_int_of(t: Tensor) -> int | None:
    """The number of the nested int that is tied to a tensor; None where none is."""
    return vars(t).get(_NUMBER)


def nested_size(t: Tensor) -> NestedInt:
    """The nested int of a tensor of offsets or lengths, tied to it when first asked for."""
    number = vars(t).setdefault(_NUMBER, 0) or next(_numbers)
    vars(t)[_NUMBER] = number
    return NestedInt(number)


def tie(t: Tensor, number: int) -> None:
    """Give a tensor that stands for another the other's number."""
    vars(t)[_NUMBER] = number
