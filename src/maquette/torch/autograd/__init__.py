"""`torch.autograd`: the package of that name, and what computes with it from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from maquette.autograd.saved.values import RawSaved as SavedTensor
from maquette.tensor.tensor import Tensor
from maquette.torch.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from maquette.torch.autograd.variable import Variable
from maquette.torch.face.forwarding import forward
from maquette.torch.profiler import kineto_available
from maquette.torch.profiling.recording import is_recording


def variable(*args: object, **kwargs: object) -> NoReturn:
    """Raise RuntimeError: `torch.tensor` came in its place."""
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


variable.Variable = Variable  # type: ignore[attr-defined]  # its module has the function's name


def _profiler_enabled() -> bool:
    """Whether a profiler is on."""
    return is_recording()


def _calculate_shape(
    output: Tensor, grad: Tensor, is_grads_batched: bool
) -> tuple[Sequence[int] | Tensor, Sequence[int] | Tensor]:
    """The sizes of a result and its gradient, as errors tell them: tables for nested tensors."""
    if output.is_nested or grad.is_nested:
        both = (t._nested_tensor_size() if t.is_nested else t.shape for t in (output, grad))
        first, second = both
        return first, second
    return output.shape, grad.shape[1:] if is_grads_batched else grad.shape


class _unsafe_preserve_version_counter:  # PyTorch's name
    """For a block: writes to these tensors are not counted; nothing checks what they do."""

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        self.tensors = (tensors,) if isinstance(tensors, Tensor) else tensors
        self._before = tuple([t._version for t in self.tensors])

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        for t, version in zip(self.tensors, self._before, strict=True):
            t._version_counter().value = version


__all__ = [
    "Function",
    "GradcheckError",
    "NestedIOFunction",
    "SavedTensor",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "kineto_available",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]
__getattr__ = forward(__name__, "maquette.autograd", "maquette.autograd.grad_mode")
