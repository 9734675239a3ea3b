"""Tensors to meta tensors, or whatever a callback makes of those: the same geometry, no data.

`MetaConverter` knows tensors and storages by the numbers of its describer, so it keeps neither its
inputs nor its results alive. `FakeTensorConverter` takes the straight way from a tensor to its
fake; what is more than a dense tensor both convert by `unusual.py`.
"""

from __future__ import annotations

import contextlib
import weakref
from contextlib import AbstractContextManager
from typing import Protocol

from maquette.core.device import device
from maquette.core.device import meta as meta_device
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike
from maquette.dispatch import keysets as K
from maquette.fake.described.comparing import assert_eq, assert_metadata_eq
from maquette.fake.described.describe import MetaTensorDescriber
from maquette.fake.exceptions import UnsupportedFakeTensorException
from maquette.fake.kinds import counts_as_inference, safe_is_leaf
from maquette.fake.memo import Memo
from maquette.fake.real.data import keep_data
from maquette.fake.symbols import Symbols
from maquette.fake.tensor import FakeTensor, fake_view
from maquette.fake.unusual import (
    Counters,
    carry_grad,
    carry_grad_dtype,
    check_dispatch,
    convert_unusual,
    is_unusual,
    keep_counter,
    keep_kind,
    outside_transforms,
)
from maquette.library.arrays import view_of
from maquette.symbolic import ShapeEnv
from maquette.tensor.history import TypedLeaf
from maquette.tensor.keys import ADINPLACE, CONJUGATE, NEGATIVE, keys_for
from maquette.tensor.parameter import Parameter
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor, wrap


class Make(Protocol):
    """Builds a fresh meta tensor."""

    def __call__(self) -> Tensor: ...


class Callback(Protocol):
    """Makes the result of a fresh meta tensor, for a tensor that was on ``device``."""

    def __call__(self, make: Make, *, device: device) -> Tensor: ...


def on_meta(make: Make, *, device: device) -> Tensor:
    """The fresh meta tensor itself."""
    return make()


class MetaConverter:
    """Converts tensors to meta tensors, each to one while that lives.

    hit: calls that gave a tensor. miss: calls for what does not convert. arg_cnt: tensors that were
    asked for, bases, gradients and inner tensors among them. copy_data: let descriptions keep data,
    and give results the values as ``real_tensor``, storages as ``real_storage`` (M70).
    """

    def __init__(self, *, copy_data: bool = False) -> None:
        self.copy_data = copy_data
        self.describer = MetaTensorDescriber(copy_data=copy_data)
        self.tensor_memo: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()
        self.storage_memo: weakref.WeakValueDictionary[int, UntypedStorage] = (
            weakref.WeakValueDictionary()
        )
        self.counters: Counters = Memo()
        self.hit = self.miss = self.arg_cnt = 0

    def successful(self) -> bool:
        """Whether something was converted, and nothing refused."""
        return self.hit > 0 and self.miss == 0

    def __call__(
        self,
        t: object,
        shape_env: ShapeEnv | None = None,
        *,
        callback: Callback | None = None,
        source: object | None = None,
        symbolic_context: object | None = None,
        trace: bool = True,
    ) -> object:
        """The meta tensor of ``t``; what is no tensor, as it is; NotImplemented where refused.

        shape_env: where sizes become symbols, as ``symbolic_context`` says; source: where ``t`` is
        found. Refused are tensor-likes of other classes, lazy devices, quantised tensors and views
        of COO tensors. Raises AssertionError where the result is not like ``t``.
        """
        if not isinstance(t, Tensor):
            if not hasattr(type(t), "__torch_function__"):
                return t
            self.miss += 1
            return NotImplemented
        check_dispatch()
        if t.is_quantized or t.meta.device.type == "lazy":
            self.miss += 1
            return NotImplemented
        if trace:
            described = self.describer.describe_tensor(t, trace=trace)
            if source is not None:
                self.describer.trace_source(described, source)
        symbols = None
        if shape_env is not None:
            symbols = Symbols(shape_env, source, symbolic_context)
        try:
            with outside_transforms():
                made = _Conversion(self, callback or on_meta).convert(t, symbols)
        except UnsupportedFakeTensorException:
            self.miss += 1
            return NotImplemented
        self.hit += 1
        return made


