"""`torch.autograd.variable`, the old place of `Variable`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from maquette.api.creation import tensor
from maquette.autograd.api import backward, grad
from maquette.autograd.engine import queue_callback
from maquette.tensor.tensor import Tensor
from maquette.torch.face.forwarding import forward


class _VariableType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableType):
    """What tensors that autograd follows were before they were all tensors: an alias of one."""

    class _execution_engine:
        """What PyTorch's extensions ask of the engine itself."""

        queue_callback = staticmethod(queue_callback)

        @staticmethod
        def run_backward(
            tensors: Sequence[Tensor],
            grad_tensors: Sequence[Tensor | None],
            keep_graph: bool,
            create_graph: bool,
            inputs: Sequence[Tensor] = (),
            allow_unreachable: bool = False,
            accumulate_grad: bool = False,
        ) -> tuple[Tensor | None, ...]:
            """`backward` where gradients are accumulated, else `grad`: the gradients of inputs."""
            if accumulate_grad:
                into = list(inputs) or None
                backward(list(tensors), list(grad_tensors), keep_graph, create_graph, into)
                return ()
            return grad(
                list(tensors), list(inputs), list(grad_tensors), keep_graph, create_graph,
                allow_unused=allow_unreachable,
            )  # fmt: skip

    def __new__(  # type: ignore[misc]  # there are no instances, as since PyTorch 0.4
        cls,
        data: Tensor | None = None,
        requires_grad: bool = False,
        volatile: bool = False,
        _grad_fn: object = None,
        name: str | None = None,
    ) -> Tensor:
        if volatile:
            if requires_grad:
                raise ValueError("Variable: a volatile one cannot require grad; leave one out")
            warnings.warn(
                "Variable: volatile has had no effect since PyTorch 0.4; compute under "
                "`torch.no_grad()` instead",
                UserWarning,
                stacklevel=2,
            )
        if data is None:
            return tensor([])
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach()._require_grad(requires_grad)  # under a transform, too


__all__ = ["Variable"]

__getattr__ = forward(__name__)
