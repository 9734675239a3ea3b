"""Known values of fake tensors: an optimizer's step counter works in fake mode (F64-F68).

A constant is a private real clone. An operator whose tensors are all constants runs on the clones;
any other write forgets the constant of the target and of all its aliases.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from maquette.core.meta import TensorMeta
from maquette.core.symbols import node_of
from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.fake.tensor import FakeTensor, tensors_in
from maquette.library.infer import lookup
from maquette.tensor.keys import CONJUGATE, NEGATIVE
from maquette.tensor.storage import UntypedStorage, observers_paused
from maquette.tensor.tensor import Tensor, alias

if TYPE_CHECKING:
    from maquette.fake.mode import FakeTensorMode

FAKE = K.functionality_bits(DispatchKey.Fake)
BITS = CONJUGATE | NEGATIVE
LARGEST = 1  # elements of a constant


class Constants:
    """The fakes of one mode that have constants, by the storage of the constant."""

    def __init__(self) -> None:
        self._aliases: weakref.WeakKeyDictionary[UntypedStorage, list[weakref.ref[FakeTensor]]] = (
            weakref.WeakKeyDictionary()
        )

    def track(self, fake: FakeTensor) -> None:
        """Remember that ``fake`` has a constant."""
        assert fake.constant is not None
        self._aliases.setdefault(fake.constant._storage, []).append(weakref.ref(fake))

    def attach(self, fake: FakeTensor, value: Tensor) -> None:
        """Give ``fake`` the constant ``value``, which nobody else may write to."""
        fake.constant = value
        fake._keys |= K.CONSTANT
        self.track(fake)

    def forget_elsewhere(self) -> None:
        """Drop the constants of fakes on other devices than the cpu (F68)."""
        fakes = [reference() for listed in list(self._aliases.values()) for reference in listed]
        for fake in fakes:
            if fake is not None and fake.meta.device.type != "cpu":
                self.forget(fake)

    def forget(self, fake: Tensor) -> None:
        """Drop the constant of ``fake`` and of every fake that shares its storage."""
        if fake.constant is None:
            return
        for reference in self._aliases.pop(fake.constant._storage, ()):
            alias = reference()
            if alias is not None:
                alias.constant = None
                alias._keys &= ~K.CONSTANT
        fake.constant = None
        fake._keys &= ~K.CONSTANT


@contextmanager
def running_for_real() -> Iterator[None]:
    """Outside any fake mode, unseen by allocation observers."""
    st = tls.st
    mode, include = st.fake_mode, st.include
    st.fake_mode = None
    st.set_include(include & ~FAKE)
    try:
        with observers_paused():
            yield
    finally:
        st.fake_mode = mode
        st.set_include(include)


def constant_kernel(
    op: OpOverload, plain: Callable[..., object], make: Callable[[object, Tensor], FakeTensor]
) -> Callable[..., object]:
    """The kernel at Fake when some argument has a constant; ``plain`` is the one without."""
    schema = op._schema
    seeded = Tag.nondeterministic_seeded in op.tags
    inplace_view = Tag.inplace_view in op.tags and op._opname != "detach_"
    written = [i for i, a in enumerate(schema.arguments) if a.is_write]

    def kernel(ks: int, *params: object) -> object:
        tensors = list(tensors_in(params))
        found = next(t.fake_mode for t in tensors if t.fake_mode is not None)
        mode = cast("FakeTensorMode", found)
        known = all(t.constant is not None for t in tensors) and not _any_symbol(params)
        if known and not seeded and not inplace_view and _device_is_real(params):
            with running_for_real():
                real = _call_real(op, params)
            if _fits(real):
                return _wrap(real, params, mode, make)
            for out in tensors_in((real,)):
                for t in tensors:
                    if t.constant is not None and t.constant._storage is out._storage:
                        mode.constants.forget(t)
        for i in written:
            for t in tensors_in((params[i],)):
                if t.constant is not None:
                    mode.constants.forget(t)
        return plain(ks & ~K.CONSTANT, *params)

    return kernel


def run_on_real_constants(
    op: OpOverload, params: Sequence[object], make: Callable[[object, Tensor], FakeTensor]
) -> Tensor | None:
    """What arithmetic on real tensors of one element, and numbers, gives in a mode (F33).

    A fake that knows its value; a tensor that was written is itself. None where the operator takes
    no numbers for tensors, where there is a fake, data that is not here, or a larger result.
    """
    mode = tls.st.fake_mode
    if mode is None or not op.takes_numbers:
        return None
    if any(t.fake_mode is not None or t._mq_data is None for t in tensors_in(params)):
        return None
    if not _device_is_real(params) or _any_symbol(params):
        return None
    result = lookup(op, params).value
    if not isinstance(result, TensorMeta) or result.numel > LARGEST:
        return None
    with running_for_real():
        real = _call_real(op, params)
        if any(real is t for t in tensors_in(params)):
            return cast(Tensor, real)
        return make(mode, _without_bits(cast(Tensor, real)).clone())


def _any_symbol(params: Sequence[object]) -> bool:
    """Whether a number among the parameters, or in a list of them, is a symbol, without a value."""
    return any(
        any(node_of(x) is not None for x in p)
        if isinstance(p, list | tuple)
        else node_of(p) is not None
        for p in params
    )


def _without_bits(real: Tensor) -> Tensor:
    """The tensor below the conjugate and negative bits.

    A constant has none of them: they are its fake's, whose keys dispatch and resolve them.
    """
    if not real._keys & BITS:
        return real
    plain = alias(real)
    plain._keys &= ~BITS
    return plain


def _call_real(op: OpOverload, params: Sequence[object]) -> object:
    args = [_constant_of(p) for p in params]
    names = [a.name for a in op._schema.arguments]
    positional = [a for a, s in zip(args, op._schema.arguments, strict=True) if not s.kwarg_only]
    keywords = {
        n: a for n, a, s in zip(names, args, op._schema.arguments, strict=True) if s.kwarg_only
    }
    return op.call_slow(tuple(positional), keywords)


def _constant_of(p: object) -> object:
    if isinstance(p, Tensor):
        return p if p.fake_mode is None else p.constant
    if isinstance(p, tuple):
        return [_constant_of(i) for i in p]
    return p


def _device_is_real(params: Sequence[object]) -> bool:
    return not any(getattr(p, "type", "cpu") not in ("cpu",) for p in params if _is_device(p))


def _is_device(p: object) -> bool:
    return type(p).__name__ == "device"


def _fits(result: object) -> bool:
    return all(t.meta.numel <= LARGEST for t in tensors_in((result,)))


def _wrap(
    result: object,
    params: Sequence[object],
    mode: object,
    make: Callable[[object, Tensor], FakeTensor],
) -> object:
    """Real results as fakes with constants; a constant that was passed in is its fake again."""
    if isinstance(result, Tensor):
        for t in tensors_in(params):
            if t.constant is result:
                if t.meta is not result.meta:
                    t.meta = result.meta
                return t
        fake = make(mode, _without_bits(result))
        for t in tensors_in(params):
            if t.constant is not None and t.constant._storage is result._storage:
                fake._storage = t._storage
                fake._keys |= t._keys & BITS
        return fake
    if isinstance(result, (tuple, list)):
        return type(result)([_wrap(r, params, mode, make) for r in result])
    return result
