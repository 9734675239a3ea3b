"""Copies of tensors: ``copy.copy``, ``copy.deepcopy`` and pickle.

What aliased before aliases after: a deep copy copies each storage once per memo, and a pickle holds
each storage once, with the tensors laid over it as they were (T55, T56). No operator is called, so
the same code copies real tensors, fakes and wrappers. The graph of autograd is never copied. Files
are `saving.py`.
"""

from __future__ import annotations

import copy
import copyreg
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from maquette.core.device import device
from maquette.core.errors import check
from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.dispatch.abstract import overrides_torch_function
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import (
    NO_OVERRIDE,
    call_torch_function,
    modes_are_active,
)
from maquette.tensor.arrays import array_over
from maquette.tensor.backend import backend_of
from maquette.tensor.keys import (
    ADINPLACE,
    CONJUGATE,
    FAMILY,
    NEGATIVE,
    fake_keys_for,
    inference_keys,
    keys_for,
)
from maquette.tensor.parameter import Parameter, of_class
from maquette.tensor.pickled_form import pickled_form
from maquette.tensor.sparse import Parts, parts_of, sparse_tensor
from maquette.tensor.storage import UntypedStorage, observers_paused
from maquette.tensor.tensor import Tensor, alias, from_storage, wrap
from maquette.tensor.up_to_date import up_to_date

Memo = dict[int, object]
Bytes = npt.NDArray[np.uint8]
# Under `skip_data`, whether fakes are saved as placeholders; None outside.
_SKIPS: ContextVar[bool | None] = ContextVar("skip_data", default=None)


class Constants(Protocol):
    """What a fake mode keeps of known values."""

    def attach(self, fake: Tensor, value: Tensor) -> None: ...


class FakeMode(Protocol):
    """What is asked of a fake mode here; the class is in `maquette.fake`."""

    constants: Constants

    def from_tensor(self, tensor: Tensor) -> Tensor: ...


# --- deep copies ---------------------------------------------------------------------


def deep_copy(self: Tensor, memo: Memo) -> Tensor:
    """A copy over new memory, aliasing the copies of what this aliases (T55, F11).

    Raises RuntimeError for a tensor with history: only leaves are copied. A function mode, or a
    class that overrides functions, is asked first. An object of a program's class is made by the
    class: by ``new_empty``, or by ``clone`` where it has no memory; RuntimeError if what that gives
    is of another class, as it is unless the class says otherwise.
    """
    if modes_are_active() or overrides_torch_function(type(self)):
        answer = call_torch_function(deep_copy, (self, memo), {}, (self,))
        if answer is not NO_OVERRIDE:
            return cast(Tensor, answer)
    if not self.is_leaf:
        raise RuntimeError(
            f"Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            f"protocol at the moment; this {self.meta} is the result of {self.grad_fn}. Copy its "
            f"value with detach().clone()"
        )
    made = _copied_data(self, memo)
    memo[id(self)] = made
    vars(made).update(copy.deepcopy(vars(self), memo))
    _fill_slots(made, copy.deepcopy(slots_of(self), memo))
    if self._grad is not None and not isinstance(self, Parameter):
        made._autograd().grad = copy.deepcopy(self._grad, memo)
    if self.requires_grad:
        made._require_grad()
    return made


def _copied_data(t: Tensor, memo: Memo) -> Tensor:
    if not (issubclass(type(t), Parameter) or is_own(type(t))):
        recording = tls.st.grad_enabled
        tls.st.set_grad_enabled(False)
        try:
            return _copied_by_class(t, memo)
        finally:
            tls.st.set_grad_enabled(recording)
    if t.meta.layout in FAMILY:
        return t.detach().clone()
    _check_strided(t, "deepcopy")
    if t._keys & (CONJUGATE | NEGATIVE):
        return _materialized(t)
    made = _laid_over(copied_storage(t._storage, memo), t.meta, t)
    if t.constant is not None:
        with observers_paused():
            value = copy.deepcopy(t.constant, memo)
        cast(FakeMode, t.fake_mode).constants.attach(made, value)
    return made


def _copied_by_class(t: Tensor, memo: Memo) -> Tensor:
    """The copy of an object of a program's class, which makes its objects itself."""
    if t._mq_data is None or t.meta.numel == 0:  # a sparse one has no data of its own either
        return _checked_class(t.clone(), t, "wrapper subclasses", "clone()", "cloning")
    made: Tensor = t.new_empty([])
    made = _checked_class(made, t, "non-wrapper subclasses", "new_empty()", "that function")
    storage = copied_storage(t._storage, memo)
    made.set_(storage, t.storage_offset(), t.size(), t.stride())
    made = made.conj_physical() if t.is_conj() else made
    return made.neg() if t.is_neg() else made


def _checked_class(made: Tensor, like: Tensor, kinds: str, by: str, how: str) -> Tensor:
    if type(made) is type(like):
        return made
    raise RuntimeError(
        f"The default implementation of __deepcopy__() for {kinds} works for those that implement "
        f"{by} and for which {how} returns another instance of the same subclass; that of "
        f"{type(like).__name__} gives a {type(made).__name__}. Define {by} or __deepcopy__()"
    )


def _check_strided(t: Tensor, what: str) -> None:
    if t.meta.layout is not strided:
        raise NotImplementedError(
            f"{what} of a tensor of layout {t.meta.layout} is not supported; copy its strided parts"
        )


def copied_storage(storage: UntypedStorage, memo: Memo) -> UntypedStorage:
    """The copy of a storage, made once per memo."""
    known = memo.get(id(storage))
    if isinstance(known, UntypedStorage):
        return known
    data = None if storage.data is None else storage.raw().copy()
    made = UntypedStorage(storage.nbytes(), storage.device, data)
    memo[id(storage)] = made
    return made


def _laid_over(storage: UntypedStorage, meta: TensorMeta, like: Tensor) -> Tensor:
    """A leaf of the class of ``like``, and of its fake mode, over a storage."""
    if like.fake_mode is None:
        return of_class(type(like), from_storage(storage, meta))
    keys = fake_keys_for(meta)
    if tls.st.inference:
        keys &= ~(ADINPLACE | K.AUTOGRAD)
    made = of_class(type(like), wrap(meta, storage, None, keys))
    made.fake_mode = like.fake_mode
    made.constant = None
    return made


def _materialized(t: Tensor) -> Tensor:
    """A copy whose values are those that the conjugate and negative bits say."""
    up_to_date(t)
    meta = t.meta.like()
    size = meta.storage_bytes
    if t._mq_data is None:
        return _laid_over(UntypedStorage(size, meta.device), meta, t)
    backend = backend_of(meta.device.type)
    made = _laid_over(UntypedStorage(size, meta.device, backend.zeros(size, meta.device)), meta, t)
    xp = backend.namespace
    values = xp.conj(t._mq_data) if t.is_conj() else t._mq_data
    assert made._mq_data is not None
    backend.copy_to(made._mq_data, xp.negative(values) if t.is_neg() else values)
    return made


def shallow_copy(self: Tensor) -> Tensor:
    """``copy.copy``: a leaf of the same class, attributes and memory (T55)."""
    made = alias(self) if is_own(type(self)) else Tensor._alias(self)  # no handler is asked
    if type(made) is not type(self):
        made = of_class(type(self), made)
    vars(made).update(vars(self))
    _fill_slots(made, slots_of(self))
    if self.requires_grad:
        made._require_grad()
    return made


def is_own(kind: type) -> bool:
    """Whether a class is maquette's own, whatever it says under `install`."""
    home: str = vars(kind).get("_mq_home", kind.__module__)
    return home.partition(".")[0] == "maquette"


def slots_of(t: Tensor) -> dict[str, object]:
    """What a tensor of a program's subclass holds in the ``__slots__`` of that class."""
    kind = type(t)
    if kind is Tensor or kind is Parameter:
        return {}
    own = (c for c in kind.__mro__ if not is_own(c))
    names = (name for c in own if "__slots__" in vars(c) for name in copyreg._slotnames(c))  # type: ignore[attr-defined]  # typeshed lacks it
    ours = {*copyreg._slotnames(Tensor)}  # type: ignore[attr-defined]
    return {name: getattr(t, name) for name in names if name not in ours and hasattr(t, name)}


def _fill_slots(t: Tensor, values: dict[str, object]) -> None:
    for name, value in values.items():
        setattr(t, name, value)


# --- pickles -------------------------------------------------------------------------


@contextmanager
def skip_data(materialize_fake_tensors: bool = False) -> Iterator[None]:
    """In the block, what is saved has zeros in the place of its data, in as many bytes.

    Fakes are refused, or saved as real tensors of the same meta if ``materialize_fake_tensors``
    (F12).
    """
    token = _SKIPS.set(materialize_fake_tensors)
    try:
        yield
    finally:
        _SKIPS.reset(token)


