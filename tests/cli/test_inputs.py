"""What a model of transformers is called with, from its forward and its configuration."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import maquette as mq
from maquette.cli.inputs import Inputs, inputs_of

CONFIG = SimpleNamespace(
    text_config=SimpleNamespace(max_position_embeddings=77),
    vision_config=SimpleNamespace(image_size=32, num_channels=3),
)


class Comparing:
    """Takes both, and needs both, though its signature does not say so."""

    config = CONFIG

    def forward(self, input_ids: Any = None, pixel_values: Any = None, return_loss: Any = None):  # type: ignore[no-untyped-def]
        raise NotImplementedError


class Writing(Comparing):
    """Reads images if there are some."""

    def can_generate(self) -> bool:
        return True


def inputs(model: object, *, labels: bool = False) -> Inputs:
    with mq.FakeTensorMode():
        return inputs_of(model, CONFIG, 2, None, labels=labels)


def test_a_model_that_compares_images_with_texts_gets_both() -> None:
    made = inputs(Comparing())
    shapes = {name: tuple(t.shape) for name, t in made.kwargs.items()}  # type: ignore[attr-defined]
    assert shapes == {"input_ids": (2, 77), "pixel_values": (2, 3, 32, 32)}
    assert made.text == "batch 2, sequence 77, images 3 x 32 x 32"
    assert not made.notes


def test_a_model_that_writes_gets_its_text_alone_and_says_so() -> None:
    made = inputs(Writing())
    assert list(made.kwargs) == ["input_ids"]
    assert made.notes == ["text only: its images or sounds are not planned"]


def test_a_loss_that_must_be_asked_for_is_asked_for_in_training() -> None:
    assert inputs(Comparing(), labels=True).kwargs["return_loss"] is True
