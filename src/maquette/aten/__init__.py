"""The operators, a family a file; importing this registers them.

One line each, in an order that does not matter: pages find one another by name.
"""

from maquette.backends import numpy as _numpy  # noqa: F401  # data on cpu
from maquette.tensor import aliasing as _aliasing  # noqa: F401  # views and writes
from maquette.autograd import record as _record  # noqa: F401, I001  # recording
from maquette.aten import methods as _methods  # noqa: F401  # Python's operators

# Families:
from maquette.aten import arithmetic as _arithmetic  # noqa: F401
from maquette.aten import division as _division  # noqa: F401
from maquette.aten import reductions as _reductions  # noqa: F401
from maquette.aten import linalg as _linalg  # noqa: F401
from maquette.aten import products as _products  # noqa: F401
from maquette.aten import einsum as _einsum  # noqa: F401
