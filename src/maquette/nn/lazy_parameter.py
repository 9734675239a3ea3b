"""Parameters and buffers whose shape is not known yet: places that lazy modules fill.

Different from PyTorch: they do not change in place, a lazy module puts an ordinary parameter there.
So an optimizer must be made after the first forward (as PyTorch advises, too).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from maquette.api import functions as mq
from maquette.core.device import device as device_
from maquette.core.dtype import dtype as dtype_
from maquette.dispatch.abstract import disabled_torch_function
from maquette.tensor import Tensor
from maquette.tensor.parameter import Parameter, of_class

DeviceLike = device_ | str | int


class UninitializedParameter(Parameter):
    """A `Parameter` without a shape yet; it has a dtype and a device."""

    __slots__ = ()

    def __new__(
        cls,
        requires_grad: bool = True,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> UninitializedParameter:
        made = of_class(cls, mq.empty(0, device=device, dtype=dtype))
        made.requires_grad_(requires_grad)
        return made

    def __repr__(self) -> str:
        return "<UninitializedParameter>"


class UninitializedBuffer(Tensor):
    """A buffer without a shape yet; it has a dtype and a device."""

    __slots__ = ()
    __torch_function__: ClassVar[Callable[..., object]] = disabled_torch_function

    def __new__(
        cls,
        requires_grad: bool = False,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> UninitializedBuffer:
        return of_class(cls, mq.empty(0, device=device, dtype=dtype))

    def __repr__(self) -> str:
        return "<UninitializedBuffer>"


def is_lazy(tensor: object) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(tensor, UninitializedParameter | UninitializedBuffer)
