"""`mq.fake.config`: what fake modes do unless they are told otherwise, and the debug switch.

Options of a mode default to the attributes of the same names here, read when the mode is made. The
one that is no default is ``debug``: it acts at once, on every mode (`creation.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol


class OpProfiles(Protocol):
    """Fakes of operators by what was seen of them (F96)."""

    data: Mapping[Any, Any]
    """By the operators that `generic_fake_kernel` answers for."""

    def generic_fake_kernel(self, op: Any, mode: Any, *args: Any, **kwargs: Any) -> Any:
        """The fake results of a call."""


class Config:
    """The settings of fake tensors; one object, `config`.

    allow_meta, allow_unsafe_data_ptr_access, cache_enabled, cache_crosscheck_enabled,
    generate_fake_kernels_from_real_mismatches, prefer_device_type, propagate_real_tensors: defaults
    of the options of `FakeTensorMode`. op_profiles: an object with fakes of operators by what was
    seen of them (F96), asked before registered fakes; or None. debug: whether each fake remembers
    where it was made, in ``_debug_trace``; on from the start where the environment has
    MAQUETTE_FAKE_DEBUG=1 (F20).
    """

    __slots__ = (
        "_changed", "_debug", "allow_meta", "allow_unsafe_data_ptr_access",
        "cache_crosscheck_enabled", "cache_enabled", "generate_fake_kernels_from_real_mismatches",
        "op_profiles", "prefer_device_type", "propagate_real_tensors",
    )  # fmt: skip

    def __init__(self) -> None:
        self.allow_meta = True
        self.allow_unsafe_data_ptr_access = False
        self.propagate_real_tensors = False
        self.generate_fake_kernels_from_real_mismatches = False
        self.op_profiles: OpProfiles | None = None
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
