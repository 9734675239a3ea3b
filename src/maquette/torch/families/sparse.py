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

__getattr__ = forward(__name__)