def data_is_skipped() -> bool:
    """Whether zeros are to be saved in the place of data."""
    return _SKIPS.get() is not None


def check_can_save(t: Tensor) -> None:
    """TypeError for a fake outside of `skip_data`."""
    if t.fake_mode is not None and not _SKIPS.get():
        raise TypeError(
            f"cannot save or pickle the fake tensor {t}: it has no data. Save the real tensor, or "
            f"save under skip_data(materialize_fake_tensors=True), which writes a placeholder"
        )


def reduce_tensor(self: Tensor, protocol: int) -> tuple[object, ...]:
    """Pickle's view of a tensor: its class, storage, meta and flags, then its attributes."""
    check_can_save(self)
    form = pickled_form()
    if form is not None:
        return form.tensor(self)
    if self.meta.layout in FAMILY:
        return _reduce_sparse(self)
    kind = class_in_pickles(self)
    facts = (kind, self._storage, self.meta, self.requires_grad, self.is_conj(), self.is_neg())
    attributes = dict(vars(self))
    if kind is Tensor or kind is Parameter:
        attributes.pop("_is_param", None)
    return rebuild_tensor, facts, _state(attributes, slots_of(self))


def class_in_pickles(t: Tensor) -> type[Tensor]:
    """The class of what the pickle of a tensor makes: of a fake, that of its placeholder."""
    if t.fake_mode is None:
        return type(t)
    return Parameter if t._is_param else Tensor


def _state(attributes: dict[str, object], slots: dict[str, object]) -> object:
    """Attributes as pickle gives them back: in slots by assignment."""
    return (attributes or None, slots) if slots else attributes or None


def _reduce_sparse(self: Tensor) -> tuple[object, ...]:
    check(
        self.fake_mode is None,
        lambda: f"pickling of a fake tensor of layout {self.meta.layout} is not supported",
    )
    parts = tuple(p.detach() if isinstance(p, Tensor) else p for p in parts_of(self))
    facts = (type(self), self.meta, type(parts_of(self)), parts, self.requires_grad)
    return rebuild_sparse, facts, _state(vars(self), slots_of(self))


def rebuild_sparse(
    kind: type[Tensor],
    meta: TensorMeta,
    form: type[Parts],
    parts: tuple[Any, ...],
    requires_grad: bool,
) -> Tensor:
    """The sparse tensor that `reduce_tensor` took apart."""
    made = of_class(kind, sparse_tensor(meta, form(*parts)))
    return made._require_grad() if requires_grad else made


def rebuild_tensor(
    kind: type[Tensor],
    storage: UntypedStorage,
    meta: TensorMeta,
    requires_grad: bool,
    conj: bool = False,
    neg: bool = False,
) -> Tensor:
    """The tensor that `reduce_tensor` took apart; a fake where a fake mode is active."""
    keys = inference_keys(meta) if tls.st.inference else keys_for(meta)
    keys |= (CONJUGATE if conj else 0) | (NEGATIVE if neg else 0)
    data = None if storage.data is None else array_over(storage, meta)
    made = of_class(kind, wrap(meta, storage, data, keys))
    if requires_grad:
        made._require_grad()
    mode = tls.st.fake_mode
    return made if mode is None else cast(FakeMode, mode).from_tensor(made)


def _reduce_storage(storage: UntypedStorage, protocol: int) -> tuple[object, ...]:
    form = pickled_form()
    if form is not None:
        return form.storage(storage)
    data = None
    if storage.data is not None:
        data = backend_of(storage.device.type).to_host(storage.raw())
    facts = (storage.nbytes(), storage.device, data, data is None and bool(_SKIPS.get()))
    return rebuild_storage, facts


def rebuild_storage(nbytes: int, on: device, data: Bytes | None, zeros: bool) -> UntypedStorage:
    """The storage that was pickled; ``zeros``: a placeholder, which gets data now."""
    if zeros and on.type != "meta":
        data = backend_of(on.type).zeros(nbytes, on)
    elif data is not None:
        data = backend_of(on.type).from_host(data, on)
    return UntypedStorage(nbytes, on, data)


for _name, _of_storages in (
    ("__deepcopy__", copied_storage),
    ("__copy__", UntypedStorage.clone),
    ("__reduce_ex__", _reduce_storage),
):
    setattr(UntypedStorage, _name, _of_storages)
for _name, _method in (
    ("__deepcopy__", deep_copy),
    ("__copy__", shallow_copy),
    ("__reduce_ex__", reduce_tensor),
):
    setattr(Tensor, _name, _method)
