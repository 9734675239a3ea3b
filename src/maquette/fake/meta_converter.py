"""Tensors made from descriptions: the same geometry, aliases, views and leaves, without data.

`MetaConverter` makes meta tensors, or whatever its callback makes of them. The one idea: it works
on descriptions (`describe.py`), by their numbers, so it keeps neither its inputs nor its results
alive. `FakeTensorConverter` takes the straight way from a tensor to its fake. Dense tensors, views
of them and wrapper subclasses convert; sizes are as they are.
"""

from __future__ import annotations

import weakref
from typing import Protocol, cast

from maquette.core.device import device
from maquette.core.device import meta as meta_device
from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.fake.convert import carry_grad
from maquette.fake.describe import CreationMeta, MetaTensorDesc, MetaTensorDescriber
from maquette.fake.tensor import FakeTensor, fake_view
from maquette.library.arrays import view_of
from maquette.tensor.keys import ADINPLACE, CONJUGATE, NEGATIVE, keys_for
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor, wrap
from maquette.tensor.up_to_date import make_view

_BITS = {"is_conj": CONJUGATE, "is_neg": NEGATIVE}


class Make(Protocol):
    """Builds a fresh meta tensor."""

    def __call__(self) -> Tensor: ...


class Callback(Protocol):
    """Makes the result of a fresh meta tensor, for a tensor that was on ``device``."""

    def __call__(self, make: Make, *, device: device) -> Tensor: ...


def on_meta(make: Make, *, device: device) -> Tensor:
    """The fresh meta tensor itself."""
    return make()


class _Unflatten(Protocol):
    @staticmethod
    def __tensor_unflatten__(
        inner: dict[str, Tensor], context: object, size: object, stride: object
    ) -> Tensor: ...


class MetaConverter:
    """Converts tensors to meta tensors, each to one while that lives.

    hit: calls that gave a tensor. miss: calls for what does not convert. arg_cnt: tensors that were
    asked for, bases, gradients and inner tensors among them. copy_data: let descriptions keep data.
    """

    def __init__(self, *, copy_data: bool = False) -> None:
        self.describer = MetaTensorDescriber(copy_data=copy_data)
        self.tensor_memo: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()
        self.storage_memo: weakref.WeakValueDictionary[int, UntypedStorage] = (
            weakref.WeakValueDictionary()
        )
        self.hit = self.miss = self.arg_cnt = 0

    def successful(self) -> bool:
        """Whether something was converted, and nothing refused."""
        return self.hit > 0 and self.miss == 0

    def __call__(
        self,
        t: object,
        shape_env: object | None = None,
        *,
        callback: Callback | None = None,
        source: object | None = None,
        symbolic_context: object | None = None,
        trace: bool = True,
    ) -> object:
        """The meta tensor of ``t``; what is no tensor, as it is; NotImplemented where refused.

        Refused are tensor-likes of other classes, lazy devices, layouts that are not strided.
        Raises NotImplementedError for a shape environment: sizes do not become symbols yet.
        """
        if not isinstance(t, Tensor):
            if not hasattr(type(t), "__torch_function__"):
                return t
            self.miss += 1
            return NotImplemented
        if shape_env is not None:
            raise NotImplementedError("MetaConverter: symbolic shapes (shape_env) are not there")
        if t.is_quantized or t.meta.device.type == "lazy" or t.meta.layout is not strided:
            self.miss += 1
            return NotImplemented
        described = self.describer.describe_tensor(t, trace=trace)
        if trace and source is not None:
            self.describer.trace_source(described, source)
        self.hit += 1
        return self._converted(described, callback or on_meta)

    def _converted(self, d: MetaTensorDesc, callback: Callback) -> Tensor:
        self.arg_cnt += 1
        known = self.tensor_memo.get(d.id)
        if known is not None:
            return known
        if d.attrs is not None:
            made = self._wrapper(d, callback)
        else:
            made = self._fresh(d, callback) if d.base is None else self._view(d, d.base, callback)
        self.tensor_memo[d.id] = made
        if d.requires_grad and not made.requires_grad:
            carry_grad(made, leaf=d.is_leaf)
        if d.creation_meta not in (None, CreationMeta.DEFAULT):
            made._autograd().creation_meta = cast(CreationMeta, d.creation_meta).value
        if d.is_parameter:
            made._is_param = True
        if d.grad is not None:
            made._autograd().grad = self._converted(d.grad, callback)
        return made

    def _fresh(self, d: MetaTensorDesc, callback: Callback) -> Tensor:
        assert d.storage is not None
        number, nbytes = d.storage.id, d.storage.size
        meta = _geometry(d, meta_device)
        keys = keys_for(meta)
        for name, bit in _BITS.items():
            keys |= bit if getattr(d, name) else 0
        if d.is_inference:
            keys &= ~(ADINPLACE | K.AUTOGRAD)

        def make() -> Tensor:
            return wrap(meta, UntypedStorage(nbytes, meta_device), None, keys)

        made = callback(make, device=d.device)
        assert made.is_leaf, (
            "the callback gave MetaConverter a tensor with a history, where it must give a leaf: "
            "detach() it"
        )
        made._storage = self.storage_memo.setdefault(number, made._storage)
        return made

    def _view(self, d: MetaTensorDesc, root: MetaTensorDesc, callback: Callback) -> Tensor:
        base = self._converted(root, callback)
        meta = _geometry(d, base.meta.device)
        made = fake_view(base, meta) if isinstance(base, FakeTensor) else view_of(base, meta)
        for name, bit in _BITS.items():
            made._keys = made._keys | bit if getattr(d, name) else made._keys & ~bit
        make_view(made, base)
        made._vc = base._version_counter()
        return made

    def _wrapper(self, d: MetaTensorDesc, callback: Callback) -> Tensor:
        assert d.attrs is not None
        inner = {name: self._converted(a, callback) for name, a in d.attrs.items()}
        return cast(_Unflatten, d.type).__tensor_unflatten__(inner, d.ctx, d.size, d.stride)


def _geometry(d: MetaTensorDesc, on: device) -> TensorMeta:
    return TensorMeta.of(d.dtype, d.size, d.stride, d.storage_offset, on, d.layout)
