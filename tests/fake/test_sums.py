"""Fake gradients that meet are added without an operator (`maquette.fake.derivatives.sums`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.operator import resolve_anew
from maquette.fake import cache
from maquette.fake.cache import REMEMBERED_SUMS as REMEMBERED


@pytest.fixture(autouse=True)
def nothing_counted_or_remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Counts that another test has asked for would have every operator run."""
    monkeypatch.setattr(cache, "_counting", [False])
    resolve_anew()
    REMEMBERED.clear()
    yield
    REMEMBERED.clear()
    monkeypatch.undo()
    resolve_anew()


def gradient(paths: int) -> Any:
    """The gradient that a tensor gets on so many paths, as a hook of what made it sees it."""
    seen: list[Any] = []
    leaf = mq.ones(3, 4, requires_grad=True)
    x = leaf * 1
    x.register_hook(seen.append)
    total = x.sin()
    for _ in range(paths - 1):
        total = total + x.cos()
    total.sum().backward()
    return seen[0]


def test_a_sum_by_a_version_is_that_by_the_operator() -> None:
    with mq.FakeTensorMode():
        found = [(g.meta, g._version, g._storage._nbytes) for g in map(gradient, [3] * 4)]
    assert set(REMEMBERED.values()) == {True}
    assert found == [found[0]] * 4


def test_a_mode_sees_sums() -> None:
    class Names(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> object:
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    every = []
    with mq.FakeTensorMode():
        for _ in range(3):
            gradient(3)
            names: list[str] = []
            with Names():
                gradient(3)
            every.append(names)
    assert every == [every[0]] * 3
    assert every[0].count("aten.add.Tensor") == 4


def test_a_kernel_of_a_user_for_the_sum_is_heeded() -> None:
    called: list[int] = []

    def add_(a: Any, b: Any, *, alpha: Any = 1) -> Any:
        called.append(1)
        return a

    library = torch.library.Library("aten", "IMPL")
    with mq.FakeTensorMode():
        gradient(3)
        torch.library.register_fake("aten::add_.Tensor", add_, lib=library, allow_override=True)
        try:
            for _ in range(3):
                called.clear()
                gradient(3)
                assert len(called) == 2
        finally:
            library._destroy()
