"""Names: of nodes, unique in their graph, and of functions, as programs write them.

A node's name is the variable that holds its result in the generated code, so it must be an
identifier that is neither a keyword nor a name the code uses otherwise.
"""

from __future__ import annotations

import builtins
import functools
import keyword
import math
import re
import types
import typing
from collections.abc import Callable

from maquette.api.function_homes import function_home, own_module
from maquette.tensor.tensor import Tensor

_NUMBERED = re.compile(r"(.*)_(\d+)$")
_ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
_KEYWORDS = frozenset(keyword.kwlist)
_BUILTINS = frozenset(name for name in dir(builtins) if not name.startswith("_"))
# What generated code calls by these names: see `codegen.BUILTINS`.
RESERVED = frozenset(("inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"))


class Namespace:
    """Gives out names that are used once: ``add``, ``add_1``, ``add_2``."""

    def __init__(self) -> None:
        self._named: dict[int, str] = {}  # by the id of the object that a name is for
        self._kept: list[object] = []  # so that an id stays the object's
        self._used: set[str] = set()
        self._last: dict[str, int] = {}  # the last number given after a name

    def create_name(self, candidate: str, obj: object | None) -> str:
        """A free name like ``candidate``; for an object that has one already, that one."""
        if obj is not None:
            known = self._named.get(id(obj))
            if known is not None:
                return known
        elif candidate in self._last and candidate in self._used and not candidate[-1].isdigit():
            # Given before, as most names of a trace are: what follows would come to the same.
            number = self._last[candidate] + 1
            name = f"{candidate}_{number}"
            if name in self._used:
                return self._numbered(candidate)
            self._last[candidate] = number
            self._used.add(name)
            return name
        name = self._free(_cleaned(candidate), obj)
        self._used.add(name)
        if obj is not None:
            self._named[id(obj)] = name
            self._kept.append(obj)
        return name

    def _free(self, name: str, obj: object | None) -> str:
        if name not in self._used and not is_illegal(name, obj):
            return name
        numbered = _NUMBERED.match(name) if name[-1].isdigit() else None
        base = name if numbered is None else numbered[1]
        return self._numbered(base, 0 if numbered is None else int(numbered[2]))

    def _numbered(self, base: str, least: int = 0) -> str:
        """The next free name with a number after ``base``, larger than ``least``; used now."""
        number = max(self._last.get(base, 0), least)
        while True:
            number += 1
            name = f"{base}_{number}"
            if name not in self._used:
                self._last[base] = number
                self._used.add(name)
                return name

    def associate_name_with_obj(self, name: str, obj: object) -> None:
        """Say whose name a used one is, where it was made without an object."""
        if self._named.setdefault(id(obj), name) is not name:
            raise AssertionError(f"{obj!r} has the name {self._named[id(obj)]} already")
        self._kept.append(obj)

    def rename(self, obj: object, name: str) -> None:
        """Give an object another name, which must be free."""
        assert name not in self._used
        if id(obj) not in self._named:
            self._kept.append(obj)
        self._named[id(obj)] = name
        self._used.add(name)

    def copy(self) -> Namespace:
        """A namespace with the same names taken, by no object."""
        new = Namespace()
        new._used |= self._used
        new._last |= self._last
        return new

    @property
    def _used_names(self) -> set[str]:
        return self._used


@functools.lru_cache(4096)  # 1.5 us each, and graphs ask for the same ones
def _cleaned(candidate: str) -> str:
    """The identifier that a candidate becomes."""
    cleaned = _ILLEGAL.sub("_", candidate) or "_unnamed"
    return f"_{cleaned}" if cleaned[0].isdigit() else cleaned


def is_illegal(name: str, obj: object | None) -> bool:
    """Whether generated code means something else by a name than ``obj``."""
    if name in _KEYWORDS:
        return True
    if name in _BUILTINS:
        return obj is not getattr(builtins, name)
    return name in RESERVED and not (
        isinstance(obj, types.ModuleType | type) or obj in (math.inf, math.nan)
    )


# --- names of functions and classes ----------------------------------------------------------

_ROOT = "maquette"
_AT_TOP = ("maquette.api", "maquette.core", "maquette.tensor", "maquette.autograd.grad_mode")


def public_module(module: str) -> str:
    """The name by which programs know a module of ours: ``torch.nn.functional``."""
    head, _, rest = module.partition(".")
    if head != _ROOT:
        return module
    if module.startswith("maquette.nn.functional"):
        return "torch.nn.functional"
    if module == "maquette.symbolic.checks":  # only its arithmetic, `sym_max`, is called in graphs
        return "torch"
    if module == "maquette.tensor.parameter":
        return "torch.nn.parameter"
    if not rest or module.startswith(_AT_TOP):
        return "torch"
    return rest if rest == "torch" or rest.startswith("torch.") else f"torch.{rest}"


def qualified_name(function: Callable[..., object]) -> str:
    """How generated code writes a function: ``torch.relu``, ``_operator.abs``.

    Raises RuntimeError for a function that no module has under its name.
    """
    name = function.__name__
    if getattr(builtins, name, None) is function:
        return name
    if isinstance(function, types.MethodDescriptorType | types.WrapperDescriptorType):
        return f"{class_name(function.__objclass__)}.{name}"
    if getattr(Tensor, name, None) is function:
        return f"torch.Tensor.{name}"
    module = own_module(function) or None
    if module == "maquette":  # the function of an operator
        return f"{function_home(name) or 'torch._VF'}.{name}"
    if module is None or name == "<lambda>":
        raise RuntimeError(f"cannot write {function!r} in generated code: no module has it by name")
    return f"{public_module(module)}.{name}"


def class_name(cls: type) -> str:
    """How generated code writes a class: ``torch.Tensor``, ``int``."""
    if cls.__module__ == "builtins":
        return cls.__qualname__
    return f"{public_module(cls.__module__)}.{cls.__qualname__}"


def type_text(value: object) -> str:
    """How a type annotation is written: ``torch.Tensor``, ``typing.List[int]``."""
    if isinstance(value, type) and not typing.get_args(value):
        return class_name(value)
    if value is ...:
        return "..."
    if isinstance(value, types.FunctionType):
        return value.__name__
    return repr(value).replace("maquette.tensor.tensor.", "torch.")
