"""Values without behaviour: element types, devices, layouts, metas and the arithmetic on them.

Pure functions and constants; no tensors, no dispatch. Most names are in a module of their own
name (`maquette.core.device.device`) and are imported from there.
"""

from maquette.core.device_rules import DeviceMismatchError
from maquette.core.meta import TensorMeta
from maquette.core.size import Size

__all__ = ["DeviceMismatchError", "Size", "TensorMeta"]
