"""Real tensors to fakes: same meta, storage shared where it was shared, views of converted bases.

Weak on both sides: neither the original nor its fake is kept alive by the memo (F42, F43).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from maquette.autograd.node import RaisingNode, set_history
from maquette.core.device import canonical
from maquette.core.layout import strided
from maquette.dispatch import keysets as K
from maquette.fake.exceptions import UnsupportedFakeTensorException
from maquette.fake.tensor import INFERENCE_MASK, FakeTensor, make_fake
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import CONJUGATE, NEGATIVE, Tensor, fake_keys_for

if TYPE_CHECKING:
    from maquette.fake.mode import FakeTensorMode

_BACKWARD = (
    "Backward of an example input: this fake stands for a tensor in the middle of a graph whose "
    "history was not converted; call backward on results of leaves"
)


class Converter:
    """The memo of one mode."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = weakref.ref(mode)
        # By id: tensors compare elementwise. An entry goes when its original dies.
        self._tensors: dict[int, tuple[weakref.ref[Tensor], weakref.ref[FakeTensor]]] = {}
        self._storages: weakref.WeakKeyDictionary[
            UntypedStorage, weakref.ref[UntypedStorage]
        ] = weakref.WeakKeyDictionary()

    def convert(self, t: Tensor) -> FakeTensor:
        """The fake of ``t``."""
        known = self._tensors.get(id(t))
        if known is not None:
            fake = known[1]()
            if fake is not None and known[0]() is t:
                return fake
        fake = self._make(t)
        self._remember(t, fake)
        if t.grad is not None:
            fake._autograd().grad = self.convert(t.grad)
        return fake

    def _remember(self, t: Tensor, fake: FakeTensor) -> None:
        key, tensors = id(t), self._tensors

        def forget(reference: weakref.ref[Tensor]) -> None:
            entry = tensors.get(key)
            if entry is not None and entry[0] is reference:
                del tensors[key]

        tensors[key] = (weakref.ref(t, forget), weakref.ref(fake))

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
        if t.is_inference():
            keys &= INFERENCE_MASK
        fake = make_fake(mode, meta, self._storage(t._storage), keys)
        if base is not None:
            fake._base = base
            fake._vc = base._version_counter()
        if t._is_param:
            fake._is_param = True  # type: ignore[misc]  # an instance may say so of itself
        if t._keys & K.REQUIRES_GRAD:
            self._carry_grad(t, fake)
        return fake

    def _carry_grad(self, t: Tensor, fake: FakeTensor) -> None:
        if t.is_leaf:
            fake._autograd().requires_grad = True
            fake._keys |= K.REQUIRES_GRAD
        elif fake._base is None or not fake._base._keys & K.REQUIRES_GRAD:
            set_history(fake, RaisingNode((), (), "ExampleInputBackward", _BACKWARD), 0)
        else:
            fake._autograd().view_version = -2
            fake._keys |= K.REQUIRES_GRAD

    def _storage(self, real: UntypedStorage) -> UntypedStorage:
        known = self._storages.get(real)
        fake = None if known is None else known()
        if fake is None:
            fake = UntypedStorage(real.nbytes(), canonical(real.device))
            self._storages[real] = weakref.ref(fake)
        return fake
