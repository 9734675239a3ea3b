"""Calls of blocks that look like one that was read are not read again, and must be like it (FX5).

Each program calls its layers until they have a pattern, changes one thing and calls them once more.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import maquette as mq
from maquette import Tensor, nn
from maquette.fake.replay.values import Reader
from maquette.nn.modules.module import register_module_forward_hook

WIDTH = 4


class Options:
    """An object that a layer asks, and that is no module."""

    def __init__(self) -> None:
        self.scale: float = 2
        self.names = ["a", "b"]
        self.table: dict[str, float] = {"a": 1.0, "b": 2.0}


class Layer(nn.Module):
    """A layer with parameters, buffers, a child, and plain values of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)
        self.act = nn.ReLU()
        self.other = nn.ReLU()
        self.register_buffer("shift", mq.zeros(WIDTH))
        self.register_buffer("more", mq.zeros(WIDTH))
        self.options = Options()
        self.flag: object = True
        self.run: Callable[[Tensor], Tensor] = mq.sin

    def forward(self, x: Tensor, *rest: Any, **options: Any) -> Tensor:
        y = self.run(self.act(self.first(x) + self.shift))
        return self.second(self.other(y)) * self.options.scale


class Each(nn.Module):
    """Calls layers with the same."""

    def __init__(self, layers: list[Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> None:
        for layer in self.layers:
            layer(x)


def layers(make: Callable[[], Layer] = Layer) -> tuple[mq.FakeTensorMode, list[Layer], Tensor]:
    """Four fake layers that have been called twice, and their input."""
    mode = mq.FakeTensorMode()
    with mode:
        made, x = [make() for _ in range(4)], mq.ones(2, WIDTH)
    with mode, mode.replaying():
        model = Each(made)
        model(x), model(x)
    return mode, made, x


@contextmanager
def no_reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*args: object) -> None:
        raise AssertionError("a call was read")

    with monkeypatch.context() as patch:
        patch.setattr(Reader, "read", refuse)
        yield


@pytest.mark.parametrize("kwargs", [{}, {"several": [1, "two", None]}, {"module": nn.ReLU()}])
@pytest.mark.parametrize("rest", [(), (3,), ((1, [2.0]), mq.float32)])
def test_FX4_calls_that_are_alike_are_read_twice(
    rest: tuple[object, ...], kwargs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mode, made, x = layers()
    with mode, mode.replaying():
        first = [layer(x, *rest, **kwargs) for layer in made]
        with no_reading(monkeypatch):
            again = [layer(x, *rest, **kwargs) for layer in made]
    assert [t.meta for t in again] == [t.meta for t in first]
    assert mode.replay_info().recorded == 1 + bool(rest or kwargs)


def swapped(names: dict[str, object]) -> None:
    first = next(iter(names))
    names[first] = names.pop(first)


def make_view(layer: Any) -> None:
    whole = mq.zeros(2, WIDTH)
    layer.shift = whole[0]


def tied(layer: Any) -> None:
    layer.more = layer.shift


def shared(layer: Any) -> None:
    layer.more = layer.shift.detach()


def renamed(layer: Layer) -> None:
    layer.options.__dict__ = {
        "titles" if name == "names" else name: value for name, value in vars(layer.options).items()
    }


def no_leaf(layer: Layer) -> None:
    layer.first._mq_attributes["weight"] = layer.first.weight * 1


def by_cos(self: Layer, x: Tensor) -> Tensor:
    return mq.cos(x)


CHANGES: dict[str, Callable[[Any], object]] = {
    "flag": lambda layer: setattr(layer, "flag", False),
    "equal flag of another class": lambda layer: setattr(layer, "flag", 1),
    "function": lambda layer: setattr(layer, "run", mq.cos),
    "forward of its own": lambda layer: setattr(layer, "forward", mq.sin),
    "new attribute": lambda layer: setattr(layer, "new", None),
    "attribute that is gone": lambda layer: delattr(layer, "flag"),
    "training": lambda layer: layer.eval(),
    "training of a child": lambda layer: layer.act.eval(),
    "another child": lambda layer: setattr(layer, "act", nn.Tanh()),
    "one child twice": lambda layer: setattr(layer, "other", layer.act),
    "order of attributes": lambda layer: swapped(layer._mq_attributes),
    "order of buffers": lambda layer: swapped(layer._mq_attributes["_mq_buffer_names"]),
    "names of buffers": lambda layer: layer._mq_attributes["_mq_buffer_names"].pop("more"),
    "name of an attribute": renamed,
    "attribute of an object": lambda layer: setattr(layer.options, "scale", 3),
    "equal attribute of another class": lambda layer: setattr(layer.options, "scale", 2.0),
    "item": lambda layer: layer.options.names.__setitem__(0, "c"),
    "longer list": lambda layer: layer.options.names.append("c"),
    "value of a dict": lambda layer: layer.options.table.update(a=3.0),
    "name in a dict": lambda layer: layer.options.table.update(c=3.0),
    "order of a dict": lambda layer: swapped(layer.options.table),
    "no gradient": lambda layer: layer.first.weight.requires_grad_(False),
    "gradient": lambda layer: layer.shift.requires_grad_(),
    "dtype": lambda layer: setattr(layer, "more", layer.more.double()),
    "no leaf": no_leaf,
    "view": make_view,
    "one tensor twice": tied,
    "one storage twice": shared,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_FX5_what_a_layer_has_is_seen(change: Callable[[Any], object]) -> None:
    mode, made, x = layers()
    with mode, mode.replaying():
        for layer in made:
            change(layer)
            layer(x)
    info = mode.replay_info()
    assert (info.recorded, info.replayed, info.stopped) == (2, 7 + 3, {})


def test_FX5_tensors_and_modules_that_are_no_longer_one_are_seen() -> None:
    def make() -> Layer:
        layer = Layer()
        layer.other = layer.act
        layer.second.weight = layer.first.weight
        return layer

    mode, made, x = layers(make)
    with mode, mode.replaying():
        for layer in made:
            layer.other = nn.ReLU()
            layer(x)
        for layer in made:
            layer.second.weight = nn.Parameter(layer.first.weight.detach())
            layer(x)
    assert (mode.replay_info().recorded, mode.replay_info().replayed) == (3, 7 + 3 + 3)


ARGUMENTS: dict[str, Callable[[Tensor], tuple[object, ...]]] = {
    "meta": lambda x: (x.repeat(2, 1),),
    "history": lambda x: (x.clone().requires_grad_() * 1,),
    "leaf": lambda x: (x.clone().requires_grad_(),),
    "twice": lambda x: (x, x),
    "alias": lambda x: (x, x.detach()),
    "more": lambda x: (x, 1),
    "module": lambda x: (x, nn.ReLU()),
}


@pytest.mark.parametrize("change", ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_FX5_what_a_layer_is_called_with_is_seen(
    change: Callable[[Tensor], tuple[object, ...]],
) -> None:
    mode, made, x = layers()
    with mode, mode.replaying():
        for layer in made:
            layer(*change(x))
    assert (mode.replay_info().recorded, mode.replay_info().replayed) == (2, 7 + 3)


def test_FX5_a_class_whose_forward_changes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    mode, made, x = layers()
    monkeypatch.setattr(nn.ReLU, "forward", by_cos)
    with mode, mode.replaying():
        for layer in made:
            layer(x)
    assert (mode.replay_info().recorded, mode.replay_info().replayed) == (2, 7 + 3)


STOPS: dict[str, Callable[[Any], object]] = {
    "hooks": lambda layer: layer.act.register_forward_hook(lambda *args: None),
    "a known value": lambda layer: setattr(layer, "more", mq.tensor(1.0)),
    "a tensor of another mode": lambda layer: setattr(
        layer, "more", mq.FakeTensorMode().from_tensor(layer.more)
    ),
}


@pytest.mark.parametrize("reason", STOPS)
def test_FX5_what_stops_a_layer_is_seen(reason: str) -> None:
    mode, made, x = layers()
    with mode, mode.replaying():
        for layer in made:
            STOPS[reason](layer)
            layer(x)
    assert mode.replay_info().stopped == {reason: 4}


def test_FX5_hooks_that_were_removed_leave_a_table_that_is_looked_at() -> None:
    mode, made, x = layers()
    handles = [layer.act.register_forward_hook(lambda *args: None) for layer in made]
    for handle in handles:
        handle.remove()
    with mode, mode.replaying():
        for layer in (*made, *made):
            layer(x)
        made[0].act.register_forward_hook(lambda *args: None)
        made[0](x)
    assert mode.replay_info().stopped == {"hooks": 1}


def test_FX5_hooks_on_all_modules_stop_it() -> None:
    mode, made, x = layers()
    seen: list[object] = []
    handle = register_module_forward_hook(lambda module, *args: seen.append(module))
    try:
        with mode, mode.replaying():
            made[1](x)
    finally:
        handle.remove()
    assert len(seen) == 5
    assert mode.replay_info().stopped == {"hooks": 1}


def test_FX4_a_replay_is_differentiated_with_the_modules_it_was_given() -> None:
    class Calling(nn.Module):
        def forward(self, x: Tensor, modules: list[nn.Module]) -> Tensor:
            return modules[1](modules[0](x))

    mode = mq.FakeTensorMode()
    with mode, mode.replaying():
        callers = nn.ModuleList(Calling() for _ in range(4))
        given = [[nn.Linear(WIDTH, WIDTH), nn.ReLU()] for _ in range(4)]
        x = mq.ones(2, WIDTH, requires_grad=True)
        for caller, modules in zip(callers, given, strict=True):
            caller(x, modules).sum().backward(retain_graph=True)
    assert all(modules[0].weight.grad is not None for modules in given)
    assert (mode.replay_info().recorded, mode.replay_info().replayed) == (1, 3)
