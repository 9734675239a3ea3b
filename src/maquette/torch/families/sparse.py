"""`torch.sparse`: products, sums and softmax of sparse tensors, and the checks of new ones."""

from maquette.api.sparse_functions import (
    addmm,
    check_sparse_tensor_invariants,
    log_softmax,
    mm,
    sampled_addmm,
    softmax,
    spdiags,
    sum,
)
from maquette.torch import tensor_types
from maquette.torch.face.forwarding import forward

__all__ = [
    "addmm",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]

BFloat16Tensor = tensor_types.sparse_type(tensor_types.BFloat16Tensor)
ByteTensor = tensor_types.sparse_type(tensor_types.ByteTensor)
CharTensor = tensor_types.sparse_type(tensor_types.CharTensor)
DoubleTensor = tensor_types.sparse_type(tensor_types.DoubleTensor)
FloatTensor = tensor_types.sparse_type(tensor_types.FloatTensor)
HalfTensor = tensor_types.sparse_type(tensor_types.HalfTensor)
IntTensor = tensor_types.sparse_type(tensor_types.IntTensor)
LongTensor = tensor_types.sparse_type(tensor_types.LongTensor)
ShortTensor = tensor_types.sparse_type(tensor_types.ShortTensor)

__getattr__ = forward(__name__)
