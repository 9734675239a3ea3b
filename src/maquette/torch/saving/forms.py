"""How PyTorch's pickles have a tensor: the function that makes it again, and the arguments.

The functions are those of `_utils` and `layouts`, which files name by PyTorch's paths. Who pickles
says how a storage is held: a checkpoint refers to its bytes, a plain pickle has them inside.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from maquette.core.dtype import dtype
from maquette.nested import NestedTensor, StridedNestedTensor
from maquette.tensor.copying import check_can_save, class_in_pickles, slots_of
from maquette.tensor.parameter import Parameter
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor
from maquette.tensor.typed_storage import TypedStorage
from maquette.torch.saving import _utils, layouts, storage

Held = Callable[[UntypedStorage, dtype], TypedStorage]
Reduced = tuple[Callable[..., object], tuple[object, ...]]

#: The classes of storages that PyTorch has, by their dtypes.
TYPED = {
    kind: getattr(storage, name) for kind, name in storage._dtype_to_storage_type_map().items()
}


def reduced(t: Tensor, held: Held) -> Reduced:
    """What PyTorch's pickles say of a tensor; its class's own ``__reduce_ex__`` is not asked.

    TypeError for a fake, unless placeholders are to be saved; NotImplementedError for a fake that
    is not strided.
    """
    check_can_save(t)
    kind = class_in_pickles(t)
    attributes = dict(vars(t))
    if kind is Tensor or kind is Parameter:
        attributes.pop("_is_param", None)
    if kind is Parameter:
        return _parameter(t, attributes)
    function, args = layouts.parts_of(t) or _strided(t, held)
    if function not in (_utils._rebuild_tensor_v2, _utils._rebuild_tensor_v3):
        _check_parts(t)
    if kind in (NestedTensor, StridedNestedTensor) or (kind is Tensor and not attributes):
        return function, args
    slots = slots_of(t)
    state = (attributes, slots) if slots else attributes
    return _utils._rebuild_from_type_v2, (function, kind, args, state)


def _parameter(t: Tensor, attributes: dict[str, object]) -> Reduced:
    plain: tuple[object, ...] = (t.detach(), t.requires_grad, OrderedDict())
    if attributes:
        return _utils._rebuild_parameter_with_state, (*plain, attributes)
    return _utils._rebuild_parameter, plain


def _check_parts(t: Tensor) -> None:
    if t.fake_mode is not None:
        raise NotImplementedError(f"a fake tensor of layout {t.layout} is not saved, {t.meta}")


def _strided(t: Tensor, held: Held) -> Reduced:
    meta = t.meta
    size, stride = tuple(meta.shape), tuple(meta.strides)
    if meta.device.type == "meta":
        return _utils._rebuild_meta_tensor_no_storage, (
            meta.dtype, size, stride, t.requires_grad,
        )  # fmt: skip
    bits = {name: True for name, on in (("conj", t.is_conj()), ("neg", t.is_neg())) if on}
    facts: tuple[object, ...] = (meta.offset, size, stride, t.requires_grad, OrderedDict())
    elements = held(t._storage, meta.dtype)
    if meta.dtype in TYPED and elements.dtype is meta.dtype:
        return _utils._rebuild_tensor_v2, (elements, *facts, *([bits] if bits else ()))
    return _utils._rebuild_tensor_v3, (elements, *facts, meta.dtype, bits)
