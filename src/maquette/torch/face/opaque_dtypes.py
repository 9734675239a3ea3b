"""Dtypes of elements that nothing computes with: ``torch.uint4``, ``torch.bits8``, ``torch.qint8``.

Programs compare them and ask their sizes; tensors of them can be made and viewed as bytes. And the
schemes of quantization, ``torch.per_tensor_affine``, which programs name in tables of settings.
"""

from __future__ import annotations

from maquette.core.scalar_types import opaque_dtypes

BY_NAME = {kind.name: kind for kind in opaque_dtypes}
BY_NAME["bit"] = BY_NAME["uint1"]
SCHEMES = (
    "per_tensor_affine",
    "per_channel_affine",
    "per_tensor_symmetric",
    "per_channel_symmetric",
    "per_channel_affine_float_qparams",
)


class qscheme:  # PyTorch's name
    """How numbers of few bits stand for others: a name to compare, no tensor here has one."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


for _name in SCHEMES:
    globals()[_name] = qscheme(_name)