class _Conversion:
    """One call of a `MetaConverter`, with its callback."""

    def __init__(self, by: MetaConverter, callback: Callback) -> None:
        self._by = by
        self._callback = callback

    def convert(self, t: Tensor, symbols: Symbols | None = None) -> Tensor:
        """The result for ``t``, the one that is remembered if that still lives."""
        by = self._by
        by.arg_cnt += 1
        number = by.describer.get_tensor_id(t)
        made = by.tensor_memo.get(number)
        if made is not None:
            return made
        unusual = is_unusual(t)
        made = convert_unusual(self, t, symbols) if unusual else self.plain(t, symbols)
        by.tensor_memo[number] = made
        history = t._ag
        if history is not None and history.creation_meta and made._base is not None:
            made._autograd().creation_meta = history.creation_meta
        if history.__class__ is TypedLeaf:
            carry_grad_dtype(t, made)
        if history is not None and history.grad is not None:
            of_grad = None if symbols is None else symbols.of_grad(t, history.grad)
            grad = self.convert(history.grad, of_grad)
            expect_alike(made.meta.shape, grad.meta.shape)  # a guard, where both have symbols
            made._autograd().grad = grad
        if by.copy_data:
            keep_data(t, made)
        if not unusual:
            assert_metadata_eq(assert_eq, t, made, skip_symbolic=True)
        return made

    def running(self) -> AbstractContextManager[object]:
        """Operators on meta tensors give meta tensors anyway."""
        return contextlib.nullcontext()

    def fresh(self, meta: TensorMeta) -> Tensor:
        """What the callback makes of a new meta tensor."""
        return self._called(meta.with_device(meta_device), meta.storage_bytes, 0, meta.device)

    def _called(self, meta: TensorMeta, nbytes: int, bits: int, where: device) -> Tensor:
        def make() -> Tensor:
            storage = UntypedStorage(nbytes, meta_device)
            return wrap(meta, storage, None, keys_for(meta) | bits)

        made = self._callback(make, device=where)
        assert made.is_leaf, (
            "the callback gave MetaConverter a tensor with a history, where it must give a leaf: "
            "detach() it"
        )
        return made

    def plain(self, t: Tensor, symbols: Symbols | None = None) -> Tensor:
        """The result for a dense tensor, whatever its class."""
        meta = t.meta if symbols is None else symbols.meta_of(t)
        made = self._view(t, meta, symbols) if t._base is not None else self._whole(t, meta)
        if t._is_param and not isinstance(made, FakeTensor) and type(made) is Tensor:
            made = _parameter(made)
        elif t._is_param:
            made._is_param = True
        keep_kind(t, made)
        if t._keys & K.REQUIRES_GRAD:
            carry_grad(made, leaf=safe_is_leaf(t))
        return made

    def _whole(self, t: Tensor, meta: TensorMeta) -> Tensor:
        by, nbytes = self._by, t._storage._nbytes
        if meta.is_symbolic and t.meta.storage_bytes == nbytes:
            nbytes = meta.storage_bytes
        bits = t._keys & (CONJUGATE | NEGATIVE)
        made = self._called(meta.with_device(meta_device), nbytes, bits, t.meta.device)
        if counts_as_inference(t):
            made._keys &= ~(ADINPLACE | K.AUTOGRAD)
        keep_counter(by.counters, t, made)
        number = by.describer.get_storage_id(t._storage)
        made._storage = by.storage_memo.setdefault(number, made._storage)
        return made

    def _view(self, t: Tensor, meta: TensorMeta, symbols: Symbols | None) -> Tensor:
        assert t._base is not None
        base = self.convert(t._base, None if symbols is None else symbols.of_base())
        meta = meta.with_device(base.meta.device)
        made = fake_view(base, meta) if isinstance(base, FakeTensor) else view_of(base, meta)
        lazy = CONJUGATE | NEGATIVE
        made._keys = made._keys & ~lazy | t._keys & lazy
        made._base = base
        base._viewed = True
        made._vc = base._version_counter()
        return made


def _parameter(made: Tensor) -> Tensor:
    """A meta tensor as a `Parameter`, which does not require grad yet."""
    return Parameter(made, requires_grad=False)
