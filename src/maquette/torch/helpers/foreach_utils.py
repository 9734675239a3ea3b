"""`torch.utils._foreach_utils`: lists of tensors, grouped by device and dtype."""

from __future__ import annotations

from collections.abc import Sequence

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.tensor.tensor import Tensor

TensorListList = list[list[Tensor | None]]
Indices = list[int]
_Groups = dict[tuple[device | None, dtype | None], tuple[TensorListList, Indices]]


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


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> _Groups:
    """The lists, split alike by the device and dtype of the first list's tensors.

    with_indices: each group says which positions it has, too.
    """
    groups: _Groups = {}
    for position, first in enumerate(tensorlistlist[0]):
        key = (None, None) if first is None else (first.device, first.dtype)
        lists, indices = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for group, whole in zip(lists, tensorlistlist, strict=True):
            if whole:
                group.append(whole[position])
        if with_indices:
            indices.append(position)
    return groups
