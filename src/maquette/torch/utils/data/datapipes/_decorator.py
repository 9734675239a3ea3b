"""Decorators of pipes: methods by name, and what is asked of their samples and arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "argument_validation",
    "functional_datapipe",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "runtime_validation",
    "runtime_validation_disabled",
]


class _Switch:
    """For a block, from its making on: what a class holds of all pipes is as in such blocks."""

    _holds: ClassVar[bool]
    _inside: ClassVar[bool]

    def __init__(self) -> None:
        kind = type(self)
        self.prev, kind._holds = kind._holds, kind._inside

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        type(self)._holds = self.prev


class functional_datapipe:  # PyTorch's name
    """A decorator: the class of pipes is a method of this name of all pipes of its kind.

    Raises TypeError for what is no pipe, Exception for a name that is taken.
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls: C) -> C:
        kind = _decorated(cls)
        for base in (IterDataPipe, MapDataPipe):
            if isinstance(kind, type) and issubclass(kind, base):
                base._register(self.name, cls)
                return cls
        raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")


def _decorated(cls: Any) -> object:
    """The class itself, also under `non_deterministic`."""
    marked = getattr(cls, "__self__", cls)
    return marked.cls if isinstance(marked, non_deterministic) else cls


class guaranteed_datapipes_determinism(_Switch):  # PyTorch's name
    """For a block: pipes that are marked `non_deterministic` cannot be made."""

    _holds = False
    _inside = True


class non_deterministic:  # PyTorch's name
    """A decorator of a class of pipes whose order is another one each time.

    With a function, those whose constructor's arguments it says True of. Such a pipe raises
    TypeError where `guaranteed_datapipes_determinism` holds.
    """

    def __init__(self, arg: type[IterDataPipe[Any]] | Callable[..., bool]) -> None:
        self.cls: Any = None
        self.deterministic_fn: Callable[..., bool] = _always
        if isinstance(arg, type):
            self.cls = self._checked(arg)
        elif callable(arg):
            self.deterministic_fn = arg
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    @staticmethod
    def _checked(cls: Any) -> Any:
        if not (isinstance(cls, type) and issubclass(cls, IterDataPipe)):
            raise TypeError(
                "Only `IterDataPipe` can be decorated with `non_deterministic`, but "
                f"{getattr(cls, '__name__', cls)} is found"
            )
        return cls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is None:
            self.cls = self._checked(args[0])
            return self.deterministic_wrapper_fn
        return self.deterministic_wrapper_fn(*args, **kwargs)

    def deterministic_wrapper_fn(self, *args: Any, **kwargs: Any) -> Any:
        """Make the pipe, if its order may be another one each time, or is not."""
        varies = self.deterministic_fn(*args, **kwargs)
        if not isinstance(varies, bool):
            raise TypeError(
                "deterministic_fn of `non_deterministic` decorator is required to return a "
                f"boolean value, but {type(varies)} is found"
            )
        if guaranteed_datapipes_determinism._holds and varies:
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic with these inputs, but you set "
                "'guaranteed_datapipes_determinism'. Leave that block where another order is "
                "acceptable"
            )
        return self.cls(*args, **kwargs)


def _always(*args: object, **kwargs: object) -> bool:
    return True


def argument_validation(f: F) -> F:
    """A decorator of a function: an argument annotated as a pipe is to be one, or TypeError."""
    signature, hints = inspect.signature(f), get_type_hints(f)
    kinds = {
        name: get_origin(hint) or hint
        for name, hint in hints.items()
        if inspect.isclass(get_origin(hint) or hint)
        and issubclass(get_origin(hint) or hint, IterDataPipe)
    }

    @functools.wraps(f)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in kinds and not isinstance(value, kinds[name]):
                raise TypeError(
                    f"Expected argument '{name}' as a {kinds[name].__name__}, but found "
                    f"{type(value)}"
                )
        return f(*args, **kwargs)

    return checked  # type: ignore[return-value]  # of the same signature


class runtime_validation_disabled(_Switch):  # PyTorch's name
    """For a block: `runtime_validation` lets all samples pass."""

    _holds = True
    _inside = False


def runtime_validation(f: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """A decorator of ``__iter__``: samples are of the class that the pipe is declared with.

    For ``class Words(IterDataPipe[str])`` a sample that is no str raises RuntimeError; what a
    declaration says of a container's elements is not checked. PyTorch 2.13 raises AttributeError
    for all samples. TypeError if ``f`` is no ``__iter__``.
    """
    if f.__name__ != "__iter__":
        raise TypeError(f"Can not decorate function {f.__name__} with 'runtime_validation'")

    @functools.wraps(f)
    def checked(self: Any) -> Iterator[Any]:
        declared = _declared(type(self))
        for sample in f(self):
            if runtime_validation_disabled._holds and not isinstance(sample, declared):
                raise RuntimeError(
                    f"Expected an instance as subtype of {declared}, but found {sample}"
                    f"({type(sample)})"
                )
            yield sample

    return checked


def _declared(kind: type) -> type:
    """The class in ``IterDataPipe[...]``; object if there is none."""
    for base in kind.__mro__:
        for alias in vars(base).get("__orig_bases__", ()):
            found = get_args(alias)
            element = get_origin(found[0]) or found[0] if len(found) == 1 else object
            if _is_pipe(get_origin(alias)) and isinstance(element, type):
                return element
    return object


def _is_pipe(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, IterDataPipe)
