"""Inputs for a model of transformers, made from its configuration. Shapes only.

A model says by its ``forward`` what it takes. Tokens are batch x seq; images, sounds and labels
have the sizes that the configuration gives.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import maquette as mq

DEFAULT_SEQ = 2048
IMAGE_SIDE = 224
SAMPLES_PER_SECOND = 16_000


@dataclass
class Inputs:
    """Keyword arguments, their sizes in words, and what the user should know."""

    kwargs: dict[str, object]
    text: str
    notes: list[str] = field(default_factory=list)


def inputs_of(model: Any, config: Any, batch: int, seq: int | None, *, labels: bool) -> Inputs:
    """What ``model`` is called with; ``labels`` too where it computes its own loss."""
    takes = inspect.signature(model.forward).parameters
    made = Inputs({}, f"batch {batch}")
    if "input_ids" in takes:
        length = _length(config, seq)
        made.kwargs["input_ids"] = _tokens(batch, length)
        made.text += f", sequence {length}"
        _labels(model, made, takes, labels)
        _beside_text(model, config, made, batch, seq)
        if labels and "return_loss" in takes:
            made.kwargs["return_loss"] = True
        return made
    if "pixel_values" in takes:
        _image(config, made, batch)
    elif "pixel_values_videos" in takes:
        _video(config, made, batch)
    elif "input_features" in takes:
        _features(config, made, batch, seq)
    elif "input_values" in takes:
        length = seq or SAMPLES_PER_SECOND
        made.kwargs["input_values"] = mq.empty(batch, length)
        made.text += f", {length} samples"
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in takes:
        made.kwargs["decoder_input_ids"] = _tokens(batch, 1 if seq is None else seq)
    if labels and "labels" in takes and "ImageClassification" in type(model).__name__:
        made.kwargs["labels"] = mq.empty(batch, dtype=mq.int64)
    return made


def _beside_text(model: Any, config: Any, made: Inputs, batch: int, seq: int | None) -> None:
    """Images or sounds, for a model that needs them beside its text."""
    takes = inspect.signature(model.forward).parameters
    name = next((n for n in ("pixel_values", "input_features") if n in takes), "")
    if not name:
        return
    # A model that writes can do so from text alone; one that compares needs both.
    writes = getattr(model, "can_generate", lambda: False)()
    if writes and takes[name].default is not inspect.Parameter.empty:
        made.notes.append("text only: its images or sounds are not planned")
    elif name == "pixel_values":
        _image(config, made, batch)
    else:
        _features(config, made, batch, seq)


def _tokens(batch: int, length: int) -> object:
    return mq.empty(batch, length, dtype=mq.int64)


def _length(config: Any, seq: int | None) -> int:
    if seq is not None:
        return seq
    text = getattr(config, "text_config", config)
    longest = getattr(text, "max_position_embeddings", None) or DEFAULT_SEQ
    return int(min(longest, DEFAULT_SEQ))


def _labels(model: Any, made: Inputs, takes: Any, labels: bool) -> None:
    ids: Any = made.kwargs["input_ids"]
    batch, length = ids.shape
    encoder_decoder = getattr(model.config, "is_encoder_decoder", False)
    one_each = ("SequenceClassification", "MultipleChoice", "ImageClassification")
    per_token = not any(word in type(model).__name__ for word in one_each)
    if labels and "labels" in takes:
        shape = (batch, length) if per_token else (batch,)
        made.kwargs["labels"] = mq.empty(shape, dtype=mq.int64)
    if encoder_decoder and "decoder_input_ids" in takes and "labels" not in made.kwargs:
        made.kwargs["decoder_input_ids"] = _tokens(batch, length)


def _sizes(config: Any) -> tuple[int, int, int]:
    vision = getattr(config, "vision_config", config)
    side = getattr(vision, "image_size", None) or IMAGE_SIDE
    height, width = side if isinstance(side, (list, tuple)) else (side, side)
    channels = getattr(vision, "num_channels", None) or 3
    return int(channels), int(height), int(width)


def _image(config: Any, made: Inputs, batch: int) -> None:
    sizes = _sizes(config)
    made.kwargs["pixel_values"] = mq.empty(batch, *sizes)
    made.text += f", images {' x '.join(map(str, sizes))}"


def _video(config: Any, made: Inputs, batch: int) -> None:
    sizes = (getattr(config, "num_frames", None) or 16, *_sizes(config))
    made.kwargs["pixel_values_videos"] = mq.empty(batch, *sizes)
    made.text += f", videos {' x '.join(map(str, sizes))}"


def _features(config: Any, made: Inputs, batch: int, seq: int | None) -> None:
    bins = getattr(config, "num_mel_bins", None) or 80
    positions = getattr(config, "max_source_positions", None)
    length = 2 * positions if positions else seq or 3000  # with positions there is one length
    shape = (batch, bins, length) if config.model_type == "whisper" else (batch, length, bins)
    made.kwargs["input_features"] = mq.empty(shape)
    made.text += f", {length} frames of {bins}"
