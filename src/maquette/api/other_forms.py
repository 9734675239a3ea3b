"""Calls in forms that no schema says and PyTorch still takes.

They are looked at when a call fits no overload, so calls that do cost nothing: numbers given as
tensors without dimensions (``ones(tensor(3))``, ``cumsum(x, tensor(0))``) or as NumPy's scalars,
the old order of ``add(a, 2, b)``, an accelerator by its number (``device=0``), ``dtype`` or
``device`` beside ``out``, None for no dimensions.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.fitting import plain
from maquette.dispatch.operator import OpOverload
from maquette.tensor.tensor import Tensor

Call = tuple[tuple[object, ...], dict[str, object]]

# Functions whose factors once stood before the tensors that they belong to: the factors' names, and
# how many tensors come last.
_OLD_ORDER: dict[str, tuple[tuple[str, ...], int]] = {
    **dict.fromkeys(("add", "sub"), (("alpha",), 1)),
    **dict.fromkeys(("addcmul", "addcdiv"), (("value",), 2)),
    **dict.fromkeys(
        ("addmm", "addbmm", "baddbmm", "addmv", "addr", "sspaddmm"), (("beta", "alpha"), 2)
    ),
}
_OPTIONS = ("dtype", "device", "layout")


def other_forms(
    name: str,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    overloads: Sequence[OpOverload],
) -> Iterator[Call]:
    """The call in other forms, each to be tried; ``args`` begin with the tensor itself if any.

    Raises RuntimeError where ``out`` contradicts the dtype or device that is given.
    """
    if any(isinstance(value, np.generic) for value in (*args, *kwargs.values())):
        args, kwargs = tuple(map(plain, args)), {key: plain(kwargs[key]) for key in kwargs}
        yield args, kwargs
    place = kwargs.get("device")
    if isinstance(place, int) and not isinstance(place, bool):
        kwargs = {**kwargs, "device": Device(place)}
        yield args, kwargs
    old = _in_new_order(name.removesuffix("_"), args, kwargs)
    if old is not None:
        named = " and ".join(f"{factor}=" for factor in old[1] if factor not in kwargs)
        warnings.warn(
            f"This overload of {name} is deprecated: give {named} by keyword, after the tensors",
            UserWarning,
            stacklevel=4,
        )
        yield old
    out = kwargs.get("out")
    if isinstance(out, Tensor) and any(option in kwargs for option in _OPTIONS):
        _check_options(out, kwargs)
        yield args, {key: value for key, value in kwargs.items() if key not in _OPTIONS}
    if any(value is None for value in (*args, *kwargs.values())):
        yield from _with_no_dims(args, kwargs, overloads)
    yield from _with_numbers(args, kwargs, overloads)


def _with_no_dims(
    args: tuple[object, ...], kwargs: dict[str, object], overloads: Sequence[OpOverload]
) -> Iterator[Call]:
    """``amax(x, None)``, ``roll(x, 1, None)``: None for a list of none, where that is the default.

    For no other parameter is None the default: ``uniform_(0, None)`` is refused.
    """
    for overload in overloads:
        arguments = overload._schema.arguments
        lists = {a.name for a in arguments if a.type.is_list and a.default == ()}
        places = [a.name in lists for a in arguments[: len(args)]]
        given = tuple(
            () if value is None and at < len(places) and places[at] else value
            for at, value in enumerate(args)
        )
        named = {k: () if v is None and k in lists else v for k, v in kwargs.items()}
        if (given, named) != (args, kwargs):
            yield given, named


def _in_new_order(name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> Call | None:
    """The call with its factors by keyword; None if they are not in the old order."""
    factors, last = _OLD_ORDER.get(name, ((), 0))
    tensors = tuple(a for a in args if isinstance(a, Tensor))
    numbers = [a for a in args if isinstance(a, int | float | complex)]
    kinds = "".join("t" if isinstance(a, Tensor) else "n" for a in args)
    if len(tensors) != last + 1 or len(tensors) + len(numbers) != len(args):
        return None
    orders = {f"t{'n' * len(numbers)}{'t' * last}"}
    if len(factors) == 2:  # of a function the first stands before the tensor
        orders.add(f"nt{'n' * (len(numbers) - 1)}{'t' * last}")
    if kinds not in orders or not 0 < len(numbers) <= len(factors):
        return None
    if any(factor in kwargs for factor in factors):
        return None
    return tensors, {**kwargs, **dict(zip(factors, numbers))}


def _check_options(out: Tensor, kwargs: dict[str, object]) -> None:
    dtype, device = kwargs.get("dtype"), kwargs.get("device")
    if isinstance(dtype, DType) and dtype is not out.dtype:
        names = dtype.scalar_name, out.dtype.scalar_name
        raise RuntimeError("dtype {} does not match dtype of out parameter ({})".format(*names))
    layout = kwargs.get("layout")
    if layout is not None and layout is not out.layout:
        raise RuntimeError(f"layout {layout} does not match layout of out parameter ({out.layout})")
    if device is not None and Device(str(device)).type != out.device.type:
        raise RuntimeError(f"device {device} does not match device of out parameter ({out.device})")


def _with_numbers(
    args: tuple[object, ...], kwargs: dict[str, object], overloads: Sequence[OpOverload]
) -> Iterator[Call]:
    """Tensors of one element as numbers: those by keyword, then, from the last, by position."""
    changed = {
        key: value if key == "out" else _number(value, _kinds(overloads, key))
        for key, value in kwargs.items()
    }
    if any(changed[key] is not kwargs[key] for key in kwargs):
        yield args, changed
    made = list(args)
    for place in reversed(range(len(args))):
        number = _number(args[place], _kinds(overloads, place))
        if number is not args[place]:
            made[place] = number
            yield tuple(made), changed


def _kinds(overloads: Sequence[OpOverload], place: int | str) -> set[str]:
    """The kinds of type that overloads take at a position or, by name, as a keyword."""
    arguments = [o._schema.arguments for o in overloads]
    if isinstance(place, int):
        return {a[place].type.base.kind for a in arguments if place < len(a)}
    return {a.type.base.kind for listed in arguments for a in listed if a.name == place}


def _number(value: object, kinds: set[str]) -> object:
    """The number that a tensor holds, where one of ``kinds`` may be it: a fake's is unknown."""
    if not isinstance(value, Tensor) or value.meta.shape or value.requires_grad:
        return value
    wanted = _FRACTIONS if value.is_floating_point() or value.is_complex() else _NUMBERS
    return value.item() if kinds & wanted else value


_FRACTIONS = {"float", "symfloat", "complex", "scalar"}
_NUMBERS = _FRACTIONS | {"int", "symint", "bool", "symbool"}
