"""Compare the surface of torch's public modules with PyTorch's: names, parameters, defaults, bases.

    .venv-peer/bin/python tools/public_surface.py [KIND ...]

Needs both in one environment (`make peer` makes it). Each side is described in a process of its
own, maquette's with `maquette.torch.install()`. What differs is printed by kind:

default     of a parameter that both have
parameters  their names and kinds; none are wanted where PyTorch tells ``(*args, **kwargs)``
more        parameters by keyword alone that PyTorch has not, defaults where it has none
base        a base class, by name
member      of a class: not there
absent      a name of an ``__all__``: not there
missing     a name that a module defines and does not list: not there
untold      a name of an ``__all__`` that `dir` does not tell
refused     a name that says when it is called that it is not supported
module      it cannot be imported

What several modules have is told once, for the module that defines it, if they have the same; what
a class inherits, for the class that defines it.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

Facts = dict[str, Any]
Difference = tuple[str, str, str]
"""Its kind, the name that differs, and how."""

# Modules that start programs, read command lines, or are no part of what programs call.
_LEFT_OUT = (
    "torch.testing._internal", "torch._", "torch.ao", "torch.utils.bottleneck",
    "torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic",
)  # fmt: skip
# Bases that only PyTorch's own making of classes shows.
_UNSEEN_BASES = ("pybind11_object", "Generic", "ABC")


# --- one side --------------------------------------------------------------------------------


def public_modules(package: Any) -> Iterator[str]:
    """The paths of a package's public modules that can be imported, its own first."""
    yield package.__name__
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        name = found.name
        if name.rpartition(".")[2].startswith("_") or name.startswith(_LEFT_OUT):
            continue
        try:
            module = importlib.import_module(name)
        except Exception:  # noqa: BLE001  # it needs what is not installed
            continue
        if found.ispkg and "__path__" in vars(module):
            yield from public_modules(module)
        else:
            yield name


def value_text(value: object) -> str:
    """A default as both sides print it: by value, else by the name of its kind."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, str | int | float | bytes | None) or type(value).__module__ == "torch":
        return repr(value)
    if isinstance(value, tuple | list):
        return f"({', '.join(map(value_text, value))})"
    name = getattr(value, "__name__", None)
    return name if isinstance(name, str) else f"<{type(value).__name__}>"


def parameters(function: object) -> list[list[Any]] | None:
    """Name, kind and default of each parameter; None where they cannot be told."""
    try:
        told = inspect.signature(function)  # type: ignore[arg-type]  # asked of whatever is there
    except (TypeError, ValueError):
        return None
    empty = inspect.Parameter.empty
    return [
        [p.name, int(p.kind), "" if p.default is empty else value_text(p.default)]
        for p in told.parameters.values()
    ]


def described(value: object) -> Facts:
    """What is compared of a class, function or constant."""
    facts: Facts = {
        "parameters": parameters(value) if callable(value) else None,
        "home": str(getattr(value, "__module__", None)),
        "refused": refuses(value),
    }
    if isinstance(value, type):
        facts["bases"] = [kind.__name__ for kind in value.__mro__]
        names = [n for n in dir(value) if not n.startswith("_")]
        members = {name: getattr(value, name, None) for name in names}
        facts["members"] = dict.fromkeys(_attributes(value)) | {
            name: parameters(member) if inspect.isroutine(member) else None
            for name, member in members.items()
        }
        facts["refusing"] = [name for name, member in members.items() if refuses(member)]
        # A type of tensors, ``torch.FloatTensor``, has what `Tensor` has, which is compared there.
        alias = type(value).__name__.lower() in ("tensortype", "sparsetensortype")
        facts["own"] = [] if alias else [name for name in names if name in vars(value)]
    return facts


def _attributes(kind: type) -> Iterator[str]:
    """The names that instances have beside those of their class, as far as these can be told."""
    for base in kind.__mro__:
        yield from getattr(base, "__annotations__", ())
        made = getattr(vars(base).get("__init__"), "__code__", None)
        yield from made.co_names if made is not None else ()
        slots = vars(base).get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots
    if issubclass(kind, enum.Enum):
        yield from ("name", "value")


def refuses(value: object) -> bool:
    """Whether it is one of maquette's stand-ins: calling it says what is not supported."""
    return type(value).__name__ == "Absent" or _STAND_IN.match(str(value.__doc__)) is not None


_STAND_IN = re.compile("Not there yet:|.* is not supported by maquette")


def surface(modules: Mapping[str, Iterable[str]]) -> dict[str, Facts]:
    """By module: what `dir` tells, ``__all__``, and each public name described.

    modules: by path, names that are described besides: those that the other side has.
    """
    found: dict[str, Facts] = {}
    for path in modules:
        try:
            module = importlib.import_module(path)
        except Exception as error:  # noqa: BLE001  # it is the answer
            found[path] = {"error": str(error)}
            continue
        told = [name for name in dir(module) if not name.startswith("_")]
        listed = [n for n in getattr(module, "__all__", ()) if not n.startswith("_")]
        values = {name: _found(module, name) for name in {*told, *listed, *modules[path]}}
        names = {
            n: described(v)
            for n, v in values.items()
            if v is not None and not isinstance(v, ModuleType | TypeVar)
        }
        found[path] = {"told": told, "listed": [n for n in listed if n in values], "names": names}
    return found


