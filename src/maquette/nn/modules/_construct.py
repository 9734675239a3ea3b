"""What layer constructors share: parameters to be filled, sizes per dimension, printed forms."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.core.device import device as device_
from maquette.core.dtype import dtype as dtype_
from maquette.nn.base import Module
from maquette.nn.parameter import Parameter

Sizes = int | Sequence[int]
DeviceLike = device_ | str | int


def add_parameter(
    module: Module,
    name: str,
    shape: Sizes,
    device: DeviceLike | None,
    dtype: dtype_ | None,
    *,
    wanted: bool = True,
) -> None:
    """Register an uninitialized parameter; unless it is wanted, None in its place.

    The place matters: `state_dict`, loading and printing know that the layer could have one.
    """
    parameter = Parameter(mq.empty(shape, device=device, dtype=dtype)) if wanted else None
    module.register_parameter(name, parameter)


def repeated(value: Sizes, count: int) -> tuple[int, ...]:
    """`count` sizes: one number for all, NumPy's too, or a sequence as it is."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * count


def described(module: Module, *names: str) -> str:
    """`name=value` for each of these attributes."""
    return ", ".join(f"{name}={getattr(module, name)}" for name in names)


def factory_kwargs(kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Of a layer's keyword arguments, what goes to factories: device, dtype, memory_format.

    ``factory_kwargs`` among them says so for sure, where a layer has an argument of such a name.
    TypeError for others, or for one that is said twice.
    """
    given = dict(kwargs or {})
    found = dict(given.pop("factory_kwargs", {}))
    unknown = given.keys() - {"device", "dtype", "memory_format"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    for name, value in given.items():
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = value
    return found
