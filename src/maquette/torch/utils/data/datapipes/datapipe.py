"""The two kinds of pipes: `IterDataPipe`, read one sample after another, and `MapDataPipe`, by key.

A class registered under a name is a method of all pipes of its kind: ``pipe.batch(4)`` is
``Batcher(pipe, 4)``. What an iteration does to a pipe is in `_hook_iterator.py`.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from maquette.torch.helpers.wrappers import import_dill
from maquette.torch.utils.data.datapipes._hook_iterator import _SnapshotState, track
from maquette.torch.utils.data.dataset import Dataset, IterableDataset

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]


class DataChunk(list[T]):
    """A batch of samples: a list that knows itself to be one."""

    def __init__(self, items: Iterable[T]) -> None:
        super().__init__(items)
        self.items = list(self)

    def as_str(self, indent: str = "") -> str:
        """The samples as text, after an indent."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self) -> Iterator[T]:
        """The samples as they came."""
        return iter(self.items)


class _Pipe:
    """What both kinds have: methods by name, hooks for pickling, and how they are shown.

    Hooks belong to a kind, not to a class of it: ``getstate_hook(state)`` gives what is pickled of
    a pipe, ``reduce_ex_hook(pipe)`` how it is pickled, unless it raises NotImplementedError.
    """

    functions: ClassVar[dict[str, Callable[..., Any]]]
    getstate_hook: ClassVar[Callable[[Any], Any] | None] = None
    reduce_ex_hook: ClassVar[Callable[[Any], Any] | None] = None
    str_hook: Callable[[], str] | None = None
    repr_hook: Callable[[], str] | None = None
    _is_datapipe = True  # a loader prepares such data sets (`loading.py`)

    @classmethod
    def _kind(cls) -> type[_Pipe]:
        """`IterDataPipe` or `MapDataPipe`."""
        return next(base for base in cls.__mro__ if "functions" in vars(base))

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function a method of all pipes of this kind; one of this name is replaced."""
        cls.functions[function_name] = function

    @classmethod
    def _register(cls, function_name: str, cls_to_register: Any) -> None:
        """Make a class of pipes a method of all; Exception if the name is taken."""
        if function_name in cls.functions:
            raise Exception(  # PyTorch's class
                f"Unable to add DataPipe function name {function_name} as it is already taken"
            )

        @functools.wraps(cls_to_register, assigned=("__doc__",), updated=())
        def make(source: object, /, *args: object, **kwargs: object) -> object:
            return cls_to_register(source, *args, **kwargs)

        cls.functions[function_name] = make

    def __getattr__(self, name: str) -> Any:
        function = type(self).functions.get(name)
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return functools.wraps(function, assigned=("__doc__",), updated=())(
            functools.partial(function, self)
        )

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.functions]

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Set the hook, or remove it by None; RuntimeError if there is one."""
        cls._set_hook("getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Set the hook, or remove it by None; RuntimeError if there is one."""
        cls._set_hook("reduce_ex_hook", hook_fn)

    @classmethod
    def _set_hook(cls, name: str, hook: Callable[[Any], Any] | None) -> None:
        kind = cls._kind()
        if hook is not None and getattr(kind, name) is not None:
            raise RuntimeError(f"Attempt to override existing {name}")
        setattr(kind, name, hook)

    def _lasting_state(self) -> dict[str, Any]:
        """The attributes that are pickled."""
        return self.__dict__

    def __getstate__(self) -> Any:
        hook = self._kind().getstate_hook
        state = self._lasting_state()
        return state if hook is None else hook(state)

    def _looked_through(self) -> Any:
        """Where `graph.py` looks for the pipes that this one is made from."""
        return self.__getstate__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        hook = self._kind().reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass  # the hook leaves this one to pickle
        return super().__reduce_ex__(protocol)

    def __str__(self) -> str:
        return type(self).__qualname__ if self.str_hook is None else self.str_hook()

    def __repr__(self) -> str:
        return type(self).__qualname__ if self.repr_hook is None else self.repr_hook()


class IterDataPipe(_Pipe, IterableDataset[T_co]):
    """Samples one after another: subclasses define ``__iter__``, and ``reset`` if they keep state.

    Only one iteration over a pipe is valid at a time. A new one calls ``reset``, and older ones
    raise RuntimeError; `fork` gives pipes that are read side by side.
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Make a class of pipes a method of all; Exception if the name is taken."""
        cls._register(function_name, cls_to_register)

    _valid_iterator_id: int | None = None
    _number_of_samples_yielded: int = 0
    _snapshot_state: _SnapshotState = _SnapshotState.NotStarted
    _fast_forward_iterator: Iterator[Any] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        track(cls)

    def __iter__(self) -> Iterator[T_co]:
        return self  # which defines __next__

    def reset(self) -> None:
        """Go back to the beginning; called by each new iteration. Nothing, unless it is defined."""

    def _begin_iteration(self) -> int:
        """Number a new iteration and reset the pipe for it."""
        valid = self._valid_iterator_id
        self._valid_iterator_id = 0 if valid is None else valid + 1
        self.reset()
        return self._valid_iterator_id

    def _is_valid_iteration(self, number: int) -> bool:
        return self._valid_iterator_id == number


track(IterDataPipe)


class DFIterDataPipe(IterDataPipe[Any]):
    """A pipe that says of itself that its samples are data frames."""

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_Pipe, Dataset[T_co]):
    """Samples by key: subclasses define ``__getitem__`` and, mostly, ``__len__``."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any) -> None:
        """Make a class of pipes a method of all; Exception if the name is taken."""
        cls._register(function_name, cls_to_register)


class _DataPipeSerializationWrapper:
    """A pipe as a loader holds it: pickled by dill, where it is there and pickle cannot."""

    def __init__(self, datapipe: Any) -> None:
        self._datapipe = datapipe

    def __getstate__(self) -> tuple[bytes, bool]:
        dill = import_dill()
        try:
            return pickle.dumps(self._datapipe), False
        except Exception:
            if dill is None:
                raise
            return dill.dumps(self._datapipe), True

    def _looked_through(self) -> Any:
        return [self._datapipe]

    def __setstate__(self, state: tuple[bytes, bool]) -> None:
        pickled, by_dill = state
        self._datapipe = import_dill().loads(pickled) if by_dill else pickle.loads(pickled)

    def __len__(self) -> int:
        try:
            return len(self._datapipe)
        except Exception as error:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length") from error


class _IterDataPipeSerializationWrapper(_DataPipeSerializationWrapper, IterDataPipe[Any]):
    """An `IterDataPipe` as a loader holds it."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self._datapipe)


class _MapDataPipeSerializationWrapper(_DataPipeSerializationWrapper, MapDataPipe[Any]):
    """A `MapDataPipe` as a loader holds it."""

    def __getitem__(self, index: Any) -> Any:
        return self._datapipe[index]
