"""`torch.testing`: `assert_close`, and what tests make and check their tensors and texts with."""

from __future__ import annotations

from maquette.torch.testing.closeness import assert_allclose, assert_close
from maquette.torch.testing.file_check import FileCheck
from maquette.torch.testing.making import make_tensor

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]
