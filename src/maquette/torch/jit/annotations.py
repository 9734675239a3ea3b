"""`torch.jit.annotations`: marks of types for a script compiler, which is not here."""

from __future__ import annotations

import types
from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  # by name


class BroadcastingListCls:
    """``BroadcastingList2[int]``: a number, or a list of so many."""

    def __getitem__(self, types: object) -> None:
        """Nothing: no compiler reads it."""


BroadcastingList1 = BroadcastingListCls()
BroadcastingList2 = BroadcastingListCls()
BroadcastingList3 = BroadcastingListCls()
BroadcastingList4 = BroadcastingListCls()
BroadcastingList5 = BroadcastingListCls()
BroadcastingList6 = BroadcastingListCls()


def is_function_or_method(the_callable: object) -> bool:
    """Whether a callable is a function or a method of Python."""
    return isinstance(the_callable, types.FunctionType | types.MethodType)


__all__ = ["Any", "Dict", "List", "Optional", "Tuple", "Union", "is_function_or_method"]
