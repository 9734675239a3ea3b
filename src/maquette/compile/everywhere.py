"""A program whose models are compiled without a word in it: ``maquette run --compile jax``.

The outermost call of a module is a compiled one; what it calls is part of it. A module that the
engine cannot run, or of which each call is another program, is told of once, and runs as it stands.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from maquette.compile.compiled import Compiled
from maquette.compile.engines import Engine
from maquette.compile.errors import CompileError
from maquette.compile.state import State
from maquette.dispatch.tls import tls
from maquette.nn import Module

_MANY = 8
"""So many programs of one module are compiled."""


class _Here(threading.local):
    inside = False


@contextmanager
def modules_compiled(engine: Engine) -> Iterator[None]:
    """In the block, calls of modules run by an engine."""
    plain = Module.__call__
    here = _Here()
    made: weakref.WeakKeyDictionary[Module, Compiled | None] = weakref.WeakKeyDictionary()

    def call(module: Module, /, *args: Any, **kwargs: Any) -> Any:
        st = tls.st
        if here.inside or st.dispatch_modes or st.fake_mode is not None or st.transforms:
            return plain(module, *args, **kwargs)
        if module not in made:
            of_module: Any = weakref.proxy(module)
            made[module] = Compiled(partial(plain, of_module), engine)
            made[module]._state = State(module)  # type: ignore[union-attr]  # made above
        compiled = made[module]
        if compiled is None:
            return plain(module, *args, **kwargs)
        here.inside = True
        try:
            return compiled(*args, **kwargs)
        except CompileError as error:
            made[module] = None
            warnings.warn(f"{type(module).__name__} runs uncompiled: {error}", stacklevel=2)
        finally:
            here.inside = False
            if compiled.programs > _MANY and made[module] is compiled:
                made[module] = None
                warnings.warn(
                    f"{type(module).__name__} runs uncompiled from now on: its calls differ so "
                    f"much (in shapes, or numbers) that each would be another program",
                    stacklevel=2,
                )
        return plain(module, *args, **kwargs)

    changed: Any = Module
    changed.__call__ = call
    try:
        yield
    finally:
        changed.__call__ = plain


__all__ = ["modules_compiled"]
