"""Parameters and buffers: the two kinds of tensors that a module owns.

`Parameter` is the tensor floor's. A `Buffer` is a plain tensor with a mark, so that assigning it to
a module registers it as a buffer.
"""

from __future__ import annotations

from maquette.aten import functions as mq
from maquette.tensor import Parameter, Tensor

__all__ = ["Buffer", "Parameter"]


class _BufferType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        # Not getattr: a tensor answers a missing name by looking for an operator.
        return isinstance(instance, Tensor) and vars(instance).get("_is_buffer", False)


class Buffer(metaclass=_BufferType):
    """`Buffer(data)` is an alias of `data`, detached and marked; `isinstance` asks for the mark.

    persistent: whether state dicts of the module that it is assigned to hold it.
    """

    def __new__(  # type: ignore[misc]  # the mark is on a tensor; there are no instances
        cls, data: Tensor | None = None, *, persistent: bool = True
    ) -> Tensor:
        tensor = mq.empty(0) if data is None else data
        buffer = tensor.detach().requires_grad_(tensor.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer
