"""Real tensors to fakes: same meta, storage shared where it was shared, views of converted bases.

Weak on both sides: neither the original nor its fake is kept alive by the memo (F42, F43).
"""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from maquette import symbolic
from maquette.autograd.grad_mode import enable_grad, set_grad_enabled
from maquette.autograd.node import RaisingNode, set_history
from maquette.core.device import canonical, device
from maquette.core.dtype import float64, int64
from maquette.core.layout import sparse_coo, strided
from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.fake.dynamic import ITEM
from maquette.fake.exceptions import UnsupportedFakeTensorException
from maquette.fake.layouts import pattern_of, specifying_nothing
from maquette.fake.tensor import INFERENCE_MASK, FakeTensor, fresh_fake, make_fake
from maquette.symbolic.numbers import SymInt
from maquette.tensor.keys import ADINPLACE, CONJUGATE, NEGATIVE, fake_keys_for
from maquette.tensor.sparse import SPARSE_LAYOUTS, coo_parts, set_parts
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor

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


class Symbols(NamedTuple):
    """How the sizes of a tensor become symbolic: in which environment, found where, which kinds."""

    env: symbolic.ShapeEnv
    source: object = None
    context: object = None

    def of_attribute(self, name: str, context: object) -> Symbols:
        """The same for a tensor that belongs to this one."""
        if self.source is None:
            return Symbols(self.env, None, context)
        source = symbolic.AttrSource(symbolic.source_of(self.source), name)
        return Symbols(self.env, source, context)

    def of_base(self) -> Symbols:
        """The same for the base of a view."""
        return self.of_attribute("_base", getattr(self.context, "view_base_context", None))

    def meta_of(self, t: Tensor) -> TensorMeta:
        """The meta of ``t`` with symbolic sizes; a fake of this environment keeps its own."""
        meta = t.meta
        if meta.is_symbolic and _env_of(meta) is self.env:
            return meta
        shape, strides, offset = self.env.symbolic_geometry(
            meta.shape,
            meta.strides,
            meta.offset,
            self.source,
            symbolic_context=self.context,
            marks=symbolic.marks_of(t),
        )
        return TensorMeta.of(meta.dtype, shape, strides, offset, meta.device, meta.layout)

    def remember_value(self, t: Tensor, fake: FakeTensor) -> None:
        """The item of an input that is one plain number is a symbol with a hint (F48)."""
        mode = fake.fake_mode
        if self.source is None or mode.export or t.fake_mode is not None or t._data is None:
            return
        if t.meta.shape or t.meta.device.type != "cpu" or t.meta.dtype not in (int64, float64):
            return
        value = t._data.item()
        if isinstance(value, float) and not math.isfinite(value):
            return
        env, item = self.env, symbolic.CallSource(symbolic.source_of(self.source), "item")
        made = env.poly_of(env.create_unspecified_symbol(value, item))
        kind = float if isinstance(value, float) else int
        mode.size_memos.put(fake, ITEM, mode.epoch, [env.node(made, kind).number])


def _env_of(meta: TensorMeta) -> object:
    for number in (*meta.shape, *meta.strides, meta.offset):
        if isinstance(number, SymInt):
            return number.node.shape_env
    return None


def _bytes_of(t: Tensor, meta: TensorMeta) -> int:
    """The bytes of a storage: symbolic where it is exactly as large as the tensor needs."""
    if meta.is_symbolic and t.meta.storage_bytes == t._storage._nbytes:
        return meta.storage_bytes
    return t._storage._nbytes


