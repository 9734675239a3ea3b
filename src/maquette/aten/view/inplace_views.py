"""Views that change the tensor itself: ``t_``, ``transpose_``, ``squeeze_`` and others.

Each has the checks and geometry of its view; the tensor keeps its storage and identity.
"""

from __future__ import annotations

from collections.abc import Callable

from maquette.aten.view import views
from maquette.core.meta import TensorMeta
from maquette.core.views import as_strided_check
from maquette.dispatch import keysets as K
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.aliasing import alias_kernel
from maquette.tensor.keys import ADINPLACE
from maquette.tensor.tensor import Tensor
from maquette.tensor.up_to_date import tell_requires_grad
from maquette.transforms.functional.memory import detached
from maquette.transforms.wrappers import BatchedTensor


def _inplace(view: OperatorPage, rule: Callable[..., TensorMeta]) -> OperatorPage:
    head, _, rest = view.op._schema_text.partition("(")
    name, _, overload = head.partition(".")
    overload = "" if overload == "int" else overload
    written = rest.replace("Tensor(a)", "Tensor(a!)")
    page = define(
        f"{name}_{'.' if overload else ''}{overload}({written}",
        tags=[Tag.inplace, Tag.inplace_view],
    )
    page.shape(rule)
    page.facts.derivatives = view.facts.derivatives

    @page.batching_decomposition
    def in_place_batching(self: Tensor, *args: object) -> Tensor:
        """Give the tensor the value of the view."""
        seen = view(self, *args)
        assert isinstance(self, BatchedTensor)
        self._value, self._bdim, self.meta = seen._value, seen._bdim, seen.meta
        return self

    return page


t_ = _inplace(views.t, views.t_shape)
t_.node_name("TBackward1")
transpose_ = _inplace(views.transpose, views.transpose_shape)
transpose_.node_name("TransposeBackward1")

unsqueeze_ = _inplace(views.unsqueeze, views.unsqueeze_shape)
unsqueeze_.node_name("UnsqueezeBackward1")
squeeze_ = _inplace(views.squeeze, views.squeeze_shape)
squeeze_.node_name("SqueezeBackward3")
squeeze_.describe("Drop dimensions of size 1, or those given.")
squeeze__dim = _inplace(views.squeeze_dim, views.squeeze_dim_shape)
squeeze__dim.node_name("SqueezeBackward4")
squeeze__dims = _inplace(views.squeeze_dims, views.squeeze_dims_shape)
squeeze__dims.node_name("SqueezeBackward5")
as_strided_ = _inplace(views.as_strided, views.as_strided_shape)
as_strided_.node_name("AsStridedBackward1")
for _page in (t_, transpose_, as_strided_):
    _page.overlap_allowed()


def _within_storage(op: OpOverload, ks: int) -> Callable[..., object]:
    count = alias_kernel(op, ks)
    assert count is not None

    def kernel(
        ks: int,
        self: Tensor,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        storage_offset: int | None,
    ) -> object:
        offset = self.meta.offset if storage_offset is None else storage_offset
        as_strided_check(size, stride, offset, self.meta.itemsize, self._storage.nbytes())
        return count(ks, self, size, stride, storage_offset)

    return kernel


as_strided_.op.register(DispatchKey.ADInplaceOrView, Kernel(_within_storage))


detach_ = define(
    "aten::detach_(Tensor(a!) self) -> Tensor(a!)", tags=[Tag.inplace, Tag.inplace_view]
)
detach_.shape(lambda self: self)
detach_.nondifferentiable()


def _detached(op: OpOverload, ks: int) -> Callable[..., object]:
    below = ~(ADINPLACE | K.AUTOGRAD | K.REQUIRES_GRAD)

    def kernel(ks: int, self: Tensor) -> object:
        if self._base is not None:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using "
                "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
                "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
                "these gradients."
            )
        _forget_history(self)
        return op.run(ks & below, (self,))

    return kernel


def _forget_history(t: Tensor) -> None:
    if t._keys & K.REQUIRES_GRAD:
        ag = t._autograd()
        ag.requires_grad = False
        ag.grad_fn = None
        ag.output_nr = 0
        tell_requires_grad(t)


for _key in (DispatchKey.Autograd, DispatchKey.ADInplaceOrView):
    detach_.op.register(_key, Kernel(_detached))
detach_.functionalization(detached)
