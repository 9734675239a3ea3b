"""``t[...]`` and ``t[...] = value``: subscripts as views, ``index``, ``index_put_`` (T42-T47).

Integers, slices, None and Ellipsis are applied as views, in order. What remains are tensors, one
for a dimension (a mask for as many as it has), handed to one ``index`` or ``index_put_``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import cast

import numpy as np

from maquette.api.creation import number, tensor
from maquette.aten.factory.factories import scalar_tensor
from maquette.aten.indexing import index as indexing
from maquette.aten.view import views
from maquette.aten.view.views import expand, lift_fresh
from maquette.core.dtype import bool_, int64, uint8
from maquette.core.dtype import dtype as DType
from maquette.core.layout import strided
from maquette.core.symbols import expect_true, is_known, is_true, node_of, plain
from maquette.dispatch.abstract import overrides_torch_function
from maquette.dispatch.keysets import TORCH_FUNCTION
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import (
    NO_OVERRIDE,
    call_torch_function,
    is_overridden,
    modes_are_active,
    offered,
)
from maquette.tensor.sparse import SPARSE_LAYOUTS
from maquette.tensor.tensor import Tensor, from_array

_LARGEST = 2**63 - 1
_LEGACY_TUPLE = 32


_select: Callable[..., Tensor] = views.select.entry
_slice: Callable[..., Tensor] = views.slice.entry
_unsqueeze: Callable[..., Tensor] = views.unsqueeze.entry
_alias: Callable[..., Tensor] = views.alias.entry


def getitem(self: Tensor, index: object) -> Tensor:
    """The elements that ``index`` names: a view, or a copy where tensors are among the indices."""
    if self._keys & TORCH_FUNCTION or modes_are_active():
        answer = _offered("__getitem__", self, index)
        if answer is not NO_OVERRIDE:
            return answer  # type: ignore[return-value]  # whatever the handler gives
    if index.__class__ is int:
        return _at(self, 0, 0, index)
    if index.__class__ is slice and self.meta.shape:
        return _slice(self, 0, *_bounds(index))  # whole or not
    if index.__class__ is tuple:
        view = _by_views(self, index)
        if view is not None:
            return _alias(view) if view is self else view
    elif isinstance(index, Tensor) and not index._class_bits & TORCH_FUNCTION:
        # Positions, as most tensors are: 5.4 to 3.4 us in a fake mode (timeit, CPython 3.11).
        own, meta = self.meta, index.meta
        if meta.dtype is int64 and meta.device is own.device and meta.ndim and own.ndim:
            return indexing.index(self, [index])
    if _asks(index):
        return cast("Tensor", offered(Tensor.__getitem__, (self, index), {}))
    view, found = _applied(self, _items(index))
    if found:
        return indexing.index(view, _listed(view, found))
    return _alias(view) if view is self else view


def setitem(self: Tensor, index: object, value: object) -> None:
    """Write ``value``, broadcast and cast, to the elements that ``index`` names."""
    if self._keys & TORCH_FUNCTION or modes_are_active():
        if _offered("__setitem__", self, index, value) is not NO_OVERRIDE:
            return
    if isinstance(index, Tensor) and isinstance(value, Tensor):
        own, meta = self.meta, index.meta
        plain = not (index._class_bits | value._class_bits) & TORCH_FUNCTION
        # Positions, as in `getitem`: 7.0 to 4.4 us in a fake mode (timeit, CPython 3.11).
        if plain and meta.dtype is int64 and meta.device is own.device and meta.ndim and own.ndim:
            if own.layout is strided:
                indexing.index_put_(self, [index], _without_leading_ones(value))
                return
    if _asks(index) or (value.__class__ not in _PLAIN and _asks(value)):
        offered(Tensor.__setitem__, (self, index, value), {})
        return
    if self.meta.layout is not strided and self.meta.layout in SPARSE_LAYOUTS:
        raise TypeError("Cannot assign to a sparse tensor")
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (Tensor, int, float, complex)) and node_of(value) is None:
        raise TypeError(
            f"can't assign a {type(value).__name__} to {self.meta}; assign a number or a tensor"
        )
    if index is False:
        return
    if not isinstance(value, Tensor):
        value = _number(value, self.dtype)
    if index is True:
        _write(_unsqueeze(self, 0), value)
        return
    view, found = _applied(self, _items(index))
    if not found:
        _write(view, value)
        return
    indexing.index_put_(view, _listed(view, found), _without_leading_ones(value))


def _number(value: object, dtype: DType) -> Tensor:
    """What is written where a number is given: a tensor of its own, before any view is made."""
    if node_of(value) is not None:
        made = scalar_tensor(value, dtype=dtype)
        assert isinstance(made, Tensor)
        return made
    return number(value, dtype)  # type: ignore[arg-type]  # a number


def _offered(name: str, self: Tensor, *rest: object) -> object:
    """What handlers of ``__torch_function__`` answer; NO_OVERRIDE if none is asked."""
    if tls.st.function_modes or overrides_torch_function(type(self)):
        return call_torch_function(getattr(Tensor, name), (self, *rest), {})
    return NO_OVERRIDE


_PLAIN = frozenset((int, float, bool, complex, slice, type(None), type(...), Tensor, list))


def _asks(index: object) -> bool:
    """Whether an index, one of several, or one in a list of indices has a handler of its own."""
    for item in index if index.__class__ is tuple else (index,):
        several = item.__class__ is list and len(item) < _INDICES
        for member in item if several else (item,):
            if member.__class__ not in _PLAIN and overrides_torch_function(member.__class__):
                return is_overridden((member,), {})
    return False


_INDICES = 32  # a longer list is one of numbers, which is read as an array


def _write(target: Tensor, value: Tensor) -> None:
    if value.meta.shape == target.meta.shape:
        target.copy_(value)
    elif value.meta.ndim == 0 and value.is_cpu:
        target.fill_(value)
    else:
        source = value.view(value.meta.shape[_leading_ones(value) :])  # always: modes see it
        target.copy_(expand(source, target.meta.shape))


def _leading_ones(value: Tensor) -> int:
    shape = value.meta.shape
    return next((i for i, n in enumerate(shape) if not is_true(n == 1)), len(shape))


def _without_leading_ones(value: Tensor) -> Tensor:
    ones = _leading_ones(value)
    return value.view(value.meta.shape[ones:]) if ones else value


def delitem(self: Tensor, index: object) -> None:
    """Tensors have no elements to take away: TypeError."""
    raise TypeError(f"'{type(self).__name__}' object does not support item deletion")


# --- what was written between the brackets -------------------------------------------


def _items(index: object) -> tuple[object, ...]:
    if index.__class__ is tuple:
        return index
    if isinstance(index, tuple) or (isinstance(index, list) and _counts_as_tuple(index)):
        return tuple(index)
    return (index,)


def _counts_as_tuple(index: list[object]) -> bool:
    """A short list with anything but numbers in it is read as a tuple, as it always was."""
    return len(index) < _LEGACY_TUPLE and any(
        i is None or i is Ellipsis or isinstance(i, (Tensor, slice, list, tuple, np.ndarray))
        for i in index
    )


def _dims_taken(items: tuple[object, ...]) -> int:
    taken = 0
    for item in items:
        if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_)):
            continue
        mask = isinstance(item, Tensor) and item.meta.dtype in (bool_, uint8)
        mask = mask or (isinstance(item, np.ndarray) and item.dtype in (np.bool_, np.uint8))
        taken += item.ndim if mask else 1  # type: ignore[attr-defined]  # an array
    return taken


def _applied(self: Tensor, items: tuple[object, ...]) -> tuple[Tensor, dict[int, Tensor]]:
    """``self`` after the views among the indices, and the tensors by the dimension they index."""
    taken = _dims_taken(items)
    if taken > self.meta.ndim:
        _refuse_count(self)
    found: dict[int, Tensor] = {}
    view, dim, real_dim, ellipses = self, 0, 0, 0
    for item in items:
        if item is Ellipsis:
            ellipses += 1
            if ellipses > 1:
                raise IndexError("an index can only have a single ellipsis ('...')")
            skipped = self.meta.ndim - taken
            dim, real_dim = dim + skipped, real_dim + skipped
            continue
        if item.__class__ is int:
            view = _at(view, dim, real_dim, item)
            real_dim += 1
        elif item.__class__ is slice:
            view = _cut(view, dim, item)
            dim, real_dim = dim + 1, real_dim + 1
        elif item is None:
            view = _unsqueeze(view, dim)
            dim += 1
        else:
            view, dims, real_dims = _other(view, dim, real_dim, item, found)
            dim, real_dim = dim + dims, real_dim + real_dims
    return view, found


def _by_views(self: Tensor, items: tuple[object, ...]) -> Tensor | None:
    """`_applied` of slices, None and one Ellipsis, as most are; None where anything else is."""
    taken = 0
    for item in items:
        if item.__class__ is slice:
            taken += 1
        elif item is not None and item is not Ellipsis:
            return None
    skipped = self.meta.ndim - taken
    if skipped < 0:
        return None
    view, dim = self, 0
    for item in items:
        if item is None:
            view = _unsqueeze(view, dim)
        elif item is not Ellipsis:
            view = _cut(view, dim, item)  # type: ignore[arg-type]  # a slice
        elif skipped < 0:
            return None  # a second one
        else:
            dim += skipped
            skipped = -1
            continue
        dim += 1
    return view


def _refuse_count(self: Tensor) -> None:
    if self.meta.ndim == 0:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` "
            "in C++ to convert a 0-dim tensor to a number"
        )
    raise IndexError(f"too many indices for tensor of dimension {self.meta.ndim}")


def _at(view: Tensor, dim: int, real_dim: int, index: int) -> Tensor:
    shape = view.meta.shape
    if not shape:
        _refuse_count(view)
    size = shape[dim]
    if index.__class__ is int and size.__class__ is int:
        inside = -size <= index < size
    else:
        inside = expect_true(-size <= index) and expect_true(index < size)
    if not inside:
        raise IndexError(
            f"index {index} is out of bounds for dimension {real_dim} with size {size}"
        )
    return _select(view, dim, index)


def _cut(view: Tensor, dim: int, item: slice) -> Tensor:
    size = view.meta.shape[dim]
    if item.start is item.stop is item.step is None and size.__class__ is int:
        return view
    start, stop, step = _bounds(item)
    # Of a size that only a symbol stands for it is recorded, as by PyTorch: a trace is then as
    # general as the program. (A stop of `_LARGEST` is not known to be one past every size.)
    if step == 1 and is_known(start == 0) and is_known(size <= stop):
        return view
    return _slice(view, dim, start, stop, step)


def _bounds(item: slice) -> tuple[int, int, int]:
    """Start, stop and step as `slice` takes them."""
    start, stop, step = item.start, item.stop, item.step
    if start.__class__ is not int:
        start = 0 if start is None else _bound(start)
    if stop.__class__ is not int:
        stop = _LARGEST if stop is None else _bound(stop)
    if step is None:
        return start, stop, 1
    step = _bound(step)
    if step <= 0:
        raise ValueError(
            "slice step cannot be zero" if step == 0 else "step must be greater than zero"
        )
    return start, stop, step


def _bound(value: object) -> int:
    """An end of a slice: an int, a symbolic one, or the number in a tensor."""
    if value.__class__ is int:
        return value
    if isinstance(value, Tensor):
        value = value.item()
    try:
        return plain(value)  # type: ignore[arg-type]  # refuses what is no int
    except TypeError:
        raise TypeError(
            f"slice indices must be integers or None or have an __index__ method, got {value!r}"
        ) from None


def _other(
    view: Tensor, dim: int, real_dim: int, item: object, found: dict[int, Tensor]
) -> tuple[Tensor, int, int]:
    """Booleans, tensors, sequences; also how many dimensions of the view and self they take."""
    if isinstance(item, (bool, np.bool_)):
        return _truth(view, dim, bool(item), found)
    if isinstance(item, np.ndarray):
        item = _of_array(item)
    if isinstance(item, Tensor):
        kind = item.meta.dtype
        # A number that `vmap` hides differs over the batch: it is gathered by, never read.
        if item.meta.ndim == 0 and kind.category <= 1 and not item._differs:
            if kind in (bool_, uint8):
                return _truth(view, dim, bool(item.item()), found)
            return _at(view, dim, real_dim, _bound(item)), 0, 1
        found[dim] = item
        covered = item.meta.ndim if kind in (bool_, uint8) else 1
        return view, covered, covered
    if isinstance(item, (list, tuple, range)):
        found[dim] = _positions(item)
        covered = found[dim].meta.ndim if found[dim].meta.dtype in (bool_, uint8) else 1
        return view, covered, covered
    if isinstance(item, str):
        raise TypeError(f"new(): invalid data type '{type(item).__name__}'")
    if node_of(item) is None and not hasattr(item, "__index__"):
        raise IndexError(
            f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
            f"valid indices (got {type(item).__name__})"
        )
    place = operator.index(item) if node_of(item) is None else item  # type: ignore[arg-type]  # has __index__
    return _at(view, dim, real_dim, place), 0, 1  # type: ignore[arg-type]  # symbolic, or an int


def _of_array(item: np.ndarray) -> Tensor:
    """The tensor that an array among the indices is: of int64, unless it is a mask."""
    here = from_array(np.ascontiguousarray(item).reshape(item.shape))
    lifted = lift_fresh(here)
    assert isinstance(lifted, Tensor)
    if here.meta.dtype in (bool_, uint8, int64):
        return lifted
    return lifted.to(device=lifted.device, dtype=int64)


def _truth(
    view: Tensor, dim: int, value: bool, found: dict[int, Tensor]
) -> tuple[Tensor, int, int]:
    """True and False take a new dimension of size 1 whole or not at all (T44)."""
    found[dim] = tensor([0] if value else [], dtype=int64)
    return _unsqueeze(view, dim), 1, 0


def _positions(item: list[object] | tuple[object, ...] | range) -> Tensor:
    if not item or any(isinstance(i, np.integer) for i in item):
        return tensor(list(item), dtype=int64)
    made = tensor(list(item))
    return made.to(int64) if made.meta.numel == 0 else made


def _listed(view: Tensor, found: dict[int, Tensor]) -> list[Tensor | None]:
    """One entry a dimension, a mask one for all that it covers; on the device of the tensor."""
    indices: list[Tensor | None] = []
    dim = 0
    for at in sorted(found):
        indices += [None] * (at - dim)
        one = found[at]
        here = one if one.device is view.device else one.to(device=view.device)
        indices.append(here)
        dim = at + (one.meta.ndim if one.meta.dtype in (bool_, uint8) else 1)
    return indices


def attach() -> None:
    """Bind the subscripts to `Tensor`."""
    methods = {"__getitem__": getitem, "__setitem__": setitem, "__delitem__": delitem}
    for name, method in methods.items():
        method.__name__ = name
        setattr(Tensor, name, method)


attach()
