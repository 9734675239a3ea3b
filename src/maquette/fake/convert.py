"""Real tensors to fakes: same meta, storage shared where it was shared, views of converted bases.

Weak on both sides: neither the original nor its fake is kept alive by the memo (F42, F43).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, cast
from weakref import ref

from maquette.core.device import canonical, cpu, device
from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike
from maquette.dispatch import keysets as K
from maquette.fake.kinds import counts_as_inference, safe_is_leaf
from maquette.fake.memo import Entry, Memo
from maquette.fake.real.data import keep_data
from maquette.fake.symbols import Symbols, remember_value
from maquette.fake.tensor import INFERENCE_MASK, FakeTensor, fresh_fake, make_fake
from maquette.fake.unusual import (
    Counters,
    carry_grad,
    carry_grad_dtype,
    convert_unusual,
    is_unusual,
    keep_counter,
    keep_kind,
    outside_transforms,
)
from maquette.tensor.history import TypedLeaf
from maquette.tensor.keys import ADINPLACE, CONJUGATE, NEGATIVE, fake_keys_for
from maquette.tensor.parameter import Parameter
from maquette.tensor.storage import UntypedStorage, new_storage
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fake.mode import FakeTensorMode

_PLAIN = (Tensor, Parameter, FakeTensor)
_LAZY = CONJUGATE | NEGATIVE


def _bytes_of(t: Tensor, meta: TensorMeta) -> int:
    """The bytes of a storage: symbolic where it is exactly as large as the tensor needs."""
    if meta.is_symbolic and t.meta.storage_bytes == t._storage._nbytes:
        return meta.storage_bytes
    return t._storage._nbytes


def _nobody() -> None:
    """In the place of a mode that is not known yet."""


class FakeTensorConverter:
    """What one mode has converted, and how it converts.

    Made without a mode, it is for the first that it is asked to convert for.
    """

    def __init__(
        self, mode: FakeTensorMode | None = None, *, copy_data: bool = False, export: bool = False
    ) -> None:
        self._mode: Callable[[], FakeTensorMode | None] = _nobody
        if mode is not None:
            self._mode = weakref.ref(mode)
        self.copy_data = copy_data
        self.export = export
        self._tensors: Memo[Tensor, FakeTensor] = Memo()
        self._storages: Memo[UntypedStorage, UntypedStorage] = Memo(both_ways=True)
        self._counters: Counters = Memo()

    def convert(self, t: Tensor, symbols: Symbols | None = None) -> FakeTensor:
        """The fake of ``t``; symbols: how its sizes become symbolic."""
        # `make bench` has rows of this and of `plain`: what is asked in line takes half the time of
        # calls, so what memos do is written out where the original is in no memo.
        tensors = self._tensors
        try:
            before = t._converted
        except AttributeError:
            before = None
        if before is not None:
            known = tensors.get(t)
            if known is not None:
                return known
        base = t._base
        plain = t.__class__ in _PLAIN and t.meta.layout is strided
        if plain and (base is None or (base.__class__ in _PLAIN and base.meta.layout is strided)):
            fake = self.plain(t, symbols)
        else:
            fake = self._make(t, symbols)
        if before is None:
            entry: Entry[FakeTensor] = Entry(fake)
            entry.key, entry.rest = tensors.key, None
            t._converted = entry
        else:
            tensors.remember(t, fake)
        if self.copy_data:
            keep_data(t, fake)
        history = t._ag
        if history is not None:
            if history.creation_meta and fake._base is not None:
                fake._autograd().creation_meta = history.creation_meta
            if history.__class__ is TypedLeaf:
                carry_grad_dtype(t, fake)
            if history.grad is not None:
                self._convert_grad(t, fake, history.grad, symbols)
        return fake

    def _convert_grad(
        self, t: Tensor, fake: FakeTensor, grad: Tensor, symbols: Symbols | None
    ) -> None:
        of_grad = None if symbols is None else symbols.of_grad(t, grad)
        made = self.convert(grad, of_grad)
        expect_alike(fake.meta.shape, made.meta.shape)  # a guard, where both have symbols
        fake._autograd().grad = made

    def from_real_tensor(
        self, fake_mode: FakeTensorMode, t: Tensor, make_constant: bool = False
    ) -> FakeTensor:
        """The fake of ``t``; make_constant: a new one, which knows ``t`` itself as its value (F47).

        Raises AssertionError for a constant parameter, and for another mode than the converter's.
        """
        self._check_mode(fake_mode)
        if not make_constant:
            return self.convert(t)
        assert not t._is_param, f"a parameter is no constant: it is trained. Got {t.meta}"
        fake = self._make(t)
        fake_mode.constants.attach(fake, t)
        return fake

    def from_meta_and_device(self, fake_mode: FakeTensorMode, t: Tensor, on: object) -> FakeTensor:
        """The fake of a meta tensor on a device; the first device that was asked for stays (F47).

        Raises AssertionError for a tensor on another device than ``meta``.
        """
        self._check_mode(fake_mode)
        where = t.meta.device
        assert where.type == "meta", f"tensor's device must be `meta`, got {where} instead"
        fake = self._tensors.get(t)
        if fake is None:
            wanted = canonical(on if isinstance(on, device) else device(str(on)))
            fake = fresh_fake(fake_mode, t.meta.with_device(wanted))
            self._tensors.remember(t, fake)
        return fake

    def clear_non_cpu_constants(self) -> None:
        """Forget the values of fakes on other devices than the cpu (F68)."""
        mode = self._mode()
        assert mode is not None
        mode.constants.forget_elsewhere()

    @property
    def tensor_memo(self) -> Memo[Tensor, FakeTensor]:
        """The originals that were converted, while they live."""
        return self._tensors

    @property
    def storage_memo(self) -> Memo[UntypedStorage, UntypedStorage]:
        """The storages that were converted, while they live."""
        return self._storages

    @property
    def meta_converter(self) -> FakeTensorConverter:
        """What converts: in PyTorch another object, here the converter itself."""
        return self

    def _check_mode(self, fake_mode: FakeTensorMode) -> None:
        if self._mode is _nobody:
            self._mode = weakref.ref(fake_mode)
        assert fake_mode is self._mode(), (
            f"this converter makes fakes of {self._mode()}, not of {fake_mode}"
        )

    def _make(self, t: Tensor, symbols: Symbols | None = None) -> FakeTensor:
        if not is_unusual(t):
            return self.plain(t, symbols)
        with outside_transforms():
            return cast(FakeTensor, convert_unusual(self, t, symbols))

    def fresh(self, meta: TensorMeta) -> FakeTensor:
        """A new fake, on the device that accelerators without an index mean."""
        return fresh_fake(self._of(), meta.with_device(canonical(meta.device)))

    def running(self) -> FakeTensorMode:
        """The mode."""
        return self._of()

    def _of(self) -> FakeTensorMode:
        mode = self._mode()
        assert mode is not None
        return mode

    def plain(self, t: Tensor, symbols: Symbols | None = None) -> FakeTensor:
        """The fake of a dense tensor, whatever its class."""
        meta, mode, storage, real_keys = t.meta, self._mode(), t._storage, t._keys
        assert mode is not None
        base = None
        if symbols is not None:
            meta = symbols.meta_of(t)
        if t._base is not None:
            base = self.convert(t._base, None if symbols is None else symbols.of_base())
        if real_keys == meta.keys and meta.device is cpu:
            on, keys = cpu, meta.fake_keys  # nothing is special
        else:
            on = canonical(meta.device)
            keys = self._keys_of(t, meta if on is meta.device else meta.with_device(on))
        storages = self._storages
        try:
            before = storage._converted
        except AttributeError:
            before = None
        shared = known = None if before is None else storages.get(storage)
        if shared is None:
            nbytes = storage._nbytes if symbols is None else _bytes_of(t, meta)
            where = storage.device
            shared = new_storage(nbytes, on if where is meta.device else canonical(where))
            if before is None:
                entry: Entry[UntypedStorage] = Entry(shared)
                entry.key, entry.rest, entry.of = storages.key, None, ref(storage)
                storage._converted = entry
            else:
                storages.remember(storage, shared)
        fake = make_fake(mode, meta, shared, keys)
        if base is not None:
            fake._base = base
            base._viewed = True
            vc = base._vc
            fake._vc = base._version_counter() if vc is None else vc
        elif t._vc is not None:
            keep_counter(self._counters, t, fake, alone=known is None)
        if t._is_param:
            fake._is_param = True
        elif t._is_buffer:
            keep_kind(t, fake)
        if real_keys & K.REQUIRES_GRAD:
            carry_grad(fake, leaf=safe_is_leaf(t))
        if symbols is not None:
            remember_value(symbols, t, fake)
        return fake

    def _keys_of(self, t: Tensor, there: TensorMeta) -> int:
        """The keys of the fake: those of its meta, less or more what is special about ``t``."""
        mode = self._of()
        if not mode.allow_meta and there.device.type == "meta":
            raise AssertionError(f"meta tensors are not allowed in this mode, got {there}")
        real_keys = t._keys
        keys = (there.fake_keys or fake_keys_for(there)) | real_keys & _LAZY
        if not real_keys & ADINPLACE and counts_as_inference(t):
            keys &= INFERENCE_MASK
        return keys
