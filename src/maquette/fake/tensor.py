"""`FakeTensor`: a meta, a storage that only counts bytes, and the mode it belongs to.

A fake tensor is a `Tensor` whose key set has the key Fake beside its own device's keys, so
autograd, autocast and every transform treat it as a tensor of that device. ``constant`` is a
private real clone of a value that is known (F64); the hidden key CONSTANT tells dispatch of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar, cast

from maquette.core.device import canonical, device
from maquette.core.meta import TensorMeta
from maquette.dispatch import abstract
from maquette.dispatch import keysets as K
from maquette.dispatch.abstract import disabled_torch_function
from maquette.dispatch.modes import WITHOUT_HANDLER
from maquette.dispatch.tls import tls
from maquette.tensor.keys import ADINPLACE, NOT_INHERITED, fake_keys_for
from maquette.tensor.nested_ints import nested_int_of, nested_size
from maquette.tensor.storage import UntypedStorage, new_storage, new_symbolic_storage
from maquette.tensor.tensor import Tensor, without_data

if TYPE_CHECKING:
    from maquette.fake.call_sites import Stack
    from maquette.fake.mode import FakeTensorMode
    from maquette.symbolic.nested_ints import NestedInt

_new: Callable[[type[FakeTensor]], FakeTensor] = object.__new__
INFERENCE_MASK = ~(ADINPLACE | K.AUTOGRAD)


class FakeTensor(Tensor, has_handlers=False):
    """A tensor without data: every question about its metadata has an answer."""

    __slots__ = ("constant", "fake_mode")
    __torch_function__: ClassVar[Callable[..., object]] = disabled_torch_function

    fake_mode: FakeTensorMode
    constant: Tensor | None
    real_tensor: Tensor | None = None
    """Its data, in a mode with ``propagate_real_tensors`` (F97)."""
    _debug_trace: Stack
    """Where it was made; only there while `config.debug` is on (F20)."""

    def __new__(cls, *args: object, **kwargs: object) -> FakeTensor:
        return _construct(*args, **kwargs)

    @property
    def fake_device(self) -> device:
        """The modelled device."""
        return self.meta.device

    def data_ptr(self) -> int:
        """There is no address: RuntimeError, unless the mode allows unsafe access (F9).

        Then it is 0, with a warning, for programs that do nothing with it.
        """
        if not self.fake_mode.allow_unsafe_data_ptr_access:
            raise RuntimeError(
                f"Cannot access data pointer of Tensor (e.g. FakeTensor): {without_data(self)}. "
                f"FakeTensorMode(allow_unsafe_data_ptr_access=True) lets it be 0"
            )
        warnings.warn("the data pointer of a fake tensor is 0: it has no data", stacklevel=2)
        return 0

    def get_nested_int(self, *, coeff: int = 1) -> NestedInt:
        """The size of the ragged dimension whose offsets or lengths these are (F77).

        The same for the life of the tensor, whatever is written to it. AssertionError outside the
        mode, and in one without a shape environment.
        """
        mode = self.fake_mode
        assert tls.st.fake_mode is not None, "get_nested_int: the tensor's mode is not active"
        assert mode.shape_env is not None, "get_nested_int: the mode has no shape_env"
        if nested_int_of(self) is None:
            mode.nt_tensor_id_counter += 1
        found = nested_size(self)
        return found if coeff == 1 else found * coeff

    def _alias(self) -> FakeTensor:
        keys = self._keys
        other = _new(FakeTensor)  # `make_fake`, written out: 0.25 us of 0.9 less
        other.meta = self.meta
        other._keys = keys & NOT_INHERITED
        other._storage = self._storage
        other._mq_data = other._base = other._ag = other.constant = None
        other.fake_mode = self.fake_mode
        other._vc = self._vc
        if keys & ADINPLACE:
            if other._vc is None:
                other._vc = self._version_counter()
        else:
            other._vc = None
        if self.constant is not None:
            other.constant = self.constant
            other._keys |= K.CONSTANT
            other.fake_mode.constants.track(other)
        real = self.real_tensor
        if real is not None:
            other.real_tensor = real._alias()
        return other

    def _without_history(self) -> Tensor:
        if self.__class__ is not FakeTensor or self.constant is not None:
            return self._alias()
        self._base = self._ag = None
        if self._keys & K.REQUIRES_GRAD:
            self._keys &= ~K.REQUIRES_GRAD
        return self


WITHOUT_HANDLER.add(FakeTensor)


def _construct(*args: object, **kwargs: object) -> FakeTensor:
    names = ("fake_mode", "elem", "device")
    if args and isinstance(args[0], (Tensor, TensorMeta)):
        names = ("elem", "fake_mode", "device")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        key = {"fake_device": "device", "mode": "fake_mode"}.get(name, name)
        if key not in names:
            raise TypeError(f"FakeTensor() got an unexpected argument '{name}'")
        if key in given:
            raise TypeError(f"FakeTensor() got two values for '{key}'")
        given[key] = value
    for name in names:
        if name not in given:
            raise TypeError(f"FakeTensor() is missing '{name}'")
    elem, mode, where = given["elem"], given["fake_mode"], given["device"]
    if isinstance(elem, Tensor):
        assert elem.meta.device.type == "meta", f"elem must be a meta tensor, got {elem.meta}"
        elem = elem.meta
    if not isinstance(elem, TensorMeta):
        raise TypeError(f"FakeTensor() elem must be a TensorMeta or meta tensor, got {type(elem)}")
    on = canonical(where if isinstance(where, device) else device(str(where)))
    return fresh_fake(mode, elem.with_device(on))  # type: ignore[arg-type]  # checked by use


def tensors_in(values: object) -> Iterator[Tensor]:
    """`dispatch.abstract.tensors_in`, where every tensor is a `Tensor`."""
    return cast(Iterator[Tensor], abstract.tensors_in(values))


def make_fakes_with(maker: Callable[[type[FakeTensor]], FakeTensor]) -> None:
    """Let ``maker`` make the objects of fakes from here on.

    A global that is replaced costs a call nothing; a list of observers would, 12 ns of each.
    """
    global _new
    _new = maker


def maker() -> Callable[[type[FakeTensor]], FakeTensor]:
    """What makes the objects of fakes now; kernels that hold it are resolved anew at a change."""
    return _new


def make_fake(
    mode: FakeTensorMode, meta: TensorMeta, storage: UntypedStorage, keys: int
) -> FakeTensor:
    """A fake of the given parts; nothing is checked."""
    t = _new(FakeTensor)
    t.meta = meta
    t._keys = keys
    t._storage = storage
    t._mq_data = None
    t._vc = None
    t._base = None
    t._ag = None
    t.fake_mode = mode
    t.constant = None
    return t


def fresh_fake(mode: FakeTensorMode, meta: TensorMeta) -> FakeTensor:
    """A new fake with a storage of its own."""
    keys = meta.fake_keys or fake_keys_for(meta)
    if tls.st.inference:
        keys &= INFERENCE_MASK
    if meta.is_symbolic:
        return make_fake(mode, meta, new_symbolic_storage(meta), keys)
    return make_fake(mode, meta, new_storage(meta.storage_bytes, meta.device), keys)


def fake_view(source: Tensor, meta: TensorMeta) -> FakeTensor:
    """A fake of ``meta`` over the storage of ``source``."""
    assert isinstance(source, FakeTensor)
    keys = source._keys & NOT_INHERITED
    if keys & K.SYMBOLIC or meta.is_symbolic:
        keys = keys & ~K.SYMBOLIC | fake_keys_for(meta) & K.SYMBOLIC
    return make_fake(source.fake_mode, meta, source._storage, keys)
