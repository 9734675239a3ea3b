"""Programs compiled elsewhere: the same pages on XLA by JAX, and in chunks by Dask.

``maquette.compile(fn_or_module, backend="jax")`` is this package, called. A call is traced and
functionalized (`capture.py`), its graph run as a function of arrays (`program.py`) by an engine
(`engines.py`).
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from maquette.compile.compiled import Compiled
from maquette.compile.engines import engine_of
from maquette.compile.errors import CompileError


def compile(fn_or_module: Any, *, backend: str = "jax", **options: Any) -> Compiled:
    """A function or module whose calls are traced once for each combination of metas and compiled.

    backend: "jax" (XLA), "dask" (in chunks) or "numpy" (the reference). options: of the engine, see
    `JaxEngine` and `DaskEngine`. A function may hold modules and optimizers: it may be a whole
    training step. Gradients flow through results as they do uncompiled.

    Raises CompileError at the first call for what the engine cannot run, before anything runs;
    NotImplementedError where the engine is not installed, TypeError for what cannot be called.

    >>> import maquette as mq
    >>> f = compile(lambda x: (x * 2).sum(), backend="numpy")
    >>> f(mq.ones(3)), f(mq.ones(3)), f.traces
    (tensor(6.), tensor(6.), 1)
    """
    if not callable(fn_or_module):
        raise TypeError(f"compile takes a function or a module, got {type(fn_or_module).__name__}")
    return Compiled(fn_or_module, engine_of(backend, options))


class _Package(ModuleType):
    """The package, which is called as its function."""

    def __call__(self, fn_or_module: Any, **options: Any) -> Compiled:
        return compile(fn_or_module, **options)


sys.modules[__name__].__class__ = _Package

__all__ = ["CompileError", "Compiled", "compile"]
