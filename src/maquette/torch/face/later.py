"""What PyTorch has and maquette does not yet: names that say so, and what to do, when called.

The names exist so that programs can import them and guard their use; a call raises
NotImplementedError. Not here: single operators, whose absence `aten/catalogue.py` explains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn, cast

from maquette.dispatch.torch_function import is_overridden, offered


def later(name: str, advice: str) -> Callable[..., NoReturn]:
    """A function that raises NotImplementedError: it names itself and gives the advice.

    A class or mode with a ``__torch_function__`` may answer for it, as for any function of torch's.
    """

    def missing(*args: object, **kwargs: object) -> object:
        if is_overridden(args, kwargs):
            return offered(missing, args, kwargs)
        raise NotImplementedError(f"{name} is not supported by maquette yet: {advice}")

    missing.__name__ = missing.__qualname__ = name.rpartition(".")[2]
    missing.__doc__ = f"Not there yet: raises NotImplementedError. {advice}"
    return cast(Callable[..., NoReturn], missing)


def functions_for_later(place: str, names: Mapping[str, str]) -> dict[str, Callable[..., NoReturn]]:
    """`later` of each name of the module ``place``, with its advice, by name."""
    return {name: later(f"{place}.{name}", advice) for name, advice in names.items()}
