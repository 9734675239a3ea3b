"""Operators on sparse tensors; importing this registers them."""

from maquette.aten.sparse import (
    construction as _construction,  # noqa: F401
)
from maquette.aten.sparse import (
    conversion as _conversion,  # noqa: F401
)
from maquette.aten.sparse import (
    copies_of_parts as _copies_of_parts,  # noqa: F401
)
from maquette.aten.sparse import (
    elementwise as _elementwise,  # noqa: F401
)
from maquette.aten.sparse import (
    factories as _factories,  # noqa: F401
)
from maquette.aten.sparse import (
    gradients as _gradients,  # noqa: F401
)
from maquette.aten.sparse import (
    index_forms as _index_forms,  # noqa: F401
)
from maquette.aten.sparse import (
    parts as _parts,  # noqa: F401
)
from maquette.aten.sparse import (
    products as _products,  # noqa: F401
)
from maquette.aten.sparse import (
    reductions as _reductions,  # noqa: F401
)
from maquette.aten.sparse import (
    shaping as _shaping,  # noqa: F401
)
from maquette.aten.sparse import (
    sizes as _sizes,  # noqa: F401
)
from maquette.aten.sparse import (
    solves as _solves,  # noqa: F401
)
