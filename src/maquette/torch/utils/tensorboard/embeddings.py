"""Points of `SummaryWriter.add_embedding`, in files beside the events, as the projector wants."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo, ProjectorConfig

from maquette.torch.utils.tensorboard.summary import array, bytes_of_colours

# What a folder's name cannot have.
_SPELLED = {"%": "%25", "/": "%2f", "\\": "%5c"}


def write_embedding(
    log_dir: str,
    mat: object,
    metadata: Sequence[Any] | None,
    label_img: object,
    step: int,
    tag: str,
    metadata_header: Sequence[str] | None,
) -> EmbeddingInfo:
    """Write points, labels and pictures to ``<step>/<tag>`` below the folder; what they are.

    mat: a row for each point. metadata: a label for each, or a row of labels under the header.
    label_img: a picture for each, ``(points, colours, rows, columns)``. Raises AssertionError for
    points that are no matrix and for other numbers of labels or pictures.
    """
    points = array(mat)
    assert points.ndim == 2, "mat should be 2D, where mat.size(0) is the number of data points"
    place = f"{step:05d}/{''.join(_SPELLED.get(letter, letter) for letter in tag)}"
    made = EmbeddingInfo(tensor_name=f"{tag}:{step:05d}", tensor_path=f"{place}/tensors.tsv")
    lines: list[str] | None = None
    if metadata is not None:
        assert len(metadata) == len(points), "#labels should equal with #data points"
        header = [] if metadata_header is None else [list(metadata_header)]
        rows = [*header, *(row if header else [row] for row in metadata)]
        lines = ["\t".join(map(str, row)) for row in rows]
    pictures = None if label_img is None else array(label_img)
    if pictures is not None:
        assert len(pictures) == len(points), "#images should equal with #data points"

    folder = os.path.join(log_dir, place)
    if os.path.exists(folder):
        warnings.warn(
            f"add_embedding(): {folder} exists: its files are replaced; give a global_step to each",
            stacklevel=3,
        )
    os.makedirs(folder, exist_ok=True)
    if lines is not None:
        made.metadata_path = f"{place}/metadata.tsv"
        _write(folder, "metadata.tsv", lines)
    if pictures is not None:
        made.sprite.image_path = f"{place}/sprite.png"
        made.sprite.single_image_dim.extend((pictures.shape[3], pictures.shape[2]))
        _write_sprite(pictures, os.path.join(folder, "sprite.png"))
    _write(folder, "tensors.tsv", ["\t".join(map(str, row)) for row in points.tolist()])
    return made


def write_config(log_dir: str, embeddings: Sequence[EmbeddingInfo]) -> None:
    """Write which points there are, which the projector reads first."""
    config = ProjectorConfig(embeddings=embeddings)
    _write(log_dir, "projector_config.pbtxt", [text_format.MessageToString(config)])


def _write(folder: str, name: str, lines: Sequence[str]) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _write_sprite(pictures: npt.NDArray[Any], path: str) -> None:
    """All pictures in one that is as high as it is wide, row by row."""
    from PIL import Image  # noqa: PLC0415  # only pictures need it

    count, colours, height, width = pictures.shape
    across = math.ceil(math.sqrt(count))
    side = across * max(height, width)
    sheet = np.zeros((side, side, colours), pictures.dtype)
    for number, picture in enumerate(pictures):
        row, column = number // across * height, number % across * width
        sheet[row : row + height, column : column + width] = picture.transpose(1, 2, 0)
    drawn = bytes_of_colours(sheet)
    Image.fromarray(drawn.squeeze(-1) if colours == 1 else drawn).save(path)
