"""Modules of settings some of which are attributes of `maquette.fake.config` under other names."""

from __future__ import annotations

from types import ModuleType

from maquette.fake.config import config


class SettingsOfFakes(ModuleType):
    """A module whose ``FAKES`` says which of its settings are those of fakes, and their names.

    Reading or writing one is reading or writing the attribute of `config`.
    """

    FAKES: dict[str, str]

    def __getattr__(self, name: str) -> object:
        if name in self.FAKES:
            return getattr(config, self.FAKES[name])
        raise AttributeError(f"{self.__name__}: there is no setting {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.FAKES:
            _former[self.__name__, name] = getattr(config, self.FAKES[name])
            setattr(config, self.FAKES[name], value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        # `unittest.mock.patch` does so in the end: the value before the last comes back.
        if name in self.FAKES:
            setattr(config, self.FAKES[name], _former[self.__name__, name])
        else:
            super().__delattr__(name)


_former: dict[tuple[str, str], object] = {}