class FakeTensorConverter:
    """What one mode has converted, and how it converts."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = weakref.ref(mode)
        self._tensors: Memo[Tensor, FakeTensor] = Memo()
        self._storages: Memo[UntypedStorage, UntypedStorage] = Memo()

    def convert(self, t: Tensor, symbols: Symbols | None = None) -> FakeTensor:
        """The fake of ``t``; symbols: how its sizes become symbolic."""
        fake = self._tensors.get(t)
        if fake is not None:
            return fake
        fake = self._make(t, symbols)
        self._tensors.remember(t, fake)
        if t._ag is not None and t._ag.grad is not None:
            of_grad = None if symbols is None else symbols.of_attribute("grad", symbols.context)
            fake._autograd().grad = self.convert(t._ag.grad, of_grad)
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

    def _make(self, t: Tensor, symbols: Symbols | None = None) -> FakeTensor:
        meta = t.meta
        mode = self._mode()
        assert mode is not None
        if meta.layout is not strided:
            return self._make_sparse(mode, t, symbols)
        if meta.device.type == "meta" and not mode.allow_meta:
            raise AssertionError(f"meta tensors are not allowed in this mode, got {meta}")
        if symbols is not None:
            meta = symbols.meta_of(t)
        base = None
        if t._base is not None:
            base = self.convert(t._base, None if symbols is None else symbols.of_base())
            if base.meta.layout is not strided:
                return self._values_of(t, base)
        on = canonical(meta.device)
        keys = fake_keys_for(meta if on is meta.device else meta.with_device(on))
        keys |= t._keys & (CONJUGATE | NEGATIVE)
        if not t._keys & ADINPLACE:
            keys &= INFERENCE_MASK
        storage = self._storage(t._storage, _bytes_of(t, meta))
        fake = make_fake(mode, meta, storage, keys)
        if base is not None:
            fake._base = base
            base._viewed = True
            fake._vc = base._version_counter()
        if t._is_param:
            fake._is_param = True
        if t._keys & K.REQUIRES_GRAD:
            carry_grad(fake, leaf=t.is_leaf)
        if symbols is not None:
            symbols.remember_value(t, fake)
        return fake

    def _make_sparse(self, mode: FakeTensorMode, t: Tensor, symbols: Symbols | None) -> FakeTensor:
        """The fake of a sparse tensor, which specifies nothing (M54, M55)."""
        meta = t.meta
        if meta.layout not in SPARSE_LAYOUTS:
            raise UnsupportedFakeTensorException(f"tensors of layout {meta.layout}, here {meta}")
        shape = meta.shape
        # Sizes become symbols only where that is asked for, or where they are symbols already.
        if symbols is not None and (symbols.context is not None or meta.is_symbolic):
            shape = symbols.meta_of(t).shape
        pattern = pattern_of(t)._replace(device=canonical(meta.device))
        fake = specifying_nothing(pattern, shape, lambda meta: fresh_fake(mode, meta))
        assert isinstance(fake, FakeTensor)
        if not t._keys & ADINPLACE:
            fake._keys &= INFERENCE_MASK
        if t._is_param:
            fake._is_param = True
        if t._keys & K.REQUIRES_GRAD:
            if t.is_leaf or meta.layout is not sparse_coo:
                carry_grad(fake, leaf=t.is_leaf)
            else:
                fake = self._cloned(mode, fake, pattern.coalesced)
        return fake

    def _cloned(self, mode: FakeTensorMode, fake: FakeTensor, coalesced: bool) -> FakeTensor:
        """A fake with a history, which PyTorch gives a COO tensor by a clone."""
        fake._require_grad()
        with enable_grad(), mode:
            made = fake.clone()
        assert isinstance(made, FakeTensor)
        set_parts(made, coo_parts(made)._replace(coalesced=coalesced))
        return made

    def _values_of(self, t: Tensor, base: FakeTensor) -> FakeTensor:
        """The fake of a view of a sparse tensor, of which there is one: its values."""
        if base.meta.layout is sparse_coo or t.meta.layout is not strided:
            raise UnsupportedFakeTensorException(f"a view of a {base.meta.layout} tensor: {t.meta}")
        with set_grad_enabled(t.requires_grad and not t.is_leaf):
            made = base.values()
        assert isinstance(made, FakeTensor)
        return made

    def _storage(self, real: UntypedStorage, nbytes: int) -> UntypedStorage:
        fake = self._storages.get(real)
        if fake is None:
            fake = UntypedStorage(nbytes, canonical(real.device))
            self._storages.remember(real, fake)
        return fake
