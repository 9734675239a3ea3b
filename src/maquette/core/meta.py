"""`TensorMeta`: what is known of a tensor without its data.

A meta is an immutable value: element type, shape, strides, offset, device, layout. Equal metas
are one object, so comparing and hashing are by identity, and a cache key of metas costs no look at
shapes. The table that sees to it holds metas weakly. The arithmetic is in `strides`.
"""

from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]  # typeshed lacks it
from collections.abc import Callable, Hashable
from math import prod
from typing import TYPE_CHECKING, Final, Self, TypeAlias
from weakref import ref

from maquette.core import strides as rules
from maquette.core.device import canonical, cpu
from maquette.core.device import device as Device
from maquette.core.errors import check
from maquette.core.layout import contiguous_format, preserve_format, strided
from maquette.core.layout import layout as Layout
from maquette.core.layout import memory_format as MemoryFormat
from maquette.core.scalar_types import dtype as DType
from maquette.core.size import Size
from maquette.core.strides import Shape, Strides, contiguous_strides
from maquette.core.symbols import intern_key, plain


class TensorMeta:
    """The geometry, type and place of a tensor. Made by `TensorMeta.of`; equal ones are one.

    Derived facts (`numel`, `storage_bytes`, `is_contiguous`, `is_dense`, `suggested_format`,
    `size`) are worked out when it is made, those of symbolic sizes when first asked for. `keys`,
    `fake_keys` and `fake_grad_keys`, 0 at first, are the only attributes that may be assigned: the
    tensor layer keeps the key sets of such tensors there.
    """

    __slots__ = (
        "__weakref__", "device", "dtype", "fake_grad_keys", "fake_keys", "is_contiguous",
        "is_dense", "itemsize", "keys", "layout", "ndim", "numel", "offset", "shape", "size",
        "storage_bytes", "strides", "suggested_format",
    )  # fmt: skip

    is_symbolic = False
    """Whether a size, a stride or the offset is symbolic."""

    dtype: DType
    shape: Shape
    strides: Strides
    offset: int
    device: Device
    layout: Layout
    ndim: int
    itemsize: int
    keys: int
    fake_keys: int
    fake_grad_keys: int

    numel: int
    """The number of elements."""
    storage_bytes: int
    """The bytes that a storage must have to hold the tensor at its offset (spec T2)."""
    is_contiguous: bool
    """Whether strides are row-major where they matter (spec T12)."""
    is_dense: bool
    """Whether elements fill their range of memory without gap or overlap (spec T14)."""
    suggested_format: MemoryFormat
    """Channels-last if the strides suggest it, else contiguous (spec T17)."""
    size: Size
    """The shape as users see it."""

    @staticmethod
    def of(
        dtype: DType,
        shape: Shape,
        strides: Strides | None = None,
        offset: int = 0,
        device: Device = cpu,
        layout: Layout = strided,
    ) -> "TensorMeta":
        """The meta of these facts; strides default to contiguous ones (spec T11).

        An accelerator without an index counts as the first one (spec T10). Raises RuntimeError
        for negative sizes, strides or offsets, and when there are not as many strides as sizes.
        """
        if strides is None:
            strides = contiguous_strides(shape)
        try:
            found = _interned.get((dtype, shape, strides, offset, device, layout))
        except TypeError:  # lists and symbolic numbers cannot be hashed
            found = None
        if found is not None:
            meta = found()
            if meta is not None:
                return meta
        return _intern(dtype, shape, strides, offset, device, layout)

    def fresh(
        self,
        shape: Shape,
        dtype: DType | None = None,
        strides: Strides | None = None,
        device: Device | None = None,
    ) -> "TensorMeta":
        """A new strided tensor beside this one: contiguous unless told, at offset 0."""
        return TensorMeta.of(dtype or self.dtype, shape, strides, 0, device or self.device)

    def like(
        self,
        dtype: DType | None = None,
        device: Device | None = None,
        memory_format: MemoryFormat = preserve_format,
    ) -> "TensorMeta":
        """A new tensor of this shape, at offset 0; by default of this order of dimensions (T16).

        Raises RuntimeError if the memory format is for another rank.
        """
        if memory_format is preserve_format and self.is_dense:
            strides = self.strides
        else:
            strides = rules.format_strides(self.shape, self.strides, memory_format)
        return TensorMeta.of(
            dtype or self.dtype, self.shape, strides, 0, device or self.device, self.layout
        )

    def view(self, shape: Shape, strides: Strides, offset: int | None = None) -> "TensorMeta":
        """Another geometry of the same elements, at the same offset unless told."""
        return TensorMeta.of(
            self.dtype,
            shape,
            strides,
            self.offset if offset is None else offset,
            self.device,
            self.layout,
        )

    def with_dtype(self, dtype: DType) -> "TensorMeta":
        """The same geometry with elements of another type."""
        return TensorMeta.of(dtype, self.shape, self.strides, self.offset, self.device, self.layout)

    def with_device(self, device: Device) -> "TensorMeta":
        """The same geometry on another device."""
        return TensorMeta.of(self.dtype, self.shape, self.strides, self.offset, device, self.layout)

    def is_contiguous_in(self, memory_format: MemoryFormat) -> bool:
        """Whether the tensor is contiguous in a memory format (spec T12, T13).

        preserve_format, which names no order, asks the same as contiguous_format.
        """
        rank = rules.CHANNELS_LAST_RANKS.get(memory_format)
        if rank is None:
            return self.is_contiguous
        return rules.is_channels_last(self.shape, self.strides, rank)

    def is_strides_like(self, memory_format: MemoryFormat) -> bool:
        """Whether the strides are in the order of a channels-last format, gaps allowed."""
        wanted = memory_format in rules.CHANNELS_LAST_RANKS
        return wanted and self.suggested_format is memory_format

    def __str__(self) -> str:
        place = "" if self.device is cpu else f" on {self.device}"
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]{place}"

    def __repr__(self) -> str:
        layout = "" if self.layout is strided else f", layout={self.layout}"
        return (
            f"TensorMeta({self.dtype.name}, shape={self.shape}, strides={self.strides}, "
            f"offset={self.offset}, device='{self.device}'{layout})"
        )

    def __setattr__(self, name: str, value: object) -> None:
        if name not in ("keys", "fake_keys", "fake_grad_keys"):
            raise AttributeError(
                f"cannot set {name!r}: a TensorMeta is immutable; make another with .view(), "
                f".fresh(), .like(), .with_dtype() or .with_device()"
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete {name!r}: a TensorMeta is immutable")

    def __reduce__(self) -> tuple[object, ...]:
        facts = (self.dtype, self.shape, self.strides, self.offset, self.device, self.layout)
        return TensorMeta.of, facts

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def _storage_bytes(meta: TensorMeta) -> int:
    """The bytes up to the last element; RuntimeError for more than 64 bits can count."""
    found = meta.itemsize * rules.storage_elements(meta.shape, meta.strides, meta.offset)
    check(
        not _is_huge(found),
        lambda: (
            f"Storage size calculation overflowed with sizes={list(meta.shape)} and "
            f"strides={list(meta.strides)}"
        ),
    )
    return found


_DERIVED: Final[dict[str, Callable[[TensorMeta], object]]] = {
    "numel": lambda meta: prod(meta.shape),
    "storage_bytes": lambda meta: _storage_bytes(meta),
    "is_contiguous": lambda meta: rules.is_contiguous(meta.shape, meta.strides),
    "is_dense": lambda meta: meta.is_contiguous or rules.is_dense(meta.shape, meta.strides),
    "suggested_format": lambda meta: rules.suggested_format(meta.shape, meta.strides),
    "size": lambda meta: Size(meta.shape),
}


class _SymbolicMeta(TensorMeta):
    """A meta of symbolic sizes: a fact may ask for a guard, so it waits until it is asked for.

    Only here: a class with ``__getattr__`` has no quick attributes in CPython 3.11 (40 ns a read
    instead of 5), and metas are read a dozen times a call.
    """

    __slots__ = ()
    is_symbolic = True

    if not TYPE_CHECKING:  # a type checker would take it for leave to read any name

        def __getattr__(self, name: str) -> object:
            # Reached once per fact: later reads find the slot filled.
            rule = _DERIVED.get(name)
            if rule is None:
                raise AttributeError(f"'TensorMeta' object has no attribute {name!r}")
            fact = rule(self)
            object.__setattr__(self, name, fact)
            return fact


class _Entry(ref[TensorMeta]):
    """A weak reference that knows its key in the table."""

    __slots__ = ("key",)

    key: Hashable


_Table: TypeAlias = dict[Hashable, _Entry]

# The table is written with two atomic steps only, `setdefault` and `_remove_dead_weakref`, so it
# needs no lock. A lock could deadlock: entries are removed by the garbage collector, at any time,
# in any thread, whatever that thread holds.
_interned: _Table = {}


def _forget(entry: _Entry) -> None:
    """Remove an entry whose meta died, unless a living one has taken its place."""
    _remove_dead_weakref(_interned, entry.key)


def _intern(
    dtype: DType, shape: Shape, strides: Strides, offset: int, device: Device, layout: Layout
) -> TensorMeta:
    """Make a meta and enter it in the table, unless another thread was first."""
    device = canonical(device)
    key: Hashable = (dtype, shape, strides, offset, device, layout)
    cls = TensorMeta
    if not _is_plain(shape, strides, offset):
        shape, strides, offset = _normalized(shape, strides, offset)
        sizes, steps = tuple(map(intern_key, shape)), tuple(map(intern_key, strides))
        key = (dtype, sizes, steps, intern_key(offset), device, layout)
        if not _is_plain(shape, strides, offset):
            cls = _SymbolicMeta
    meta = _make(cls, dtype, shape, strides, offset, device, layout)
    # No symbol is compared: that would guard, or refuse one that only data tells.
    if all(n.__class__ is int for n in (*shape, *strides)) and 0 in strides:
        # Without a stride of 0 the storage is as large, and is refused in its own words.
        check(
            meta.numel < _TOO_MANY,
            lambda: f"numel: integer multiplication overflow, sizes={list(shape)}",
        )
    entry = _Entry(meta, _forget)
    entry.key = key
    while True:
        standing = _interned.setdefault(key, entry)
        interned = standing()
        if interned is not None:
            return interned
        _forget(standing)  # it died, and its own callback is still to come


_TOO_MANY = 2**63


def _is_plain(shape: Shape, strides: Strides, offset: int) -> bool:
    """Whether nothing needs checking or converting: the usual case, told in 0.4 µs."""
    numbers = (*shape, *strides, offset)
    return (
        set(map(type, numbers)) == {int}
        and min(numbers) >= 0
        and max(numbers) < _TOO_MANY
        and len(shape) == len(strides)
        and shape.__class__ is strides.__class__ is tuple
    )


def _normalized(shape: Shape, strides: Strides, offset: int) -> tuple[Shape, Strides, int]:
    """Tuples of plain ints and symbols; RuntimeError if they are no geometry.

    The signs of symbolic numbers are their makers' concern.
    """
    shape, strides, offset = tuple(map(plain, shape)), tuple(map(plain, strides)), plain(offset)
    known = [n for n in (*shape, *strides, offset) if n.__class__ is int]
    if len(shape) != len(strides) or (known and (min(known) < 0 or max(known) >= _TOO_MANY)):
        _check_geometry(shape, strides, offset)
    return shape, strides, offset


def _check_geometry(shape: Shape, strides: Strides, offset: int) -> None:
    check(
        len(shape) == len(strides),
        lambda: (
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
            f"({len(strides)})"
        ),
    )
    check(
        not any(map(_is_negative, shape)),
        lambda: (
            f"Trying to create tensor with negative dimension "
            f"{next(filter(_is_negative, shape))}: {list(shape)}"
        ),
    )
    check(
        not any(map(_is_negative, strides)),
        lambda: f"Negative strides are not supported, got strides: {list(strides)}",
    )
    check(not any(map(_is_huge, strides)), lambda: f"Stride calculation overflowed: {strides}")
    check(not _is_negative(offset), lambda: f"Tensor: invalid storage offset {offset}")


def _is_negative(number: int) -> bool:
    return number.__class__ is int and number < 0


def _is_huge(number: int) -> bool:
    return number.__class__ is int and number >= _TOO_MANY


def _make(
    cls: type[TensorMeta],
    dtype: DType,
    shape: Shape,
    strides: Strides,
    offset: int,
    device: Device,
    layout: Layout,
) -> TensorMeta:
    meta = object.__new__(cls)
    fill = object.__setattr__
    fill(meta, "dtype", dtype)
    fill(meta, "shape", shape)
    fill(meta, "strides", strides)
    fill(meta, "offset", offset)
    fill(meta, "device", device)
    fill(meta, "layout", layout)
    fill(meta, "ndim", len(shape))
    fill(meta, "itemsize", dtype.itemsize)
    fill(meta, "keys", 0)
    fill(meta, "fake_keys", 0)
    fill(meta, "fake_grad_keys", 0)
    if cls is TensorMeta:
        if strides == contiguous_strides(shape):
            # What the rules say of row-major strides: in a model's first step most metas are new.
            numel = prod(shape)
            end = meta.itemsize * (offset + numel) if numel else 0
            fill(meta, "numel", numel)
            fill(meta, "storage_bytes", _storage_bytes(meta) if _is_huge(end) else end)
            fill(meta, "is_contiguous", True)
            fill(meta, "is_dense", True)
            if len(shape) in rules.CHANNELS_LAST_ORDERS:  # one channel may be of either order
                fill(meta, "suggested_format", _DERIVED["suggested_format"](meta))
            else:
                fill(meta, "suggested_format", contiguous_format)
            fill(meta, "size", Size(shape))
            return meta
        for name, rule in _DERIVED.items():
            fill(meta, name, rule(meta))
    return meta