def _found(module: Any, name: str) -> object:
    try:
        found: object = getattr(module, name)
    except Exception:  # noqa: BLE001  # a device that is not there
        return None
    return found


# --- both ------------------------------------------------------------------------------------


def differences(theirs: Mapping[str, Facts], ours: Mapping[str, Facts]) -> Iterator[Difference]:
    """What differs, name by name, in the order of their modules."""
    for path, module in theirs.items():
        if "error" in module:
            continue
        here = ours[path]
        if "error" in here:
            yield "module", path, here["error"]
            continue
        for name in module["listed"]:
            if name in module["names"] and name not in here["names"]:
                yield "absent", f"{path}.{name}", ""
            elif name in module["names"] and name not in here["told"]:
                if not here["names"][name]["refused"]:  # such names are told of by their errors
                    yield "untold", f"{path}.{name}", ""
        for name, facts in module["names"].items():
            own = name in module["listed"] or facts["home"] == path  # others import it
            if own and name in here["names"]:
                if not _told_at_home(path, name, theirs, ours):
                    yield from _of_name(f"{path}.{name}", facts, here["names"][name])
            elif own and name not in module["listed"]:
                yield "missing", f"{path}.{name}", ""


def _told_at_home(
    path: str, name: str, theirs: Mapping[str, Facts], ours: Mapping[str, Facts]
) -> bool:
    """Whether both sides have the same under this name in the module that defines it."""
    home = theirs[path]["names"][name]["home"]
    if home == path or any("names" not in side.get(home, {}) for side in (theirs, ours)):
        return False
    return all(
        side[home]["names"].get(name) == side[path]["names"][name] for side in (theirs, ours)
    )


def _of_name(name: str, theirs: Facts, ours: Facts) -> Iterator[Difference]:
    if ours["refused"]:
        yield "refused", name, ""
        return
    yield from _of_parameters(name, theirs["parameters"], ours["parameters"])
    if "bases" not in theirs or "bases" not in ours:
        return
    lacking = [
        base
        for base in theirs["bases"]
        if base not in ours["bases"] and base not in _UNSEEN_BASES and not base.startswith("_")
    ]
    if lacking:
        yield "base", name, ", ".join(lacking)
    for member in theirs["own"]:
        told = theirs["members"][member]
        if member in ours["refusing"]:
            yield "refused", f"{name}.{member}", ""
        elif member in ours["members"]:
            yield from _of_parameters(f"{name}.{member}", told, ours["members"][member])
        else:
            yield "member", f"{name}.{member}", ""


def _of_parameters(
    name: str, theirs: list[list[Any]] | None, ours: list[list[Any]] | None
) -> Iterator[Difference]:
    if theirs is None or ours is None:
        return
    by_name = {p[0]: p[2] for p in ours}
    for parameter, _, default in theirs:
        if parameter in by_name and by_name[parameter] != default:
            kind = "default" if default else "more"  # what is needed there has a default here
            yield kind, f"{name}({parameter})", f"{default} there, {by_name[parameter]} here"
    if [p[:2] for p in theirs] == [p[:2] for p in ours] or _says_nothing(theirs):
        return
    there, here = ([p[0] for p in side] for side in (theirs, ours))
    more = [p for p in ours if p[1] == _KEYWORD_ONLY and p[2] and p[0] not in there]
    rest = [p[:2] for p in ours if p not in more]
    kind = "more" if rest == [p[:2] for p in theirs] else "parameters"
    yield kind, name, f"({', '.join(there)}) there, ({', '.join(here)}) here"


_KEYWORD_ONLY = int(inspect.Parameter.KEYWORD_ONLY)


def _says_nothing(told: list[list[Any]]) -> bool:
    """Whether a signature is ``(*args, **kwargs)``, with or without ``self``."""
    return [p[1] for p in told if p[0] != "self"] == [
        int(inspect.Parameter.VAR_POSITIONAL),
        int(inspect.Parameter.VAR_KEYWORD),
    ]


def _describe_side(side: str, folder: Path) -> None:
    warnings.simplefilter("ignore")
    if side == "torch":
        torch = importlib.import_module("torch")
        found = surface(dict.fromkeys(public_modules(torch), ()))
    else:
        importlib.import_module("maquette.torch").install()
        theirs = json.loads((folder / "torch").read_text())
        found = surface({path: module.get("names", ()) for path, module in theirs.items()})
    (folder / side).write_text(json.dumps(found))


def main(kinds: Sequence[str]) -> int:
    """Print the differences of these kinds, or all; how many of each."""
    with tempfile.TemporaryDirectory() as folder:
        for side in ("torch", "maquette"):
            command = [sys.executable, __file__, "--side", side, folder]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        theirs, ours = (json.loads((Path(folder) / s).read_text()) for s in ("torch", "maquette"))
    counts: dict[str, int] = {}
    for kind, name, how in dict.fromkeys(differences(theirs, ours)):
        counts[kind] = counts.get(kind, 0) + 1
        if not kinds or kind in kinds:
            print(f"{kind:10} {name}  {how}")
    print(", ".join(f"{kind}: {count}" for kind, count in counts.items()))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        _describe_side(sys.argv[2], Path(sys.argv[3]))
    else:
        raise SystemExit(main(sys.argv[1:]))
