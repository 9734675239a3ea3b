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
from maquette.aten import blends as _blends  # noqa: F401
from maquette.aten import extrema as _extrema  # noqa: F401
from maquette.aten import powers as _powers  # noqa: F401
from maquette.aten import rounding as _rounding  # noqa: F401
from maquette.aten import transcendental as _transcendental  # noqa: F401
from maquette.aten import selection as _selection  # noqa: F401
from maquette.aten import comparison as _comparison  # noqa: F401
from maquette.aten import reductions as _reductions  # noqa: F401
from maquette.aten import linalg as _linalg  # noqa: F401
from maquette.aten import products as _products  # noqa: F401
from maquette.aten import einsum as _einsum  # noqa: F401
from maquette.aten import views as _views  # noqa: F401
from maquette.aten import view_lists as _view_lists  # noqa: F401
from maquette.aten import shapes as _shapes  # noqa: F401
from maquette.aten import copies as _copies  # noqa: F401
from maquette.aten import joining as _joining  # noqa: F401
from maquette.aten import factories as _factories  # noqa: F401
from maquette.aten import creation as _creation  # noqa: F401
from maquette.aten import tensor_methods as _tensor_methods  # noqa: F401
from maquette.aten import embedding as _embedding  # noqa: F401
from maquette.aten import softmax as _softmax  # noqa: F401
from maquette.aten import normalization as _normalization  # noqa: F401
from maquette.aten import batch_norm as _batch_norm  # noqa: F401
from maquette.aten import likelihood as _likelihood  # noqa: F401
