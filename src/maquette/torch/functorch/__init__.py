"""The package `functorch`, which PyTorch brings along: `install` lets programs import it.

Its functions are the deprecated ones of `torch._functorch`; `functorch.dim` and
`functorch.compile` are not here.
"""

from maquette.torch._functorch.deprecated import (
    combine_state_for_ensemble,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    make_functional,
    make_functional_with_buffers,
    vjp,
    vmap,
)
from maquette.torch._functorch.make_functional import FunctionalModule, FunctionalModuleWithBuffers
from maquette.torch._functorch.python_key import make_fx
from maquette.torch.face.torch_version import __version__

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "__version__",
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "make_fx",
    "vjp",
    "vmap",
]
