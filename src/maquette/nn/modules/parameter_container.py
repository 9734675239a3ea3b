"""Containers of parameters: a list and a dict.

A plain tensor that is put in becomes a Parameter; anything else is kept, but not registered.
Hence Any as the type of what is in them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, KeysView
from typing import Any, TypeVar

from maquette.nn.base import Module
from maquette.nn.modules.container import pairs_of
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor

L = TypeVar("L", bound="ParameterList")
D = TypeVar("D", bound="ParameterDict")


class ParameterList(Module):
    """A list of parameters, registered by their index."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)([self[i] for i in range(*idx.indices(len(self)))])
        return self._mq_attributes[self._mq_name_at(idx)]

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, self._mq_name_at(idx), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __iadd__(self: L, parameters: Iterable[Any]) -> L:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self: L, value: Any) -> L:
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self: L, values: Iterable[Any]) -> L:
        """Add values at the end; TypeError for a tensor or what cannot be iterated over."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                f"{type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """One line a value."""
        return "\n".join(f"  ({i}): {_described(value)}" for i, value in enumerate(self))

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """RuntimeError: a list of parameters is not a function."""
        raise RuntimeError("ParameterList should not be called.")

    def _get_abs_string_index(self, idx: int) -> str:  # programs' own lists call it
        return self._mq_name_at(idx)

    def _mq_name_at(self, idx: int) -> str:
        position = operator.index(idx)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range of {len(self)} parameters")
        return str(position % len(self))


class ParameterDict(Module):
    """A dict of parameters, registered by their keys."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return self._mq_attributes[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}')."
            )
        setattr(self, key, _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> KeysView[str]:
        """The keys, in order of insertion."""
        return self._keys.keys()

    def items(self) -> Iterator[tuple[str, Any]]:
        """Keys and values."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterator[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        return self[key] if key in self else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of `key`, which is set to `default` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Remove a value and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last pair and return it."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove every value."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        """A new dict of the same parameters."""
        return ParameterDict(list(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dict with one value for all keys."""
        return ParameterDict([(key, default) for key in keys])

    def update(self, parameters: Any) -> None:
        """Take over the entries of a mapping, or of pairs; those of a plain dict sorted by key."""
        pairs = pairs_of("ParameterDict", parameters)
        for key, value in sorted(pairs) if type(parameters) is dict else pairs:
            self[key] = value

    def __or__(self, other: ParameterDict) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ior__(self: D, other: ParameterDict) -> D:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        """One line a value."""
        return "\n".join(f"  ({k}): {_described(v, old_types=True)}" for k, v in self.items())

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """RuntimeError: a dict of parameters is not a function."""
        raise RuntimeError("ParameterDict should not be called.")


def _as_parameter(value: Any) -> Any:
    plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if plain else value


def _described(value: object, *, old_types: bool = False) -> str:
    """One value; old_types: torch.FloatTensor for torch.float32, as PyTorch prints a dict's."""
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    kind_of_data = value.type() if old_types else value.dtype
    size = "x".join(str(n) for n in value.shape)
    place = f" ({value.device})" if value.device.type == "cuda" else ""
    return f"{kind} containing: [{kind_of_data} of size {size}{place}]"
