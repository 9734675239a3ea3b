"""The Python face of the operators: functions, methods of `Tensor`, signatures.

Importing this registers the operators and attaches the methods.
"""

from maquette import aten as _aten  # noqa: F401  # what everything here is made from
from maquette.api import creation as _creation  # noqa: F401
from maquette.api import tensor_methods as _tensor_methods  # noqa: F401
from maquette.api import memory_methods as _memory_methods  # noqa: F401
from maquette.api import element_methods as _element_methods  # noqa: F401
from maquette.api import layout_methods as _layout_methods  # noqa: F401
from maquette.api import subscripts as _subscripts  # noqa: F401
from maquette.api import lu_function as _lu_function  # noqa: F401
from maquette.api import attach as _attach  # noqa: F401  # Python's operators
from maquette.api import offered_members as _offered_members  # noqa: F401  # wraps what is there
