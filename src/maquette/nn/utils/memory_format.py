"""`torch.nn.utils.memory_format`: weights of convolutions laid out with channels last."""

from __future__ import annotations

from typing import TypeVar

from maquette.core.layout import memory_format
from maquette.nn.base import Module
from maquette.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from maquette.tensor import Tensor

M = TypeVar("M", bound=Module)


def convert_conv2d_weight_memory_format(module: M, memory_format: memory_format) -> M:
    """Lay out the weights of 2-d convolutions, here and below, in a memory format; the module."""
    return _converted(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: M, memory_format: memory_format) -> M:
    """Lay out the weights of 3-d convolutions, here and below, in a memory format; the module."""
    return _converted(module, memory_format, (Conv3d, ConvTranspose3d))


def _converted(module: M, layout: memory_format, kinds: tuple[type[Module], ...]) -> M:
    for each in module.modules():
        if isinstance(each, kinds):
            weight: Tensor = each._mq_attributes["weight"]
            weight.data = weight.detach().clone(memory_format=layout)
    return module
