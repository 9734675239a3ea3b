"""`torch._jit_internal`: what PyTorch's script compiler knows of functions and annotations.

There is no script compiler, so marks leave functions as they are; questions about annotations are
answered.
"""

from __future__ import annotations

import collections.abc
import functools
import types
import typing
from collections.abc import Callable
from typing import Any

from maquette.torch.jit import (
    _overload,
    _overload_method,
    export,
    ignore,
    is_scripting,
    is_tracing,
    unused,
)

Final = typing.Final
Function = Callable[..., Any]


class BroadcastingListCls:
    """``BroadcastingList2[int]``: a list of a length, or one number for all."""

    def __getitem__(self, types: object) -> None:
        return None


BroadcastingList1 = BroadcastingListCls()
BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = BroadcastingListCls()
BroadcastingList5 = BroadcastingList6 = BroadcastingListCls()


class FunctionModifiers:
    """What a function may be marked as, for a script compiler."""

    UNUSED = "unused (ignored and replaced with raising of an exception)"
    IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
    EXPORT = "export (compile this function even if nothing calls it)"
    DEFAULT = "default (compile if called from a exported function / forward)"
    COPY_TO_SCRIPT_WRAPPER = "if this method is not scripted, copy the python method"
    _DROP = "_drop (function is fully ignored, declaration can be unscriptable)"


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Function,
    if_false: Function,
    module_name: str,
    func_name: str,
) -> Function:
    """A function that calls one of two, as the bool at ``arg_index``, or by name, says."""

    @functools.wraps(if_false)
    def fn(*args: Any, **kwargs: Any) -> Any:
        chosen = args[arg_index] if arg_index < len(args) else kwargs.get(arg_name, default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    fn.__name__, fn.__module__ = func_name, module_name
    return fn


def _unchanged(fn: Function) -> Function:
    return fn


_copy_to_script_wrapper = _drop = _unchanged


def get_torchscript_modifier(fn: object) -> str:
    """The default: nothing is marked."""
    return FunctionModifiers.DEFAULT


def is_ignored_fn(fn: object) -> bool:
    """False: nothing is marked."""
    return False


should_drop = module_has_exports = is_ignored_fn


def _is_origin(ann: object, *kinds: object) -> bool:
    return typing.get_origin(ann) in kinds


def is_tuple(ann: object) -> bool:
    """Whether an annotation is one of tuples."""
    return _is_origin(ann, tuple)


def is_list(ann: object) -> bool:
    """Whether an annotation is one of lists."""
    return _is_origin(ann, list)


def is_dict(ann: object) -> bool:
    """Whether an annotation is one of dictionaries."""
    return _is_origin(ann, dict)


def is_union(ann: object) -> bool:
    """Whether an annotation is of one type or another."""
    return _is_origin(ann, typing.Union, types.UnionType)


def is_optional(ann: object) -> bool:
    """Whether an annotation is of one type or None."""
    parts = typing.get_args(ann)
    return is_union(ann) and len(parts) == 2 and type(None) in parts


def is_final(ann: object) -> bool:
    """Whether an annotation is `Final`."""
    return ann is typing.Final or _is_origin(ann, typing.Final)


def is_future(ann: object) -> bool:
    """False: there are no futures."""
    return False


is_await = is_rref = is_rref_instance = is_future


def _qualified_name(obj: Any, mangle_name: bool = True) -> str:
    """A name of a class or function for a compiler, beginning with ``__torch__``."""
    if hasattr(obj, "_jit_override_qualname"):
        return str(obj._jit_override_qualname)
    module = str(obj.__module__)
    module = "__torch__" if module == "torch._classes" else f"__torch__.{module}"
    return f"{module}.{obj.__qualname__}"


def get_callable_argument_names(fn: Function) -> list[str]:
    """The names of a function's positional arguments."""
    code = getattr(fn, "__code__", None)
    return [] if code is None else list(code.co_varnames[: code.co_argcount])


def can_compile_class(cls: type) -> bool:
    """False: there is no compiler."""
    return False


def createResolutionCallbackFromClosure(fn: Function) -> Callable[[str], object]:  # PyTorch's name
    """What a name means within a function: of its closure or its module."""
    names = dict(getattr(fn, "__globals__", {}))
    code, cells = getattr(fn, "__code__", None), getattr(fn, "__closure__", None)
    if code is not None and cells:
        known = zip(code.co_freevars, cells, strict=True)
        names |= {name: cell.cell_contents for name, cell in known}
    return names.get


def _isinstance(obj: object, target_type: Any) -> bool:
    """`isinstance`, for annotations with parts too: ``list[int]``, ``int | None``."""
    origin, parts = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return isinstance(obj, target_type)
    if is_union(target_type):
        return any(_isinstance(obj, part) for part in parts)
    if not isinstance(obj, origin):
        return False
    if isinstance(obj, tuple):
        return len(obj) == len(parts) and all(map(_isinstance, obj, parts))
    if isinstance(obj, collections.abc.Mapping):
        return all(_isinstance(k, parts[0]) and _isinstance(v, parts[1]) for k, v in obj.items())
    return all(_isinstance(item, parts[0]) for item in typing.cast("list[object]", obj))


__all__ = [
    "FunctionModifiers",
    "_isinstance",
    "_overload",
    "_overload_method",
    "boolean_dispatch",
    "export",
    "ignore",
    "is_scripting",
    "is_tracing",
    "unused",
]
