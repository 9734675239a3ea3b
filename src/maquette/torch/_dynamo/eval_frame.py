"""`torch._dynamo.eval_frame`: the class of modules that went through `torch.compile`.

Nothing is compiled: such a module runs the module it was made of, which it has as ``_orig_mod``.
Programs reach for that, and names in its state dict begin with it.
"""

from __future__ import annotations

from typing import Any

from maquette.nn.base import Module
from maquette.torch._dynamo.marks import is_dynamo_supported

_OWN = frozenset(("_orig_mod", "forward", "__dict__"))


class OptimizedModule(Module):
    """What `torch.compile` makes of a module: calls it, and has its attributes.

    Attributes that are set are set there, too, but for hooks, which are of this module alone.
    """

    _mq_asks_for_members = False
    _orig_mod: Module

    def __init__(self, mod: Module, dynamo_ctx: object = None) -> None:
        super().__init__()
        super().__setattr__("_orig_mod", mod)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self._orig_mod(*args, **kwargs)

    @property
    def training(self) -> bool:  # type: ignore[override]  # an attribute of other modules
        """Whether the module trains."""
        return self._orig_mod.training

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":  # while a copy or a pickle is being made
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or name.startswith("_mq_"):
            super().__setattr__(name, value)
        elif "_orig_mod" in self._modules:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN or name.startswith("_mq_"):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


__all__ = ["OptimizedModule", "is_dynamo_supported"]
