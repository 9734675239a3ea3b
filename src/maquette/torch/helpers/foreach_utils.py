"""`torch.utils._foreach_utils`: lists of tensors, grouped by device and dtype."""

from __future__ import annotations

from collections.abc import Sequence

from maquette.core.device import device
from maquette.optim.own_steps import Lists
from maquette.optim.own_steps import group_tensors as _group_tensors_by_device_and_dtype
from maquette.tensor.tensor import Tensor

TensorListList = Lists
Indices = list[int]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The device types whose optimizers take lists by default in PyTorch."""
    return ["cuda", "xpu", "mtia"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """The device types for which PyTorch's optimizers have fused steps."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia"]


def _has_foreach_support(tensors: Sequence[Tensor | None], device: device) -> bool:
    """Whether PyTorch's lists functions serve these tensors on this device."""
    return _device_has_foreach_support(device) and all(
        t is None or type(t) in (Tensor,) or t.__class__.__name__ == "Parameter" for t in tensors
    )


def _device_has_foreach_support(device: device) -> bool:
    return device.type in [*_get_foreach_kernels_supported_devices(), "cpu"]


__all__ = [
    "Indices",
    "TensorListList",
    "_device_has_foreach_support",
    "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices",
    "_group_tensors_by_device_and_dtype",
    "_has_foreach_support",
]
