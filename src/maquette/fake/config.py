"""`mq.fake.config`: what fake modes do unless they are told otherwise, and the debug switch.

Options of a mode default to the attributes of the same names here, read when the mode is made. The
one that is no default is ``debug``: it acts at once, on every mode (`creation.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable


class Config:
    """The settings of fake tensors; one object, `config`.

    allow_meta, cache_enabled, cache_crosscheck_enabled, prefer_device_type: defaults of the options
    of `FakeTensorMode`. debug: whether each fake remembers where it was made, in ``_debug_trace``;
    on from the start where the environment has MAQUETTE_FAKE_DEBUG=1 (F20).
    """

    __slots__ = (
        "_changed", "_debug", "allow_meta", "cache_crosscheck_enabled", "cache_enabled",
        "prefer_device_type",
    )  # fmt: skip

    def __init__(self) -> None:
        self.allow_meta = True
        self.cache_enabled = True
        self.cache_crosscheck_enabled = False
        self.prefer_device_type: str | None = None
        self._debug = os.environ.get("MAQUETTE_FAKE_DEBUG", "0") not in ("", "0")
        self._changed: list[Callable[[], None]] = []

    @property
    def debug(self) -> bool:
        """Whether fakes remember where they were made."""
        return self._debug

    @debug.setter
    def debug(self, flag: bool) -> None:
        self._debug = bool(flag)
        for act in self._changed:
            act()

    def on_debug(self, act: Callable[[], None]) -> None:
        """Call ``act`` whenever ``debug`` is assigned, and now if it is on."""
        self._changed.append(act)
        if self._debug:
            act()


config = Config()
