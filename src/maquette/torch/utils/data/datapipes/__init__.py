"""`torch.utils.data.datapipes`: pipes of samples, each made from the one before.

`datapipe.py` has the two kinds of pipes, ``iter`` and ``map`` the pipes themselves. A pipe's class
may give a method to all pipes (`_decorator.py`), so that ``source.map(f).batch(4)`` reads in order.
Pipes of data frames are not here.
"""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.torch.utils.data.datapipes import iter, map

__all__ = ["iter", "map"]
__getattr__ = forward(__name__)
