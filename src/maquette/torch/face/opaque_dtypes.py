"""Dtypes of elements that nothing computes with: ``torch.uint4``, ``torch.bits8``, ``torch.qint8``.

Programs compare them and ask their sizes; tensors of them can be made and viewed as bytes.
"""

from maquette.core.dtype import dtype
from maquette.core.scalar_types import opaque_dtypes

_BY_NAME = {kind.name: kind for kind in opaque_dtypes}
_BY_NAME["bit"] = _BY_NAME["uint1"]
NAMES = tuple(_BY_NAME)


def __getattr__(name: str) -> dtype:
    try:
        return _BY_NAME[name]
    except KeyError:
        raise AttributeError(f"torch has no dtype {name}") from None
