"""`torch.autograd.variable`, the old place of `Variable`."""

from __future__ import annotations

from maquette.autograd.engine import queue_callback
from maquette.tensor.tensor import Tensor


class _VariableType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableType):
    """What tensors that autograd follows were before they were all tensors: an alias of one."""

    class _execution_engine:
        """What PyTorch's extensions ask of the engine itself."""

        queue_callback = staticmethod(queue_callback)

    def __new__(  # type: ignore[misc]  # there are no instances, as since PyTorch 0.4
        cls, data: Tensor, requires_grad: bool = False
    ) -> Tensor:
        return data.detach().requires_grad_(requires_grad)


__all__ = ["Variable"]
