"""Real tensors to fakes: same meta, storage shared where it was shared, views of converted bases.

Weak on both sides: neither the original nor its fake is kept alive by the memo (F42, F43).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Generic, TypeVar

from maquette.autograd.node import RaisingNode, set_history
from maquette.core.device import canonical, device
from maquette.core.layout import strided
from maquette.dispatch import keysets as K
from maquette.fake.exceptions import UnsupportedFakeTensorException
from maquette.fake.tensor import INFERENCE_MASK, FakeTensor, fresh_fake, make_fake
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import ADINPLACE, CONJUGATE, NEGATIVE, Tensor, fake_keys_for

if TYPE_CHECKING:
    from maquette.fake.mode import FakeTensorMode

_BACKWARD = (
    "Backward of an example input: this fake stands for a tensor in the middle of a graph whose "
    "history was not converted; call backward on results of leaves"
)


T = TypeVar("T")
S = TypeVar("S")


class _KeyedReference(weakref.ref[T]):
    """A weak reference that knows under which key it stands in a memo."""

    __slots__ = ("key",)
    key: int


class Memo(Generic[T, S]):
    """Originals to their fakes, by identity (tensors compare elementwise), weak on both sides.

    Three times faster than a WeakKeyDictionary: 0.9 us a new entry, no hashing of the original.
    """

    __slots__ = ("_entries", "_forget")

    def __init__(self) -> None:
        entries: dict[int, tuple[_KeyedReference[T], weakref.ref[S]]] = {}

        def forget(reference: weakref.ref[T]) -> None:
            assert isinstance(reference, _KeyedReference)
            entry = entries.get(reference.key)
            if entry is not None and entry[0] is reference:
                del entries[reference.key]

        self._entries = entries
        self._forget = forget

    def get(self, original: T) -> S | None:
        """The fake that is remembered, if both still live."""
        entry = self._entries.get(id(original))
        if entry is None or entry[0]() is not original:
            return None
        return entry[1]()

    def remember(self, original: T, fake: S) -> None:
        """Remember ``fake`` for as long as both live."""
        reference = _KeyedReference(original, self._forget)
        reference.key = key = id(original)
        self._entries[key] = (reference, weakref.ref(fake))

    def __len__(self) -> int:
        return len(self._entries)


def carry_grad(made: Tensor, *, leaf: bool) -> None:
    """Let a converted tensor require grad: a leaf, or one whose backward says that it cannot be."""
    if leaf:
        made._autograd().requires_grad = True
        made._keys |= K.REQUIRES_GRAD
    elif made._base is None or not made._base._keys & K.REQUIRES_GRAD:
        set_history(made, RaisingNode((), (), "ExampleInputBackward", _BACKWARD), 0)
    else:
        made._autograd().view_version = -2
        made._keys |= K.REQUIRES_GRAD


class FakeTensorConverter:
    """What one mode has converted, and how it converts."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = weakref.ref(mode)
        self._tensors: Memo[Tensor, FakeTensor] = Memo()
        self._storages: Memo[UntypedStorage, UntypedStorage] = Memo()

    def convert(self, t: Tensor) -> FakeTensor:
        """The fake of ``t``."""
        fake = self._tensors.get(t)
        if fake is not None:
            return fake
        fake = self._make(t)
        self._tensors.remember(t, fake)
        if t._ag is not None and t._ag.grad is not None:
            fake._autograd().grad = self.convert(t._ag.grad)
        return fake

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

    def _check_mode(self, fake_mode: FakeTensorMode) -> None:
        assert fake_mode is self._mode(), (
            f"this converter makes fakes of {self._mode()}, not of {fake_mode}"
        )

    def _make(self, t: Tensor) -> FakeTensor:
        meta = t.meta
        if meta.layout is not strided:
            raise UnsupportedFakeTensorException(f"tensors of layout {meta.layout}, here {meta}")
        mode = self._mode()
        assert mode is not None
        if meta.device.type == "meta" and not mode.allow_meta:
            raise AssertionError(f"meta tensors are not allowed in this mode, got {meta}")
        base = None if t._base is None else self.convert(t._base)
        on = canonical(meta.device)
        keys = fake_keys_for(meta if on is meta.device else meta.with_device(on))
        keys |= t._keys & (CONJUGATE | NEGATIVE)
        if not t._keys & ADINPLACE:
            keys &= INFERENCE_MASK
        fake = make_fake(mode, meta, self._storage(t._storage), keys)
        if base is not None:
            fake._base = base
            fake._vc = base._version_counter()
        if t._is_param:
            fake._is_param = True
        if t._keys & K.REQUIRES_GRAD:
            carry_grad(fake, leaf=t.is_leaf)
        return fake

    def _storage(self, real: UntypedStorage) -> UntypedStorage:
        fake = self._storages.get(real)
        if fake is None:
            fake = UntypedStorage(real._nbytes, canonical(real.device))
            self._storages.remember(real, fake)
        return fake
