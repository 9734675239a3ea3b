"""Which line of a kernel writes an argument: the kernel is run line by line, and looked at after
each."""

from __future__ import annotations

import linecache
import sys
from typing import TYPE_CHECKING, Any

from maquette.opcheck.copies import named_tensors, snapshot
from maquette.opcheck.operators import bound

if TYPE_CHECKING:
    from maquette.opcheck.trials import Trial


def line_that_writes(trial: Trial, name: str) -> str:
    """``file:line: source`` of the kernel's line after which an argument is another; or ""."""
    kernel = trial.op.function("kernel")
    code = getattr(kernel, "__code__", None)
    if code is None:
        return ""
    args, kwargs = trial.arguments()
    target = dict(named_tensors(bound(trial.op, args, kwargs), trial.on))[name]
    first = snapshot(target, trial.on)
    found: list[int] = []
    previous = [code.co_firstlineno]

    def look(frame: Any, event: str, arg: Any) -> Any:
        if not found:
            sys.settrace(None)
            try:
                if snapshot(target, trial.on) != first and _differs(first, target, trial):
                    found.append(previous[0])
            finally:
                sys.settrace(start)
            previous[0] = frame.f_lineno
        return look

    def start(frame: Any, event: str, arg: Any) -> Any:
        return look if frame.f_code is code else None

    before = sys.gettrace()
    sys.settrace(start)
    try:
        with trial.on.torch.no_grad():
            trial.op(*args, **kwargs)
    except Exception:  # noqa: BLE001  # what it raises is told elsewhere
        return ""
    finally:
        sys.settrace(before)
    if not found:
        return ""
    source = linecache.getline(code.co_filename, found[0]).strip()
    return f"{code.co_filename}:{found[0]}: {source}".rstrip(": ")


def _differs(first: Any, target: Any, trial: Trial) -> bool:
    from maquette.opcheck.copies import what_changed  # noqa: PLC0415

    now = snapshot(target, trial.on)
    return first is not None and now is not None and bool(what_changed(first, now))
