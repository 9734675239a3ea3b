"""Settings of the process."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

import maquette.torch as torch


def test_the_libraries_below_are_told_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    class Controller:
        def limit(self, *, limits: int) -> None:
            told.append(limits)

    stand_in = ModuleType("threadpoolctl")
    stand_in.ThreadpoolController = Controller  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "threadpoolctl", stand_in)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    assert torch.get_num_threads() == 3
    torch.set_num_threads(before)
    assert told == [3, before]


def test_a_number_of_threads_is_kept_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    assert torch.get_num_threads() == 3
    torch.set_num_threads(before)
