"""Tensors, sounds, films, figures and meshes of `torch.utils.tensorboard`."""

from __future__ import annotations

import io
import json
import math
import warnings
import wave
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.plugins.mesh import metadata as mesh_metadata
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

from maquette.torch.utils.tensorboard.summary import (
    array,
    bytes_of_colours,
    image,
    of_plugin,
    shape_of,
    summary_of,
)

# The record's dtype and the field that has the numbers, by NumPy's name.
_FIELDS = {
    "bool": ("DT_BOOL", "bool_val"),
    "float16": ("DT_HALF", "half_val"),
    "float32": ("DT_FLOAT", "float_val"),
    "float64": ("DT_DOUBLE", "double_val"),
    "int16": ("DT_INT16", "int_val"),
    "int32": ("DT_INT32", "int_val"),
    "int64": ("DT_INT64", "int64_val"),
    "int8": ("DT_INT8", "int_val"),
    "uint8": ("DT_UINT8", "int_val"),
}
_LOUDEST = 32767


def tensor_proto(tag: str, tensor: object) -> Summary:
    """Numbers as they are; TypeError for those that records do not have, as complex ones."""
    values = array(tensor)
    if values.dtype.name not in _FIELDS:
        raise TypeError(f"add_tensor() writes real numbers and bools, got {values.dtype}")
    kind, field = _FIELDS[values.dtype.name]
    numbers = values.view(np.uint16) if kind == "DT_HALF" else values
    shape = shape_of(getattr(tensor, "shape", ()))
    made = TensorProto(dtype=kind, tensor_shape=shape, **{field: numbers.reshape(-1).tolist()})
    return summary_of(tag=tag, tensor=made, metadata=of_plugin("tensor"))


# --- sounds and films ----------------------------------------------------------------


def audio(tag: str, tensor: object, sample_rate: int = 44100) -> Summary:
    """A sound of one channel, from -1 to 1; what is louder is cut, and said so."""
    sound = array(tensor).squeeze()
    if sound.ndim != 1:
        raise AssertionError(
            f"input tensor should be 1 dimensional, got a sound of shape {sound.shape}"
        )
    if abs(sound).max() > 1:
        warnings.warn("add_audio(): what is beyond -1 and 1 is cut", stacklevel=3)
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes((sound.clip(-1, 1) * _LOUDEST).astype("<i2").tobytes())
    made = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=len(sound),
        encoded_audio_string=written.getvalue(),
        content_type="audio/wav",
    )
    return summary_of(tag=tag, audio=made)


def video(tag: str, tensor: object, fps: float = 4) -> Summary:
    """Films of one length as one picture that moves; bytes from 0 to 255, or numbers from 0 to 1.

    tensor: ``(films, frames, colours, rows, columns)``.
    """
    from PIL import Image  # noqa: PLC0415  # only pictures need it

    films = array(tensor)
    if films.ndim != 5:
        raise ValueError(
            f"add_video() expects films, frames, colours, rows and columns, got {films.shape}"
        )
    count, frames, colours, height, width = films.shape
    down = 2 ** (max(count - 1, 0).bit_length() // 2)
    across = math.ceil(count / down)
    grid = np.zeros((down * across, *films.shape[1:]), films.dtype)
    grid[:count] = films
    placed = grid.reshape(down, across, frames, colours, height, width).transpose(2, 0, 4, 1, 5, 3)
    pixels = bytes_of_colours(placed.reshape(frames, down * height, across * width, colours))
    shown = [Image.fromarray(frame.squeeze(-1) if colours == 1 else frame) for frame in pixels]
    written = io.BytesIO()
    shown[0].save(
        written, "GIF", save_all=True, append_images=shown[1:], duration=1000 / fps, loop=0
    )
    made = Summary.Image(
        height=pixels.shape[1],
        width=pixels.shape[2],
        colorspace=colours,
        encoded_image_string=written.getvalue(),
    )
    return summary_of(tag=tag, image=made)


# --- pictures ------------------------------------------------------------------------


def figures(figure: Any, close: bool = True) -> npt.NDArray[Any]:
    """Matplotlib's figure as colours, rows and columns, or several of them; each closed after."""
    if isinstance(figure, list):
        return np.stack([figures(one, close) for one in figure])
    from matplotlib import pyplot  # noqa: PLC0415  # only figures need it
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = np.asarray(canvas.buffer_rgba())[:, :, :3].transpose(2, 0, 1)
    if close:
        pyplot.close(figure)
    return drawn


def image_boxes(
    tag: str,
    tensor: object,
    boxes: object,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: Sequence[str] | None = None,
) -> Summary:
    """A picture with boxes in red: left, top, right and bottom of each, in pixels; and labels."""
    from PIL import Image, ImageDraw  # noqa: PLC0415  # only pictures need it

    plain = image(tag, tensor, dataformats=dataformats)
    drawn = Image.open(io.BytesIO(plain.value[0].image.encoded_image_string))
    height, width = int(drawn.height * rescale), int(drawn.width * rescale)
    pen = ImageDraw.Draw(drawn)
    for number, (left, top, right, bottom) in enumerate(array(boxes).reshape(-1, 4).tolist()):
        corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
        pen.line(corners, width=2, fill="red")
        if labels is not None:
            pen.text((left, top), labels[number], fill="red")
    return image(tag, np.asarray(drawn.resize((width, height))), dataformats="HWC")


def mesh(
    tag: str,
    vertices: object,
    colors: object = None,
    faces: object = None,
    config_dict: Mapping[str, object] | None = None,
) -> Summary:
    """Bodies in space: ``(bodies, points, 3)`` of places, colours, and corners of triangles.

    config_dict: what the page's three.js is told. Raises ValueError for other shapes.
    """
    kinds = MeshPluginData.ContentType
    parts = [(kinds.VERTEX, vertices), (kinds.FACE, faces), (kinds.COLOR, colors)]
    given = [(kind, part) for kind, part in parts if part is not None]
    mask = mesh_metadata.get_components_bitmask([kind for kind, _ in given])
    config = json.dumps(config_dict or {}, sort_keys=True)
    made = Summary()
    for kind, part in given:
        values = array(part)
        if values.ndim != 3 or values.shape[2] != 3:
            raise ValueError(f"Tensor shape should be of shape BxNx3, but got {values.shape}.")
        shape = list(values.shape)
        about = mesh_metadata.create_summary_metadata(tag, None, kind, mask, shape, None, config)
        proto = TensorProto(
            dtype="DT_FLOAT",
            float_val=values.reshape(-1).tolist(),
            tensor_shape=shape_of(shape),
        )
        name = mesh_metadata.get_instance_name(tag, kind)
        made.value.append(Summary.Value(tag=name, tensor=proto, metadata=about))
    return made
