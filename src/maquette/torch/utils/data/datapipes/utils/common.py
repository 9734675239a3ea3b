"""Functions that pipes are given, files that they read, and streams that close themselves."""

from __future__ import annotations

import fnmatch
import functools
import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import IOBase
from typing import Any, ClassVar, NoReturn

from maquette.torch.helpers.wrappers import dill_available

__all__ = [
    "StreamWrapper",
    "get_file_binaries_from_pathnames",
    "get_file_pathnames_from_root",
    "match_masks",
    "validate_input_col",
    "validate_pathname_binary_tuple",
]

Columns = int | str | Sequence[Any] | None


# --- functions ------------------------------------------------------------------------


def validate_input_col(fn: Callable[..., object], input_col: Columns) -> None:
    """ValueError unless the function can be called with as many positional arguments as columns.

    input_col: one column, or a list or tuple of them. A function without a signature passes.
    """
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except ValueError:
        return  # written in C
    given = len(input_col) if isinstance(input_col, list | tuple) else 1
    name = _name_of(fn)
    required_by_name = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if required_by_name:
        raise ValueError(
            f"The function {name} takes {len(required_by_name)} non-default keyword-only "
            f"parameters, which is not allowed."
        )
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in by_place)
    any_number = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if given < required or (given > len(by_place) and not any_number):
        raise ValueError(
            f"The function {name} takes {len(by_place)} positional parameters, but {given} are "
            f"required."
        )


def _name_of(fn: Callable[..., object]) -> str:
    whole = fn.func if isinstance(fn, functools.partial) else fn
    return getattr(whole, "__name__", repr(whole))


def _is_local_fn(fn: Callable[..., object]) -> bool:
    """Whether it was defined in a function, or is of a class that was."""
    code = getattr(fn, "__code__", None)
    if code is not None:
        return bool(code.co_flags & inspect.CO_NESTED)
    return "<locals>" in getattr(fn, "__qualname__", type(fn).__qualname__)


def _check_unpickable_fn(fn: Callable[..., object]) -> None:
    """Warn of a function that pickle cannot take to a worker; TypeError if it is no function."""
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    whole = fn.func if isinstance(fn, functools.partial) else fn
    is_lambda = getattr(whole, "__name__", None) == "<lambda>"
    if (is_lambda or _is_local_fn(whole)) and not dill_available():
        kind = "Local" if _is_local_fn(whole) else "Lambda"
        warnings.warn(
            f"{kind} function is not supported by pickle, please use regular python function or "
            f"functools.partial instead.",
            stacklevel=3,
        )


# --- files ----------------------------------------------------------------------------


def match_masks(name: str, masks: str | list[str]) -> bool:
    """Whether a file's name fits one of the shell patterns; no pattern fits all."""
    patterns = [masks] if isinstance(masks, str) else masks
    return not masks or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def get_file_pathnames_from_root(
    root: str,
    masks: str | list[str],
    recursive: bool = False,
    abspath: bool = False,
    non_deterministic: bool = False,
) -> Iterator[str]:
    """The paths of a folder's files that fit the masks, or of one file.

    recursive: of the folders in it, too. non_deterministic: as the system lists them, else sorted.
    Raises OSError, after a warning, for a folder that cannot be listed.
    """
    if os.path.isfile(root):
        if match_masks(os.path.basename(root), masks):
            yield os.path.abspath(root) if abspath else root
        return
    for folder, within, files in os.walk(root, onerror=_warn_and_raise):
        place = os.path.abspath(folder) if abspath else folder
        ordered = files if non_deterministic else sorted(files)
        yield from (os.path.join(place, name) for name in ordered if match_masks(name, masks))
        if not recursive:
            return
        if not non_deterministic:
            within.sort()  # `os.walk` goes into them in this order


def _warn_and_raise(error: OSError) -> NoReturn:
    warnings.warn(f"{error.filename} : {error.strerror}", stacklevel=2)
    raise error


