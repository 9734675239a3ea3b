"""Marks of where a converter would begin and end to quantize, at `torch.ao.quantization.stubs`.

Programs that could be quantized have them; until someone converts the program they hand their
input on. The converters are absent: there are no quantized tensors.
"""

from __future__ import annotations

from maquette.nn import Module
from maquette.tensor.tensor import Tensor

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class _Stub(Module):
    def __init__(self, qconfig: object = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """``x`` itself."""
        return x


class QuantStub(_Stub):
    """Where a converter would begin to quantize. qconfig: kept as an attribute if it is given."""


class DeQuantStub(_Stub):
    """Where a converter would end. qconfig: kept as an attribute if it is given."""


class QuantWrapper(Module):
    """``module`` between a `QuantStub` and a `DeQuantStub`."""

    quant: QuantStub
    dequant: DeQuantStub
    module: Module

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:
        """``module(X)``."""
        found: Tensor = self.dequant(self.module(self.quant(X)))
        return found
