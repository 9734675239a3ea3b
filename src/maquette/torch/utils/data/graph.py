"""Which pipes a pipe is made from: a graph, found by looking through what it holds.

What a pipe holds is asked of pickle, which knows how to go through objects; nothing is kept of what
it writes, and what it cannot write holds no pipes.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Collection
from types import BuiltinFunctionType, FunctionType
from typing import Any

from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

DataPipe = IterDataPipe[Any] | MapDataPipe[Any]
DataPipeGraph = dict[int, tuple[Any, "DataPipeGraph"]]
_PIPES = (IterDataPipe, MapDataPipe)

__all__ = ["traverse", "traverse_dps"]


def traverse_dps(datapipe: DataPipe) -> DataPipeGraph:
    """The pipe by its ``id``, with the same of each pipe that it holds: ``{id: (pipe, graph)}``.

    Looked at are attributes that are pipes or collections. A pipe that holds itself is there once
    on each way. RuntimeError for what is no pipe.
    """
    return _graph(datapipe, only_datapipe=True, above=frozenset())


def traverse(datapipe: DataPipe, only_datapipe: bool | None = None) -> DataPipeGraph:
    """The graph of a pipe; deprecated, `traverse_dps` is in its place.

    only_datapipe: False looks at all attributes, also at functions' arguments and other objects.
    """
    message = "`traverse` function is deprecated. Please use `traverse_dps` instead."
    if not only_datapipe:
        message += " And, the behavior will be changed to that of `only_datapipe=True`."
    warnings.warn(message, FutureWarning, stacklevel=2)
    return _graph(datapipe, bool(only_datapipe), above=frozenset())


def _graph(pipe: DataPipe, only_datapipe: bool, above: frozenset[int]) -> DataPipeGraph:
    if not isinstance(pipe, _PIPES):
        raise RuntimeError(f"Expected `IterDataPipe` or `MapDataPipe`, but {type(pipe)} is found")
    if id(pipe) in above:
        return {}
    above |= {id(pipe)}
    sources: DataPipeGraph = {}
    for source in _held(pipe, only_datapipe):
        sources.update(_graph(source, only_datapipe, above))
    return {id(pipe): (pipe, sources)}


def _held(pipe: DataPipe, only_datapipe: bool) -> list[Any]:
    """The pipes that a pipe holds itself."""
    finder = _Finder(pipe, only_datapipe)
    finder.dump(pipe)
    return list(finder.found.values())


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


_Reduced = tuple[Any, ...]
_LEAF: _Reduced = (str, ())  # instead of what is not gone into


class _Finder(pickle.Pickler):
    """Goes through one pipe, and notes others where it meets them."""

    def __init__(self, root: DataPipe, only_datapipe: bool) -> None:
        super().__init__(_Nowhere(), protocol=4)
        self.root = root
        self.only_datapipe = only_datapipe
        self.found: dict[int, Any] = {}

    def reducer_override(self, obj: Any) -> Any:
        """What pickle is to write: of the root its state, of others what they hold."""
        if obj is str:
            return NotImplemented  # the leaf's own class
        if isinstance(obj, type | FunctionType | BuiltinFunctionType):
            return _LEAF
        if isinstance(obj, _PIPES) and obj is not self.root:
            self.found.setdefault(id(obj), obj)
            return _LEAF
        if obj is self.root:
            state = obj._looked_through()
            return object, (), _pipes_and_collections(state) if self.only_datapipe else state
        try:
            reduced = obj.__reduce_ex__(4)
        except Exception:  # noqa: BLE001  # open files, locks, generators
            return _LEAF
        return reduced if isinstance(reduced, tuple) else _LEAF


def _pipes_and_collections(state: object) -> object:
    looked_at = (*_PIPES, Collection)
    if isinstance(state, dict):
        return {name: value for name, value in state.items() if isinstance(value, looked_at)}
    if isinstance(state, list | tuple):
        return [value for value in state if isinstance(value, looked_at)]
    return state if isinstance(state, looked_at) else None