def get_file_binaries_from_pathnames(
    pathnames: Iterable[str], mode: str, encoding: str | None = None
) -> Iterator[tuple[str, StreamWrapper]]:
    """Each path with its open file; TypeError for a path that is no str."""
    paths = pathnames if isinstance(pathnames, Iterable) else [pathnames]
    for path in paths:
        if not isinstance(path, str):
            raise TypeError(f"Expected string type for pathname, but got {type(path)}")
        opened = open(path, f"r{mode}" if mode in ("b", "t") else mode, encoding=encoding)
        yield path, StreamWrapper(opened)


def validate_pathname_binary_tuple(data: tuple[str, IOBase]) -> None:
    """TypeError unless it is a path and a stream."""
    if not isinstance(data, tuple):
        raise TypeError(f"pathname binary data should be tuple type, but it is type {type(data)}")
    if len(data) != 2:
        raise TypeError(f"pathname binary stream tuple length should be 2, but got {len(data)}")
    if not isinstance(data[0], str):
        raise TypeError(
            f"pathname within the tuple should have string type pathname, but it is type "
            f"{type(data[0])}"
        )
    if not isinstance(data[1], IOBase | StreamWrapper):
        raise TypeError(
            f"binary stream within the tuple should have IOBase or its subclasses as type, but it "
            f"is type {type(data[1])}"
        )


class StreamWrapper:
    """A stream that is closed when nobody holds it, and with the last of those made from it.

    A stream may be read from another, its parent, as a file of an archive is. After `autoclose` the
    parent is closed with its last child.
    """

    session_streams: ClassVar[dict[StreamWrapper, int]] = {}
    debug_unclosed_streams: ClassVar[bool] = False

    def __init__(
        self, file_obj: Any, parent_stream: StreamWrapper | None = None, name: str | None = None
    ) -> None:
        if parent_stream is not None and not isinstance(parent_stream, StreamWrapper):
            raise RuntimeError(
                f"Parent stream should be StreamWrapper, {type(parent_stream)} was given"
            )
        self.file_obj = file_obj
        self.child_counter = 0
        self.parent_stream = parent_stream
        self.close_on_last_child = False
        self.name = name
        self.closed = False
        if parent_stream is not None:
            parent_stream.child_counter += 1
        if StreamWrapper.debug_unclosed_streams:
            StreamWrapper.session_streams[self] = 1

    @classmethod
    def close_streams(cls, v: object, depth: int = 0) -> None:
        """Close the streams in a value and in its dicts, lists and tuples, ten levels deep."""
        if depth > 10:
            return
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, dict | list | tuple):
            for inner in v.values() if isinstance(v, dict) else v:
                cls.close_streams(inner, depth + 1)

    def close(self, *args: object, **kwargs: object) -> None:
        """Close the stream; again is harmless."""
        if self.closed:
            return
        if StreamWrapper.debug_unclosed_streams:
            StreamWrapper.session_streams.pop(self, None)
        parent = self.parent_stream
        if parent is not None:
            parent.child_counter -= 1
            if parent.close_on_last_child and not parent.child_counter:
                parent.close()
        if hasattr(self.file_obj, "close"):
            self.file_obj.close(*args, **kwargs)
        self.closed = True

    def autoclose(self) -> None:
        """Close the stream with the last stream made from it; at once if there is none."""
        self.close_on_last_child = True
        if self.child_counter == 0:
            self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["file_obj"], name)

    def __dir__(self) -> list[str]:
        return list({*super().__dir__(), *dir(self.file_obj)})

    def __del__(self) -> None:
        if "file_obj" in self.__dict__ and not self.closed:
            self.close()

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __repr__(self) -> str:
        name = "" if self.name is None else f"{self.name},"
        return f"StreamWrapper<{name}{self.file_obj!r}>"

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        return StreamWrapper, (self.file_obj,)
