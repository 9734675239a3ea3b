"""``_lazy_clone``: a clone whose memory is copied when it, or the original, is first mutated."""

from __future__ import annotations

from collections.abc import Callable

from maquette.core.meta import TensorMeta
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.library.page import define
from maquette.tensor.keys import ADINPLACE
from maquette.tensor.lazy_copies import share
from maquette.tensor.tensor import Tensor, from_storage
from maquette.tensor.up_to_date import up_to_date

_lazy_clone = define("aten::_lazy_clone(Tensor self) -> Tensor")
_lazy_clone.linear(self=lambda grad: grad)


@_lazy_clone.shape
def lazy_clone_shape(self: TensorMeta) -> TensorMeta:
    """The same geometry, over a storage as large."""
    return self


def _on_data(op: OpOverload, ks: int) -> Callable[..., object]:
    def kernel(ks: int, self: Tensor) -> Tensor:
        if not self._keys & ADINPLACE:
            return self.clone()  # a mutation of an inference tensor would not be seen in time
        made = from_storage(share(self._storage), self.meta)
        up_to_date(self)
        return made

    return kernel


for _key in (DispatchKey.CPU, DispatchKey.CUDA, DispatchKey.Meta):
    _lazy_clone.op.register(_key, Kernel(_on_data))

__all__: list[str] = []
