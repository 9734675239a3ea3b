"""Arithmetic by name, at `torch.ao.nn.quantized.modules.functional_modules`.

A program that could be quantized writes ``self.skip_add.add(x, y)`` for a sum, which a converter
would find. Until someone converts it, it computes with floats, as here. Networks of depth and of
mobile phones are written so.
"""

from __future__ import annotations

from collections.abc import Sequence

from maquette.api import functions as mq
from maquette.nn import Identity, Module
from maquette.tensor.tensor import Tensor

__all__ = ["FXFloatFunctional", "FloatFunctional"]


class _Arithmetic(Module):
    def forward(self, x: Tensor) -> Tensor:
        """Raises RuntimeError: the operations are methods."""
        raise RuntimeError(
            f"{type(self).__name__} has no forward: call one of its operations, for example "
            f"`.add(x, y)`"
        )

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """``x + y``."""
        return self._observed(mq.add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """``x + y`` of a number."""
        found: Tensor = mq.add(x, y)
        return found

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """``x * y``."""
        return self._observed(mq.mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """``x * y`` of a number."""
        found: Tensor = mq.mul(x, y)
        return found

    def cat(self, x: Sequence[Tensor], dim: int = 0) -> Tensor:
        """The tensors of ``x`` one after the other along ``dim``."""
        return self._observed(mq.cat(x, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """``relu(x + y)``."""
        return self._observed(mq.relu(mq.add(x, y)))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """``x @ y``."""
        return self._observed(mq.matmul(x, y))

    def _observed(self, result: Tensor) -> Tensor:
        return result


class FXFloatFunctional(_Arithmetic):
    """Arithmetic by name, which a tracer keeps as calls of this module's methods."""


class FloatFunctional(_Arithmetic):
    """Arithmetic by name; results pass ``activation_post_process``, where an observer would be."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def _observed(self, result: Tensor) -> Tensor:
        found: Tensor = self.activation_post_process(result)
        return found
