"""Copies of arguments, and what changed in them.

A copy has the strides, offset, storage size, `requires_grad` and `.grad` of the original, and what
shared memory, or was one object, still does (L114). A snapshot holds the bytes of whole storages,
so that writes outside a view and over NaN are seen (LX7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from maquette.opcheck.framework import Framework


def map_tensors(function: Callable[[Any], Any], value: Any, on: Framework) -> Any:
    """The structure with ``function`` of each tensor in its place."""
    if on.is_tensor(value):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[map_tensors(function, v, on) for v in value])
    if isinstance(value, (list, tuple)):
        return type(value)([map_tensors(function, v, on) for v in value])
    if isinstance(value, dict):
        return {k: map_tensors(function, v, on) for k, v in value.items()}
    return value


def tensors_in(value: Any, on: Framework) -> list[Any]:
    """The tensors of a structure, in order."""
    found: list[Any] = []
    map_tensors(found.append, value, on)
    return found


def named_tensors(arguments: Sequence[tuple[Any, Any]], on: Framework) -> Iterator[tuple[str, Any]]:
    """The tensors among bound arguments: their names, ``xs[1]`` in a list, and themselves."""
    for argument, value in arguments:
        if on.is_tensor(value):
            yield argument.name, value
        elif isinstance(value, (list, tuple)):
            for i, t in enumerate(value):
                if on.is_tensor(t):
                    yield f"{argument.name}[{i}]", t


class Copier:
    """Copies tensors, each storage once."""

    def __init__(self, on: Framework, dtype: str | None = None) -> None:
        self._on = on
        self._done: dict[int, Any] = {}
        self._storages: dict[int, Any] = {}
        self._kept: list[Any] = []

    def __call__(self, value: Any) -> Any:
        return map_tensors(self._copied, value, self._on)

    def _copied(self, t: Any) -> Any:
        found = self._done.get(id(t))
        if found is None:
            found = self._done[id(t)] = self._copy(t)
            self._kept.append(t)
        return found

    def _copy(self, t: Any) -> Any:
        torch = self._on.torch
        if type(t) not in (torch.Tensor, _parameter(torch)) or str(t.layout) != "torch.strided":
            return _plain_copy(t)
        storage = t.untyped_storage()
        with torch.no_grad():
            if storage._cdata not in self._storages:
                self._storages[storage._cdata] = storage.clone()
            made = torch.empty(0, dtype=t.dtype, device=t.device)
            copied = self._storages[storage._cdata]
            made.set_(copied, t.storage_offset(), t.shape, t.stride())
            made = _with_bits(torch, made, t)
        if t.requires_grad:
            made.requires_grad_()
        if t.is_leaf and t.grad is not None:
            made.grad = self._copied(t.grad)
        return made


def _parameter(torch: Any) -> type:
    found: type = torch.nn.Parameter
    return found


def _plain_copy(t: Any) -> Any:
    return t.detach().clone().requires_grad_(t.requires_grad)


def _with_bits(torch: Any, made: Any, t: Any) -> Any:
    if t.is_conj():
        made = torch._conj(made)
    return torch._neg_view(made) if t.is_neg() else made


def copied_arguments(
    on: Framework, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments that share nothing with those given."""
    copy = Copier(on)
    return copy(tuple(args)), copy(dict(kwargs))


# --- snapshots --------------------------------------------------------------------------------


def storage_bytes(t: Any, on: Framework) -> bytes:
    """The bytes of a tensor's whole storage."""
    storage = t.untyped_storage()
    if on.name == "maquette" and t.device.type == "cpu":
        memory: bytes = storage.raw().tobytes()
        return memory
    with on.torch.no_grad():
        flat = on.torch.empty(0, dtype=on.torch.uint8, device=t.device)
        flat.set_(storage, 0, (storage.nbytes(),), (1,))
        return bytes(flat.cpu().clone().numpy())


class Snapshot(NamedTuple):
    """One tensor as it was: the bytes of its storage, and its metadata."""

    data: bytes
    values: Any
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    storage: int
    version: int


def snapshot(t: Any, on: Framework) -> Snapshot | None:
    """A tensor as it is now; None for one that has no bytes of its own."""
    if on.is_fake(t) or str(t.layout) != "torch.strided":
        return None
    return Snapshot(
        storage_bytes(t, on),
        on.array(t),
        tuple(t.shape),
        tuple(t.stride()),
        t.storage_offset(),
        t.untyped_storage()._cdata,
        t._version,
    )


def what_changed(before: Snapshot, after: Snapshot) -> list[tuple[str, str, str]]:
    """What differs between two snapshots: the fact, what it was, what it is."""
    changes: list[tuple[str, str, str]] = []
    for fact, a, b in (
        ("size", before.shape, after.shape),
        ("strides", before.stride, after.stride),
        ("offset", before.offset, after.offset),
    ):
        if a != b:
            changes.append((fact, str(a), str(b)))
    if before.storage != after.storage:
        changes.append(("storage", "its own", "another"))
    elif before.data != after.data:
        changes.append(_data_change(before, after))
    return changes


def _data_change(before: Snapshot, after: Snapshot) -> tuple[str, str, str]:
    if before.values.shape == after.values.shape:
        same = (before.values == after.values) | (
            (before.values != before.values) & (after.values != after.values)
        )
        where = np.argwhere(~np.atleast_1d(same))
        if len(where):
            at = tuple(int(i) for i in where[0])
            old, new = (np.atleast_1d(s.values)[at] for s in (before, after))
            return f"data at {list(at)}", str(old), str(new)
    return "bytes (outside the view, or of NaN)", "untouched", "written"


def same_storage(a: Any, b: Any) -> bool:
    """Whether two tensors share memory; one without bytes shares none."""
    first, second = a.untyped_storage(), b.untyped_storage()
    if first._cdata != second._cdata:
        return False
    size = first.nbytes()
    return type(size) is not int or size > 0
