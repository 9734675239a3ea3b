"""Function transforms: `vmap`, `grad`, `vjp`, `jvp`, `functionalize` and what is made of them, in
any order and depth.

A transform is a level on the stack of interpreters and a key of the dispatcher, never an ``if`` in
a call's path; importing this package registers the kernels of those keys.
"""

from maquette.transforms import functions as _functions  # noqa: F401  # `autograd.Function`
from maquette.transforms import levels as _levels  # noqa: F401  # the kernels of the keys
from maquette.transforms.functional import functionalize
from maquette.transforms.gradients import grad, grad_and_value, jacrev, vjp
from maquette.transforms.interpreter import Interpreter
from maquette.transforms.tangents import hessian, jacfwd, jvp, linearize
from maquette.transforms.vmap import vmap

__all__ = [
    "Interpreter",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "vjp",
    "vmap",
]
