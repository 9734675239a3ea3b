"""`profiler::_record_function_*`: a labelled range of a program, for a profiler.

Where none is on a range is its label and nothing more. A graph keeps a range all the same. Nothing
orders it among operators with effects.
"""

from __future__ import annotations

import itertools

from maquette.core.dtype import int64
from maquette.core.ranges import RangeListener, begin_range, end_range
from maquette.library.effects import register_effectful_op
from maquette.library.objects.script_objects import register_class
from maquette.library.page import define
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators


class RecordedRange:
    """What `_record_function_enter_new` gives: the open range, to be handed to the exit."""

    def __init__(self, name: str, args: str | None) -> None:
        self.name = name
        self.args = args
        self.begun = begin_range(name, args)

    @classmethod
    def unheard(cls, name: str) -> RecordedRange:
        """A range of whose beginning nobody was told."""
        made = cls.__new__(cls)
        made.name, made.args, made.begun = name, None, []
        return made


register_class("profiler::_RecordFunction", RecordedRange)
_HANDLE = "__torch__.torch.classes.profiler._RecordFunction"

_record_function_enter_new = define(
    f"profiler::_record_function_enter_new(str name, str? args=None) -> {_HANDLE}"
)
_record_function_enter_new.side_effect()
_record_function_exit = define(
    f"profiler::_record_function_exit._RecordFunction({_HANDLE} record) -> ()"
)
register_effectful_op("profiler::_record_function_exit._RecordFunction", None)


@_record_function_enter_new.explicit
def record_function_enter_new_explicit(name: str, args: str | None = None) -> RecordedRange:
    return RecordedRange(name, args)


@_record_function_exit.explicit
def record_function_exit_explicit(record: RecordedRange) -> None:
    end_range(record.begun)


# --- before there were objects: a range is a number in a tensor ----------------------------------

_record_function_enter = define(
    "profiler::_record_function_enter(str name, str? args=None) -> Tensor"
)
_record_function_enter.side_effect()
_record_function_exit_of_number = define("profiler::_record_function_exit(Tensor handle) -> ()")
_next_number = itertools.count().__next__
_open: dict[int, list[tuple[RangeListener, object]]] = {}


@_record_function_enter.explicit
def record_function_enter_explicit(name: str, args: str | None = None) -> Tensor:
    number = _next_number()
    _open[number] = begin_range(name, args)
    handle: Tensor = operators.full((), number, dtype=int64)
    return handle


@_record_function_exit_of_number.explicit
def record_function_exit_of_number_explicit(handle: Tensor) -> None:
    end_range(_open.pop(int(handle), []))
