"""Element types that an operator refuses, as PyTorch's loops have no case for them.

Each shape rule calls these itself, with PyTorch's name of the loop, so that fake calls are refused
as eager ones are. What only the cpu lacks, numbers of 16 bits as a rule, is refused on cpu alone.
"""

from __future__ import annotations

from maquette.core.dtype import bool_, dtype
from maquette.core.errors import check_not_implemented
from maquette.core.meta import TensorMeta


def check_no_bool(loop: str, kind: dtype) -> None:
    """NotImplementedError for booleans."""
    _check_supported(loop, kind, kind is not bool_)


def check_no_complex(loop: str, kind: dtype) -> None:
    """NotImplementedError for complex numbers."""
    _check_supported(loop, kind, not kind.is_complex)


def check_no_integers(loop: str, kind: dtype) -> None:
    """NotImplementedError for integers; booleans pass."""
    _check_supported(loop, kind, kind.category != 1)


def check_no_halves_on_cpu(loop: str, self: TensorMeta) -> None:
    """NotImplementedError for floating point numbers of 16 bits on cpu."""
    half = self.dtype.is_floating_point and self.dtype.itemsize < 4
    _check_supported(loop, self.dtype, not half or self.device.type != "cpu")


def _check_supported(loop: str, kind: dtype, supported: bool) -> None:
    check_not_implemented(supported, lambda: f"\"{loop}\" not implemented for '{kind.scalar_name}'")
