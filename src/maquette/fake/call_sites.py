"""Where in a program something happens: stacks kept for later, and notes on errors.

A stack is kept as code objects and line numbers (1 us for 10 frames) and put into words only when
it is read. An error in fake mode gets a note with the call, the metas it was given, the line of the
program and the path of the module (FX13); its text stays eager's.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import Protocol, cast

from maquette.core.device_rules import DeviceMismatchError
from maquette.core.meta import TensorMeta
from maquette.dispatch.operator import OpOverload
from maquette.fake.exceptions import DataDependentOutputException, DynamicOutputShapeException
from maquette.tensor.tensor import Tensor

_PACKAGE = os.path.dirname(os.path.dirname(__file__))


class Stack:
    """The calls that led to some moment, outermost first; ``str()`` reads as a traceback."""

    __slots__ = ("_places",)

    def __init__(self, places: Sequence[tuple[CodeType, int]]) -> None:
        self._places = tuple(places)

    def format(self) -> list[str]:
        """A text a call: file, line, function, and the line itself where the file is there."""
        return [_entry(code, line) for code, line in self._places]

    @property
    def place(self) -> str:
        """The innermost line of the program itself, as ``file:line``."""
        theirs = [p for p in self._places if not _is_ours(p[0].co_filename)] or self._places[-1:]
        return f"{theirs[-1][0].co_filename}:{theirs[-1][1]}" if theirs else "an unknown place"

    def __len__(self) -> int:
        return len(self._places)

    def __str__(self) -> str:
        return "".join(self.format())

    def __copy__(self) -> Stack:
        return self

    def __deepcopy__(self, memo: object) -> Stack:
        return self


def _entry(code: CodeType, number: int) -> str:
    line = linecache.getline(code.co_filename, number).strip()
    shown = f"    {line}\n" if line else ""
    return f'  File "{code.co_filename}", line {number}, in {code.co_name}\n{shown}'


def current_stack(skip: int = 1) -> Stack:
    """The stack of the caller; skip: how many calls to leave out, this one included."""
    frame: FrameType | None = sys._getframe(skip)
    places = []
    while frame is not None:
        places.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return Stack(places[::-1])


def explain(error: BaseException, op: OpOverload, params: Sequence[object]) -> None:
    """Add to an error which call it is about, where in the program, in which module.

    That the call was not in the cache is no cause, and is taken off the error.
    """
    missed = error.__context__
    if isinstance(missed, KeyError) and missed.__traceback__ is not None:
        if missed.__traceback__.tb_frame.f_code.co_filename.startswith("<maquette"):
            error.__context__ = None
    if isinstance(error, DeviceMismatchError) and error.func is None:
        error.func = op
    if getattr(error, "__notes__", None):
        return  # an operator within it has said so
    where = [f"  in fake mode: {rendered_call(op, params)}"]
    frames = list(_frames())
    line = next((f for f in frames if not _is_ours(f.f_code.co_filename)), None)
    if line is not None:
        where.append(f"  at {line.f_code.co_filename}:{line.f_lineno}")
    path = module_path(frames)
    frames.clear()  # this call's own is among them: a cycle, which would hold the tensors of all
    line = None
    if path:
        where.append(f"  in module {path}")
    if isinstance(error, (DataDependentOutputException, DynamicOutputShapeException)):
        where.append("  only data tells: FakeTensorMode(shape_env=ShapeEnv()) makes it a symbol")
    error.add_note("\n".join(where))


def rendered_call(op: OpOverload, params: Sequence[object]) -> str:
    """A call as one would write it, with metas in the place of tensors."""
    shown = [
        f"{a.name}={_rendered(p)}" if a.kwarg_only else _rendered(p)
        for a, p in zip(op._schema.arguments, params, strict=True)
    ]
    return f"{op}({', '.join(shown)})"


def _rendered(p: object) -> str:
    if isinstance(p, Tensor):
        return str(p.meta)
    if isinstance(p, TensorMeta):
        return str(p)
    if p.__class__ is tuple:
        return f"[{', '.join(map(_rendered, cast(tuple[object, ...], p)))}]"
    return repr(p)


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_ours(file: str) -> bool:
    return file.startswith((_PACKAGE, "<maquette"))


class _Module(Protocol):
    """What is asked of a module here; the class is in a layer above."""

    def named_modules(self) -> Iterator[tuple[str, object]]: ...


def module_path(frames: Sequence[FrameType]) -> str:
    """The module whose ``forward`` runs in the innermost of frames, from the outermost one down.

    ``Model.layers.3`` is the module ``layers.3`` of a ``Model``; "" outside of any.
    """
    running: list[object] = []
    for frame in reversed(frames):
        if frame.f_code.co_name == "forward":
            module = frame.f_locals.get("self")
            if hasattr(module, "named_modules") and (not running or running[-1] is not module):
                running.append(module)
    if not running:
        return ""
    outermost = cast(_Module, running[0])
    root = type(outermost).__name__
    names = {id(module): name for name, module in outermost.named_modules()}
    for module in reversed(running):
        name = names.get(id(module))
        if name is not None:
            return f"{root}.{name}" if name else root
    return root
