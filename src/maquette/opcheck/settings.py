"""Settings and generators of a process or thread: what they are, and putting them back.

An operator must leave them as it found them; where one does not, a check puts them back, so that
what it finds later is not of that.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np

from maquette.opcheck.framework import Framework


def draw_once(torch: Any) -> None:
    """Move every global generator on."""
    torch.rand(1)
    np.random.random()  # the global one is meant
    random.random()


def other_generators() -> tuple[object, ...]:
    """The states of the global generators of Python and of NumPy."""
    kind, words, *rest = np.random.get_state()  # the global one is meant
    return random.getstate(), kind, bytes(words), *rest  # type: ignore[arg-type]


class Settings(NamedTuple):
    """What a call must leave as it was."""

    grad: bool
    dtype: Any
    device: Any
    told_device: Any
    numpy_errors: tuple[tuple[str, Any], ...]


def settings_of(on: Framework) -> Settings:
    torch = on.torch
    errors = tuple(sorted(np.geterr().items()))
    device, told = torch.get_default_device(), on.told_device()
    return Settings(torch.is_grad_enabled(), torch.get_default_dtype(), device, told, errors)


def restored(on: Framework, before: Settings) -> str:
    """What a call changed of the settings, which are put back."""
    torch, after = on.torch, settings_of(on)
    torch.set_grad_enabled(before.grad)
    found = ""
    if after.dtype != before.dtype:
        torch.set_default_dtype(before.dtype)
        found = f"the default dtype is {after.dtype}"
    if after.told_device != before.told_device:
        # An operator that sets what `get_default_device` gave it back says "cpu" where nothing was
        # said: no finding, but factories of who comes next would heed it.
        torch.set_default_device(before.told_device)
    if after.device != before.device:
        found = f"the default device is {after.device}"
    if after.numpy_errors != before.numpy_errors:
        np.seterr(**dict(before.numpy_errors))
        found = f"NumPy's errors are {dict(after.numpy_errors)}"
    if after.grad != before.grad:
        found = f"grad mode is {'on' if after.grad else 'off'}"
    return found
