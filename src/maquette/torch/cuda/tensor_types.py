"""`torch.cuda.FloatTensor` and its like: the types of tensors, and of fakes, on cuda devices."""

from __future__ import annotations

from maquette.torch import tensor_types as here

HalfTensor = here.on_device(here.HalfTensor, "cuda")
BFloat16Tensor = here.on_device(here.BFloat16Tensor, "cuda")
FloatTensor = here.on_device(here.FloatTensor, "cuda")
DoubleTensor = here.on_device(here.DoubleTensor, "cuda")
ByteTensor = here.on_device(here.ByteTensor, "cuda")
CharTensor = here.on_device(here.CharTensor, "cuda")
ShortTensor = here.on_device(here.ShortTensor, "cuda")
IntTensor = here.on_device(here.IntTensor, "cuda")
LongTensor = here.on_device(here.LongTensor, "cuda")
BoolTensor = here.on_device(here.BoolTensor, "cuda")
__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]
