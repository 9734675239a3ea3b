"""`torch.fx.experimental._config`: the settings of `maquette.symbolic`, by attribute or `patch`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from maquette.symbolic.config import Config, config


class _Settings(ModuleType):
    """The module; reading and writing a setting is reading and writing the one there is."""

    def __getattr__(self, name: str) -> object:
        if name in Config.__dataclass_fields__:
            return getattr(config, name)
        raise AttributeError(f"symbolic shapes have no setting {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if name in Config.__dataclass_fields__:
            setattr(config, name, value)
        else:
            super().__setattr__(name, value)


@contextmanager
def patch(name: str | None = None, value: object = None, **changes: object) -> Iterator[None]:
    """Change settings in the block."""
    if name is not None:
        changes[name] = value
    before = {key: getattr(config, key) for key in changes}
    for key, wanted in changes.items():
        setattr(config, key, wanted)
    try:
        yield
    finally:
        for key, former in before.items():
            setattr(config, key, former)


sys.modules[__name__].__class__ = _Settings
