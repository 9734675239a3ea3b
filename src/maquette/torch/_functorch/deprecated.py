"""`torch._functorch.deprecated`: what the package ``functorch`` hands on, with its warnings.

The names are those of `torch.func`; each call says so, as torch's do.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from maquette.torch import func as _func
from maquette.torch._functorch import make_functional as _made
from maquette.transforms import vmap as _vmap

Function = Callable[..., Any]


def _deprecated(function: Function, name: str, instead: str) -> Function:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"We've integrated functorch into PyTorch. As the final step of the integration, "
            f"`functorch.{name}` is deprecated as of PyTorch 2.0 and will be deleted in a future "
            f"version of PyTorch >= 2.3. Please use `{instead}` instead; see the PyTorch 2.0 "
            "release notes and/or the `torch.func` migration guide for more details "
            "https://pytorch.org/docs/main/func.migrating.html",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    return wrapped


vmap = _deprecated(_vmap, "vmap", "torch.vmap")
make_functional = _deprecated(
    _made.make_functional, "make_functional", "torch.func.functional_call"
)
make_functional_with_buffers = _deprecated(
    _made.make_functional_with_buffers,
    "make_functional_with_buffers",
    "torch.func.functional_call",
)
combine_state_for_ensemble = _deprecated(
    _made.combine_state_for_ensemble,
    "combine_state_for_ensemble",
    "torch.func.stack_module_state",
)


def __getattr__(name: str) -> Function:
    if name.startswith("__"):
        raise AttributeError(name)
    found = _deprecated(getattr(_func, name), name, f"torch.func.{name}")
    globals()[name] = found
    return found
