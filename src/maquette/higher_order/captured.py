"""What a function reaches besides its arguments: tensors of closures, defaults, modules, globals.

A higher-order operator sees the tensors that it is given. Those that its functions capture decide,
too, whether a call records, and they may not be mutated. They are found where Python keeps them;
a tensor that a function looks up in some other way stays unknown.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any

from maquette.core.pytree import keystr, tree_flatten_with_path
from maquette.tensor.tensor import Tensor
from maquette.transforms.wrappers import Wrapper

Function = Callable[..., Any]
_DEPTH = 6
_NOTHING_INSIDE = frozenset((ModuleType, NoneType, int, float, str, type))  # of global names


def captured_tensors(function: Any) -> dict[str, Tensor]:
    """The tensors that a function captures, by how the function calls them."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, t in _reached("", function, seen, _DEPTH):
        found.setdefault(name, t)
    return found


def _reached(name: str, value: Any, seen: set[int], depth: int) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
        return
    if depth == 0 or id(value) in seen:
        return
    seen.add(id(value))
    for inner, member in members_of(value):
        joined = inner if not name or isinstance(value, FunctionType) else f"{name}{inner}"
        yield from _reached(joined, member, seen, depth - 1)


def members_of(value: Any) -> Iterator[tuple[str, Any]]:
    """What a function, a partial, a method, a module or a container reaches, by its name there."""
    if isinstance(value, FunctionType):
        yield from _of_function(value)
    elif isinstance(value, MethodType):
        owner = value.__self__
        yield "self", owner
        if not hasattr(owner, "named_parameters"):
            yield from ((f"self.{k}", v) for k, v in getattr(owner, "__dict__", {}).items())
        yield "", value.__func__
    elif isinstance(value, functools.partial):
        yield "", value.func
        yield from ((f"[{i}]", a) for i, a in enumerate(value.args))
        yield from ((f"[{k!r}]", a) for k, a in value.keywords.items())
    elif isinstance(getattr(type(value), "__wrapped__", None), property):
        yield "", value.__wrapped__
    elif hasattr(value, "named_parameters"):
        yield from ((f".{n}", p) for n, p in value.named_parameters())
        yield from ((f".{n}", b) for n, b in value.named_buffers())
    elif isinstance(value, (list, tuple)) and len(value) <= 64:
        yield from ((f"[{i}]", a) for i, a in enumerate(value))
    elif isinstance(value, dict) and len(value) <= 64:
        yield from ((f"[{k!r}]", a) for k, a in value.items())


def _of_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield "a default", value
    known = function.__globals__
    for name in global_names(code):
        value = known.get(name)
        if value.__class__ in _NOTHING_INSIDE:
            continue
        if isinstance(value, (Tensor, FunctionType)) or hasattr(value, "named_parameters"):
            yield name, value
        elif hasattr(value, "param_groups"):  # an optimizer
            yield name, value


@functools.lru_cache(4096)
def global_names(code: CodeType) -> tuple[str, ...]:
    """The names that a function's code, and the functions in it, look up among globals."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(global_names(constant))
    return tuple(sorted(names))


# --- mutation and aliases -------------------------------------------------------------


def pure(op: str, role: str, function: Function, *, aliases: bool = False) -> Function:
    """A function of tensors that refuses, at its first call, to mutate or give back its own.

    aliases: whether results may share memory with operands and each other.

    RuntimeError that names the operator, the function by its role, and the tensor by its path.
    """
    done = False

    def run(*operands: Any) -> Any:
        nonlocal done
        if done:
            return function(*operands)
        done = True
        watched = _Watched(f"{op}: {role}", function, operands)
        result = function(*operands)
        watched.check_versions()
        if not aliases:
            watched.check_aliases(result)
        return result

    return run


class _Watched:
    """The tensors that a call of a function may read, with their versions before it."""

    def __init__(self, who: str, function: Function, operands: tuple[Any, ...]) -> None:
        self.who = who
        leaves = tree_flatten_with_path(operands)[0]
        self.tensors = {f"operand {keystr(p)}": t for p, t in leaves if isinstance(t, Tensor)}
        for name, t in captured_tensors(function).items():
            self.tensors.setdefault(f"the captured tensor {name}", t)
        self.versions = {name: _version(t) for name, t in self.tensors.items()}

    def check_versions(self) -> None:
        for name, t in self.tensors.items():
            if _mutated(t, self.versions[name]):
                raise RuntimeError(
                    f"Encountered input mutation during higher order op tracing: {self.who} "
                    f"mutates {name} ({t.meta}). Higher order ops do not support input mutation; "
                    f"mutate a clone, or return the new value."
                )

    def check_aliases(self, result: Any) -> None:
        known = {t._storage: name for name, t in self.tensors.items() if t._storage.nbytes()}
        for path, t in tree_flatten_with_path(result)[0]:
            if not isinstance(t, Tensor) or not t._storage.nbytes():
                continue
            where = f"leaf {keystr(path) or 'itself'} of its result"
            other = known.get(t._storage)
            if other is not None:
                raise RuntimeError(
                    f"Encountered aliasing during higher order op tracing: {self.who}: {where} "
                    f"shares memory with {other}. Higher order ops do not support aliasing; return "
                    f"a clone."
                )
            known[t._storage] = where


_Version = tuple[int, Tensor | None, Any]


def _version(t: Tensor) -> _Version:
    """The version of a tensor, its value in a transform, and the version of that."""
    value = t._value if isinstance(t, Wrapper) else None
    return _counted(t), value, None if value is None else _version(value)


def _mutated(t: Tensor, before: _Version) -> bool:
    """Whether a tensor was mutated since; its value may be another by now, brought up to date."""
    count, value, inner = before
    if _counted(t) != count:
        return True
    same = isinstance(t, Wrapper) and t._value is value
    return same and value is not None and _mutated(value, inner)


def _counted(t: Tensor) -> int:
    try:
        return t._version
    except RuntimeError:  # an inference tensor has none
        return 0


__all__ = ["captured_tensors", "members_of", "pure"]
