"""`parameters` walks a tree without names, and gives what `named_parameters` does."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import maquette as mq
from maquette import nn


def tree() -> nn.Module:
    """Modules and parameters in several places, and places that are empty."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.ReLU())
    model[1].append(model[0])
    model[1][0].bias = model[0].weight
    model[0].register_parameter("none", None)
    model[2].register_module("none", None)
    model[2].within = model
    model.late = nn.Parameter(mq.ones(1))
    return model


def own_names(self: nn.Module, memo: Any = None, prefix: str = "", remove_duplicate: bool = True):
    yield prefix, self


def of_class(model: Any) -> None:
    model[1].__class__ = type("Own", (nn.Sequential,), {"named_modules": own_names})


def of_module(model: Any) -> None:
    vars(model[1])["named_modules"] = own_names.__get__(model[1])


def of_root(model: Any) -> None:
    model.__class__ = type("Own", (nn.Sequential,), {"named_modules": own_names})


def of_parameters(model: Any) -> None:
    def named_parameters(*args: object, **kwargs: object) -> Iterator[tuple[str, object]]:
        yield "only", model.late

    vars(model)["named_parameters"] = named_parameters


@pytest.mark.parametrize("recurse", [True, False])
@pytest.mark.parametrize("change", [None, of_class, of_module, of_root, of_parameters])
def test_parameters_are_those_with_names(
    change: Callable[[nn.Module], None] | None, recurse: bool
) -> None:
    model = tree()
    if change is not None:
        change(model)
    named = [id(p) for _, p in model.named_parameters(recurse=recurse)]
    assert [id(p) for p in model.parameters(recurse)] == named


def test_a_class_that_says_later_what_its_modules_are_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tree()
    before = len([*model.parameters()])
    monkeypatch.setattr(nn.Sequential, "named_modules", own_names)
    assert len([*model.parameters()]) == 1 < before


def test_gradients_are_dropped_everywhere() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 1)))
    model(mq.ones(1, 2)).sum().backward()
    before = [p.grad is not None for p in model.parameters()]
    model.zero_grad()
    assert before == [True] * 4
    assert [p.grad for p in model.parameters()] == [None] * 4


def test_members_of_another_kind_are_named_by_a_function() -> None:
    model = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 3))
    sizes = model._named_members(lambda m: [("size", getattr(m, "out_features", None))])
    assert dict(sizes) == {"0.size": 1, "1.size": 3}
