"""Where classes say they are: under `install`, where PyTorch has them.

Programs ask: a tracer keeps what is ``m.__module__.startswith("torch.nn")`` as a call, and
``print(type(x))`` is to say ``<class 'torch.Tensor'>``. Pickles by reference find them there too,
since each of torch's paths is a name of the module that serves it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout, memory_format
from maquette.core.size import Size
from maquette.tensor.parameter import Buffer, Parameter
from maquette.tensor.tensor import Tensor

_HOMES: dict[type, str] = {
    **dict.fromkeys((Tensor, Size, device, dtype, layout, memory_format), "torch"),
    **dict.fromkeys((Parameter, Buffer), "torch.nn.parameter"),
}
_own: dict[type, str] = {}


def name_types() -> None:
    """Let the types that everybody meets say their places in torch, until `restore`."""
    for kind, home in _HOMES.items():
        _name(kind, home)


def name_classes(module: ModuleType, place: Callable[[str, str], str]) -> None:
    """Let the classes that a module defines say that they are where ``place`` says.

    place: gives torch's module by a class's own and its name.
    """
    own = module.__name__
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and value.__module__ == own:
            _name(value, place(own, name))


def _name(kind: type, home: str) -> None:
    _own.setdefault(kind, kind.__module__)
    kind.__module__ = home


def restore() -> None:
    """Let all classes say again where they are."""
    for kind, home in _own.items():
        kind.__module__ = home
    _own.clear()
