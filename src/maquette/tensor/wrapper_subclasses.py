"""Tensors of a subclass made by hand: wrappers without data, and other tensors' memory.

A wrapper says what a tensor is (sizes, dtype, device) and has no memory: its class answers every
operator in ``__torch_dispatch__``, as a rule by calling it on the tensor that it wraps.

The class may tell the geometry too: `_ToldMeta` is a meta that asks it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeVar, cast

from maquette.core.device import canonical
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.layout import layout as Layout
from maquette.core.layout import memory_format as MemoryFormat
from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.core.promotion import get_default_dtype
from maquette.core.size import Size
from maquette.core.strides import CHANNELS_LAST_RANKS
from maquette.dispatch.abstract import disabled_torch_dispatch
from maquette.dispatch.keysets import DispatchKeySet
from maquette.dispatch.modes import ACTIVE_MODES, disable_current_modes
from maquette.dispatch.registry import find_packet
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import DisableTorchFunctionSubclass
from maquette.tensor.keys import keys_for
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor, alias, instance_of, of_class, wrap

T = TypeVar("T", bound=Tensor)


def make_wrapper_subclass(
    cls: type[T],
    size: Sequence[int],
    strides: Sequence[int] | None = None,
    storage_offset: int | None = None,
    memory_format: object | None = None,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Device | str | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    _extra_dispatch_keys: DispatchKeySet | None = None,
    **options: object,
) -> T:
    """A tensor of ``cls`` with these sizes and no data; it requires grad as a leaf if asked.

    strides: contiguous ones if None. dispatch_sizes_strides_policy ("sizes" or "strides"),
    dispatch_device, dispatch_layout: the class's handler is asked for them when they are read.
    Other options change nothing. Raises TypeError for a class without ``__torch_dispatch__``.
    """
    handler = getattr(cls.__torch_dispatch__, "__func__", cls.__torch_dispatch__)
    if handler is disabled_torch_dispatch:
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    where = _device(device)
    steps = None if strides is None else tuple(strides)
    kind = get_default_dtype() if dtype is None else dtype
    offset = 0 if storage_offset is None else storage_offset
    meta = TensorMeta.of(kind, tuple(size), steps, offset, where, layout)
    keys = keys_for(meta)
    if _extra_dispatch_keys is not None:
        keys |= _extra_dispatch_keys.raw_repr()
    plain = wrap(meta, _NoMemory(meta.storage_bytes, where), None, keys)
    made = _requiring_grad(cast(T, of_class(plain, cls)), requires_grad)
    return _telling(made, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)


class _NoMemory(UntypedStorage):
    """The storage of a wrapper: it counts the bytes that the class stands for, and has none."""

    __slots__ = ()

    def _refuse(self, what: str) -> NoReturn:
        raise RuntimeError(
            f"{what} on an invalid python storage: a wrapper subclass's tensor has no memory of "
            f"its own. Ask the tensor that it wraps"
        )

    def data_ptr(self) -> int:
        if self.nbytes() == 0:
            return 0
        self._refuse("Attempted to access the data pointer")

    def resize_(self, nbytes: int, *, shared: bool = True) -> UntypedStorage:
        self._refuse("Attempted to call resize_()")

    def clone(self) -> UntypedStorage:
        self._refuse("Attempted to call copy_()")


def _requiring_grad(made: T, asked: bool) -> T:
    if asked:
        with DisableTorchFunctionSubclass():  # the object is not initialized yet
            made.requires_grad_()
    return made


def _device(given: Device | str | None) -> Device:
    return canonical(given if isinstance(given, Device) else Device(given or "cpu"))


def make_subclass(
    cls: type[T],
    data: Tensor,
    require_grad: bool = False,
    *,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    **options: object,
) -> T:
    """The memory of ``data`` as a tensor of ``cls``: a leaf, with a version of its own.

    The dispatch_ arguments are those of `make_wrapper_subclass`. RuntimeError for a fake, and where
    the class of ``data`` has a handler, unless what that gives for ``detach`` is of ``cls``.
    """
    made = cast(T, instance_of(cls, _alias_untold(data), data))
    made._vc = None
    _requiring_grad(made, require_grad)
    return _telling(made, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)


def _alias_untold(t: Tensor) -> Tensor:
    """`alias`, of which modes learn nothing."""
    if tls.st.include & ACTIVE_MODES:
        with disable_current_modes():
            return alias(t)
    return alias(t)


# --- geometry that a class tells --------------------------------------------------------------

_POLICIES: Final[dict[str | None, set[str]]] = {
    None: set(), "strides": {"strides"}, "sizes": {"strides", "sizes"}
}  # fmt: skip
"""What is asked for under a policy: under that of sizes, the strides too."""


def _telling(t: T, policy: str | None, device: bool, layout: bool) -> T:
    """The tensor, whose class is asked for these facts from now on."""
    if policy not in _POLICIES:
        raise RuntimeError(
            f"Unknown sizes_strides_policy: {policy}; expected 'strides' or 'sizes', or None"
        )
    asked = _POLICIES[policy] | {n for n, on in (("device", device), ("layout", layout)) if on}
    if asked:
        t.meta = _ToldMeta.over(t, frozenset(asked))
    return t


def _asks(
    fact: str, group: str, *operators: str, read: Callable[[Any], object] = lambda found: found
) -> Any:
    """The property of a meta that asks for a fact by an operator, if its group is asked for.

    The first of the operators that the handler does not decline. None says that what the tensor
    was made with is right; so does a handler that declines the offset, which few answer, and one
    that asks for the fact itself.
    """

    def get(self: _ToldMeta) -> object:
        found = self.ask(fact, group, operators)
        return getattr(self.made, fact) if found is None else read(found)

    return property(get)


class _ToldMeta(TensorMeta):
    """The meta of one tensor whose class tells what it is; not interned.

    Reading a fact calls ``__torch_dispatch__`` with the operator that asks for it, whoever reads:
    a member, a composite operator, a kernel. So no other tensor pays for the question. An alias
    that is made below the handler shares the meta, as any alias does, and is told of as well.
    """

    __slots__ = ("asked", "asking", "made", "tensor")

    made: TensorMeta
    tensor: weakref.ref[Tensor]
    asked: frozenset[str]
    asking: set[str]

    @staticmethod
    def over(t: Tensor, asked: frozenset[str]) -> _ToldMeta:
        """A meta of what the tensor was made with, that asks for these groups of facts."""
        told = object.__new__(_ToldMeta)
        for name in ("dtype", "itemsize", "storage_bytes", "suggested_format"):
            object.__setattr__(told, name, getattr(t.meta, name))
        for name in ("keys", "fake_keys", "fake_grad_keys"):
            object.__setattr__(told, name, 0)
        object.__setattr__(told, "made", t.meta)
        object.__setattr__(told, "tensor", weakref.ref(t))
        object.__setattr__(told, "asked", asked)
        object.__setattr__(told, "asking", set())
        return told

    def ask(self, fact: str, group: str, operators: Sequence[str], *args: object) -> object:
        """What the handler says of a fact; None if it is not asked, or asks for it itself."""
        t = self.tensor() if group in self.asked and fact not in self.asking else None
        if t is None:
            return None
        handler: Callable[..., object] = type(t).__torch_dispatch__  # type: ignore[assignment]  # it has one
        self.asking.add(fact)
        try:
            for name in operators:
                packet, _, overload = name.partition(".")
                op = getattr(find_packet(packet), overload or "default")
                found = handler(op, (type(t),), (t, *args), {})
                if found is not NotImplemented:
                    return found
        finally:
            self.asking.discard(fact)
        if fact == "offset":
            return None
        raise TypeError(
            f"Multiple dispatch failed for 'torch.ops.{operators[0].replace('::', '.')}'; all "
            f"__torch_dispatch__ handlers returned NotImplemented: {type(t).__name__} is to tell "
            f"this of its tensors"
        )

    shape = _asks("shape", "sizes", "aten::sym_size", read=tuple)
    size = _asks("size", "sizes", "aten::sym_size", read=Size)
    ndim = _asks("ndim", "sizes", "aten::dim")
    numel = _asks("numel", "sizes", "aten::sym_numel", "aten::numel")
    offset = _asks("offset", "sizes", "aten::sym_storage_offset")
    strides = _asks("strides", "strides", "aten::sym_stride", read=tuple)
    is_contiguous = _asks("is_contiguous", "strides", "aten::is_contiguous")
    is_dense = _asks("is_dense", "strides", "aten::is_non_overlapping_and_dense")
    device = _asks("device", "device", "prim::device")
    layout = _asks("layout", "layout", "prim::layout")

    @property
    def is_symbolic(self) -> bool:  # type: ignore[override]  # nobody assigns it
        """Whether what the tensor was made with is symbolic."""
        return self.made.is_symbolic

    def is_contiguous_in(self, memory_format: MemoryFormat) -> bool:
        """What the handler says of a memory format, or the strides that it was made with."""
        if memory_format not in CHANNELS_LAST_RANKS:
            return bool(self.is_contiguous)
        operators = ("aten::is_contiguous.memory_format",)
        found = self.ask("is_contiguous_in", "strides", operators, memory_format)
        return self.made.is_contiguous_in(memory_format) if found is None else bool(found)

    def is_strides_like(self, memory_format: MemoryFormat) -> bool:
        """What the handler says of the order of the strides, or how the tensor was made."""
        operators = ("aten::is_strides_like_format",)
        found = self.ask("is_strides_like", "strides", operators, memory_format)
        return self.made.is_strides_like(memory_format) if found is None else bool(found)

    def __str__(self) -> str:
        return str(self.made)

    __repr__ = __str__


Tensor._make_wrapper_subclass = staticmethod(make_wrapper_subclass)  # type: ignore[attr-defined]  # PyTorch's names
Tensor._make_subclass = staticmethod(make_subclass)  # type: ignore[attr-defined]
