"""`torch.jit`: there is no script compiler; what is marked for it stays Python.

Traces and script files, which are other programs than the Python they come from, are not there.
"""

from __future__ import annotations

import importlib
import typing
from collections.abc import Callable
from typing import TypeVar

from maquette.nn.base import Module
from maquette.torch.face.absent_names import names_of
from maquette.torch.face.forwarding import forward
from maquette.torch.face.later import functions_for_later
from maquette.torch.helpers.futures import Future

F = TypeVar("F")
Final = typing.Final


class TracerWarning(Warning):
    """What PyTorch's tracer warns with; programs name it to silence it. Nothing here raises it."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Nothing: no library warns with it."""


def is_scripting() -> bool:
    """False."""
    return False


def is_tracing() -> bool:
    """False."""
    return False


def script(
    obj: F,
    optimize: None = None,
    _frames_up: int = 0,
    _rcb: object = None,
    example_inputs: object = None,
) -> F:
    """``obj`` itself: Python runs it. example_inputs: not needed, as are the others."""
    return obj


def script_if_tracing(fn: F) -> F:
    """``fn`` itself."""
    return fn


def _unwrap_optional(x: F | None) -> F:
    """``x``, which is not None; AssertionError if it is."""
    assert x is not None, "Unwrapping null optional"
    return x


_script_if_tracing = script_if_tracing


def _overload(fn: F) -> F:
    """``fn`` itself: its types tell a script compiler what it takes."""
    return fn


_overload_method = _overload


def export(fn: F) -> F:
    """``fn`` itself."""
    return fn


def ignore(drop: F | bool = False, **kwargs: object) -> F | Callable[[F], F]:
    """The function itself; as ``@ignore`` or ``@ignore(drop=True)``."""
    return (lambda fn: fn) if isinstance(drop, bool) else drop


def unused(fn: F) -> F:
    """``fn`` itself."""
    return fn


def interface(obj: F) -> F:
    """``obj`` itself: a class whose methods tell a script compiler what modules have."""
    return obj


def annotate(the_type: object, the_value: F) -> F:
    """``the_value`` itself."""
    return the_value


def Attribute(value: F, type: object) -> F:
    """``value`` itself."""
    return value


def fork(func: Callable[..., F], *args: object, **kwargs: object) -> Future[F]:
    """A future of what ``func`` gives: it is called at once, as PyTorch does out of a script."""
    future: Future[F] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[F]) -> F:
    """What a future of `fork` holds."""
    return future.wait()


class ScriptModule(Module):
    """The base of modules that say they are compiled: Python runs them as any other module."""


class ScriptFunction:
    """The class of compiled functions, of which there are none: to be asked after only."""


_PYTHON = "call the module or function itself"
_FILES = "save and load its state_dict() with torch.save and torch.load"
_LATER = functions_for_later(
    "torch.jit",
    {
        **dict.fromkeys(
            (
                "trace",
                "trace_module",
                "_get_trace_graph",
                "freeze",
                "optimize_for_inference",
            ),
            _PYTHON,
        ),
        **dict.fromkeys(("save", "load"), _FILES),
    },
)
_forwarded = forward(__name__)


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *names_of("jit"), "isinstance"})


def __getattr__(name: str) -> object:
    if name == "isinstance":  # not under this name here, where Python's is called
        return importlib.import_module("maquette.torch.helpers.jit_internal")._isinstance
    return _LATER[name] if name in _LATER else _forwarded(name)
