"""`torch._C`: keys, guards and what is asked of the dispatcher, under torch's private names.

Each is `maquette.dispatch`'s function without the prefix ``_dispatch_`` or ``_``.
"""

from __future__ import annotations

from maquette.tensor.tensor import Tensor
from maquette.torch import _VF as _VariableFunctionsClass  # noqa: F401  # pickled functions name it
from maquette.torch.dispatch_queries import *  # noqa: F403  # questions to the dispatcher
from maquette.torch.face.forwarding import forward, without_underscores
from maquette.torch.helpers.schema_types import *  # noqa: F403  # what an argument's type is asked to be
from maquette.torch.internals import *  # noqa: F403  # private names that programs' tests call
from maquette.torch.jit.inferred_types import *  # noqa: F403  # what a value's type is
from maquette.torch.saving.archives import PyTorchFileReader, PyTorchFileWriter
from maquette.transforms.inspection import (
    is_vmap_fallback_warning_enabled as _debug_only_are_vmap_fallback_warnings_enabled,
)
from maquette.transforms.inspection import (
    set_vmap_fallback_warning_enabled as _debug_only_display_vmap_fallback_warnings,
)

TensorBase = _TensorBase = Tensor  # there, the part of the class in C++, which has the methods
has_spectral = has_lapack = True
_has_xpu = False

__getattr__ = forward(
    __name__,
    "maquette.dispatch",
    "maquette.dispatch.modes",
    "maquette.dispatch.pre_dispatch",
    "maquette.dispatch.handlers",
    "maquette.dispatch.overrides",
    "maquette.dispatch.base",
    "maquette.dispatch.packet",
    "maquette.dispatch.torch_function",
    "maquette.dispatch.operator",
    "maquette.dispatch.registry",
    "maquette.dispatch.schemas.schema",
    "maquette.dispatch.schemas.parser",
    "maquette.dispatch.tags",
    "maquette.tensor.tensor",
    "maquette.autograd",
    "maquette.autograd.undifferentiated",
    "maquette.transforms",
    "maquette.transforms.inspection",
    "maquette",
    spellings=without_underscores,
)
__all__ = [
    "PyTorchFileReader",
    "PyTorchFileWriter",
    "_debug_only_are_vmap_fallback_warnings_enabled",
    "_debug_only_display_vmap_fallback_warnings",
]
