"""A plan that replays equal blocks is one that runs them all, to the byte and the FLOP (FX4)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import maquette.torch as torch
from maquette.fake import FakeTensorMode
from maquette.plan.plan import plan
from maquette.plan.recorder import Recorder

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OPTIONS: list[dict[str, Any]] = [
    {"steps": 2}, {"accumulate": 2}, {"autocast": torch.bfloat16}, {"checkpoint": "blocks.*"},
]  # fmt: skip
CONFIGS = {"bert": "Bert", "gpt2": "GPT2", "llama": "Llama", "vit": "ViT"}


@pytest.fixture(autouse=True, scope="module")
def torch_is_maquette() -> Iterator[None]:
    torch.install()
    yield
    torch.uninstall()


def example(name: str, layers: int) -> tuple[FakeTensorMode, Any, Any]:
    """A fake mode, an example's tiny model with so many layers in it, and its arguments."""
    spec = importlib.util.spec_from_file_location(f"replayed_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kind = CONFIGS.get(name, "ResNet")
    config = getattr(module, f"{kind}Config").tiny()
    mode = FakeTensorMode()
    with mode:
        if name == "resnet":
            config = replace(config, blocks=(layers, layers))
            return mode, module.ResNet(config), module.batch(2, 32, config.classes)
        model = getattr(module, kind)(replace(config, layers=layers))
        size = config.pixels if name == "vit" else config.context
        return mode, model, module.batch(2, size, getattr(config, "vocab", 10))


def recording(model: Any, args: Any, *, replay: bool, **options: Any) -> dict[str, object]:
    """All that a plan says and all that its recorder saw."""
    recorders: list[Recorder] = []
    made = plan(model, args, recorders=recorders, replay=replay, **options)
    (recorder,) = recorders
    lives = [replace(a, storage=0) for a in recorder.allocations.values()]  # ids go on counting
    return {
        "plan": made.to_dict(), "operators": recorder.operations, "lives": lives,
        "in use": recorder.in_use, "held": made.held,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "resnet", "vit"])
@pytest.mark.parametrize("train", [False, True])
def test_FX4_FX7_a_plan_with_replay_equals_one_without(name: str, train: bool) -> None:
    mode, model, args = example(name, 5)
    optimizer = "adamw" if train else None
    plain = recording(model, args, replay=False, train=train, optimizer=optimizer)
    again = recording(model, args, replay=True, train=train, optimizer=optimizer)
    for part, value in plain.items():
        assert again[part] == value, part
    assert name == "resnet" or mode.replay_info().replayed >= 4  # a layer was run


@pytest.mark.parametrize("options", OPTIONS)
def test_FX4_so_does_a_plan_of_more_than_a_step(options: dict[str, Any]) -> None:
    _, model, args = example("gpt2", 3)
    plain = recording(model, args, replay=False, train=True, optimizer="sgd", **options)
    again = recording(model, args, replay=True, train=True, optimizer="sgd", **options)
    for part, value in plain.items():
        assert again[part] == value, part


@pytest.mark.parametrize("layers", [8, 80])
def test_FX4_a_plan_runs_one_of_equal_layers(layers: int) -> None:
    mode, model, args = example("llama", layers)
    plan(model, args)
    assert mode.replay_info().replayed == layers - 1
