"""`torch._appdirs`: where programs keep their files (the XDG base directories)."""

from __future__ import annotations

import os

__all__ = [
    "AppDirs",
    "site_config_dir",
    "site_data_dir",
    "user_cache_dir",
    "user_config_dir",
    "user_data_dir",
    "user_log_dir",
    "user_state_dir",
]


def _below(base: str, name: str | None, version: str | None) -> str:
    parts = [base] if name is None else [base, name]
    return os.path.join(*parts, version) if version and name else os.path.join(*parts)


def _home(variable: str, default: str) -> str:
    return os.environ.get(variable) or os.path.expanduser(default)


def user_data_dir(
    appname: str | None = None,
    appauthor: str | None = None,
    version: str | None = None,
    roaming: bool = False,
) -> str:
    """A user's data of a program, ``~/.local/share/<appname>``."""
    return _below(_home("XDG_DATA_HOME", "~/.local/share"), appname, version)


def user_config_dir(
    appname: str | None = None,
    appauthor: str | None = None,
    version: str | None = None,
    roaming: bool = False,
) -> str:
    """A user's settings of a program, ``~/.config/<appname>``."""
    return _below(_home("XDG_CONFIG_HOME", "~/.config"), appname, version)


def user_cache_dir(
    appname: str | None = None,
    appauthor: str | None = None,
    version: str | None = None,
    opinion: bool = True,
) -> str:
    """A user's cache of a program, ``~/.cache/<appname>``."""
    return _below(_home("XDG_CACHE_HOME", "~/.cache"), appname, version)


def user_state_dir(
    appname: str | None = None,
    appauthor: str | None = None,
    version: str | None = None,
    roaming: bool = False,
) -> str:
    """A user's state of a program, ``~/.local/state/<appname>``."""
    return _below(_home("XDG_STATE_HOME", "~/.local/state"), appname, version)


def user_log_dir(
    appname: str | None = None,
    appauthor: str | None = None,
    version: str | None = None,
    opinion: bool = True,
) -> str:
    """A user's logs of a program, ``~/.cache/<appname>/log``."""
    found = user_cache_dir(appname, appauthor, version)
    return os.path.join(found, "log") if opinion else found


def site_data_dir(
    appname: str | None = None,
    appauthor: str | None = None,
    version: str | None = None,
    multipath: bool = False,
) -> str:
    """The data of a program that all users share."""
    return _sites("XDG_DATA_DIRS", "/usr/local/share:/usr/share", appname, version, multipath)


def site_config_dir(
    appname: str | None = None,
    appauthor: str | None = None,
    version: str | None = None,
    multipath: bool = False,
) -> str:
    """The settings of a program that all users share."""
    return _sites("XDG_CONFIG_DIRS", "/etc/xdg", appname, version, multipath)


def _sites(
    variable: str, default: str, name: str | None, version: str | None, several: bool
) -> str:
    bases = (os.environ.get(variable) or default).split(os.pathsep)
    found = [_below(os.path.expanduser(base.rstrip(os.sep)), name, version) for base in bases]
    return os.pathsep.join(found) if several else found[0]


class AppDirs:
    """The directories of one program."""

    def __init__(
        self,
        appname: str | None = None,
        appauthor: str | None = None,
        version: str | None = None,
        roaming: bool = False,
        multipath: bool = False,
    ) -> None:
        self.appname = appname
        self.appauthor = appauthor
        self.version = version
        self.roaming = roaming
        self.multipath = multipath

    @property
    def user_data_dir(self) -> str:
        """As the function of this name; so are the others."""
        return user_data_dir(self.appname, self.appauthor, self.version)

    @property
    def user_config_dir(self) -> str:
        return user_config_dir(self.appname, self.appauthor, self.version)

    @property
    def user_cache_dir(self) -> str:
        return user_cache_dir(self.appname, self.appauthor, self.version)

    @property
    def user_state_dir(self) -> str:
        return user_state_dir(self.appname, self.appauthor, self.version)

    @property
    def user_log_dir(self) -> str:
        return user_log_dir(self.appname, self.appauthor, self.version)

    @property
    def site_data_dir(self) -> str:
        return site_data_dir(self.appname, self.appauthor, self.version, self.multipath)

    @property
    def site_config_dir(self) -> str:
        return site_config_dir(self.appname, self.appauthor, self.version, self.multipath)
