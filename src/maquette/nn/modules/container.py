"""Containers of modules: a chain, a list, a dict.

A list's modules are named by their index, so its state dict reads `0.weight`, `1.weight`.
Containers of parameters are in `parameter_container.py`.
"""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain, groupby
from typing import Any, TypeVar, overload

from maquette.nn.base import Module
from maquette.nn.base.members import MODULES
from maquette.nn.base.module import _addindent, parenthesized

Item = TypeVar("Item")
T = TypeVar("T", bound="_Indexed")


class _Indexed(Module):
    """What a chain and a list share: modules found by number, renumbered on deletion."""

    def __len__(self) -> int:
        return len(self._mq_attributes[MODULES])

    def __iter__(self) -> Iterator[Module]:
        return map(self._mq_attributes.__getitem__, self._mq_attributes[MODULES])

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._mq_name_at(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        names = list(self._mq_attributes[MODULES])
        for name in names[idx] if isinstance(idx, slice) else [self._mq_name_at(idx)]:
            delattr(self, name)
        self._mq_renumber(list(self))

    def append(self: T, module: Module) -> T:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self: T, modules: Iterable[Module]) -> T:
        """Add modules at the end; TypeError unless they can be iterated over."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend should be called with an iterable, but got "
                f"{type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self: T, index: int, module: Module) -> T:
        """Put a module before the one at `index`; IndexError beyond the ends."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}; got {type(module)}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index} in {len(self)} modules")
        modules = list(self)
        modules.insert(index, module)
        self._mq_renumber(modules)
        return self

    # What programs' own lists and chains call: where a module stands, and what stands there.
    def _get_abs_string_index(self, idx: int) -> str:
        return self._mq_name_at(idx)

    def _get_item_by_idx(self, iterator: Iterable[Item], idx: int) -> Item:
        items = list(iterator)
        position = operator.index(idx)
        if not -len(items) <= position < len(items):
            raise IndexError(f"index {position} is out of range of {len(items)} items")
        return items[position]

    def _mq_renumber(self, modules: list[Module]) -> None:
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def _mq_name_at(self, idx: int) -> str:
        position = operator.index(idx)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range of {len(self)} modules")
        names: list[str] = list(self._mq_attributes[MODULES])
        return names[position]


class Container(Module):
    """A module of named modules; deprecated long ago, for `Module` itself."""

    def __init__(self, **kwargs: Module) -> None:
        super().__init__()
        warnings.warn(
            "nn.Container is deprecated. All of its functionality is now implemented in nn.Module. "
            "Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(_Indexed):
    """Modules one after the other, each fed with the output of the one before.

    `Sequential(a, b)`, or `Sequential(OrderedDict(first=a, second=b))` for names of one's own.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for module in args:
                self.append(module)

    def forward(self, input: Any) -> Any:
        """The output of the last module; the input itself if there is none."""
        for module in self:
            input = module(input)
        return input

    @overload
    def __getitem__(self, idx: int) -> Any: ...
    @overload
    def __getitem__(self, idx: slice) -> Sequential: ...
    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._mq_attributes[self._mq_name_at(idx)]

    def pop(self, key: int | slice) -> Module:
        """Remove a module and return it."""
        module: Module = self[key]
        del self[key]
        return module

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Add modules at the end; TypeError unless they can be iterated over."""
        return super().extend(sequential)

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *_checked_chain(other))

    def __iadd__(self, other: Sequential) -> Sequential:
        return self.extend(_checked_chain(other))

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*list(self) * self._mq_checked_factor(other))

    def __rmul__(self, other: int) -> Sequential:
        return self * other

    def __imul__(self, other: int) -> Sequential:
        return self.extend(list(self) * (self._mq_checked_factor(other) - 1))

    def _mq_checked_factor(self, factor: int) -> int:
        if not isinstance(factor, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(factor)}")
        if factor <= 0:
            raise ValueError(f"Non-positive multiplication factor {factor} for {type(self)}")
        return factor


def _checked_chain(other: Sequential) -> Sequential:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"add operator supports only objects of Sequential class, but {type(other)} is given."
        )
    return other


class ModuleList(_Indexed):
    """A list of modules, which are registered; it has no forward of its own."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self, idx: int) -> Any: ...
    @overload
    def __getitem__(self, idx: slice) -> ModuleList: ...
    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return self._mq_attributes[self._mq_name_at(idx)]

    def pop(self, key: int | slice) -> Any:
        """Remove a module, or a slice of them, and return it."""
        module = self[key]
        del self[key]
        return module

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __repr__(self) -> str:
        """As any module, but equal neighbours are printed once: `(0-11): 12 x Block(...)`."""
        lines = []
        start = 0
        for text, equal in groupby(repr(module) for module in self):
            count = len(list(equal))
            end = start + count - 1
            place = f"({start}): {text}" if count == 1 else f"({start}-{end}): {count} x {text}"
            lines.append(_addindent(place, 2))
            start += count
        return parenthesized(self._get_name(), [], lines)


class ModuleDict(Module):
    """A dict of modules, which are registered by their keys; it has no forward of its own."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._mq_attributes[MODULES])

    def __iter__(self) -> Iterator[str]:
        return iter(self._mq_attributes[MODULES])

    def __contains__(self, key: str) -> bool:
        return key in self._mq_attributes[MODULES]

    def clear(self) -> None:
        """Remove every module."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove a module and return it."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """The names, in order of registration."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Any]:
        """Names and modules."""
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Take over the modules of a mapping, or of pairs of name and module."""
        for name, module in pairs_of("ModuleDict", modules):
            self[name] = module


def pairs_of(kind: str, entries: Any) -> list[tuple[str, Any]]:
    """The entries of a mapping or an iterable of pairs; TypeError or ValueError for others."""
    if isinstance(entries, Mapping | ModuleDict) or hasattr(entries, "items"):
        return list(entries.items())
    if not isinstance(entries, Iterable):
        raise TypeError(
            f"{kind}.update should be called with an iterable of key/value pairs, but got "
            f"{type(entries).__name__}"
        )
    pairs = []
    for i, entry in enumerate(entries):
        if not isinstance(entry, Iterable):
            raise TypeError(
                f"{kind} update sequence element #{i} should be Iterable; is {type(entry).__name__}"
            )
        pair = tuple(entry)
        if len(pair) != 2:
            raise ValueError(
                f"{kind} update sequence element #{i} has length {len(pair)}; 2 is required"
            )
        pairs.append(pair)
    return pairs
