"""What goes into a record of `torch.utils.tensorboard`: a `Summary` of numbers, texts, pictures.

Writers are in `writer.py`; the messages themselves are the package ``tensorboard``'s.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.hparams import metadata as names
from tensorboard.plugins.hparams.api_pb2 import (
    DataType,
    Experiment,
    HParamInfo,
    MetricInfo,
    MetricName,
    Status,
)
from tensorboard.plugins.hparams.plugin_data_pb2 import (
    HParamsPluginData,
    SessionEndInfo,
    SessionStartInfo,
)

from maquette.tensor.tensor import Tensor

_LEAST_EDGE, _MOST_EDGE, _GROWTH = 1e-12, 1e20, 1.1
_IMAGES_A_ROW = 8


def array(value: object) -> npt.NDArray[Any]:
    """A tensor, an array or a number as an array of at least one dimension."""
    if isinstance(value, Tensor):
        return np.atleast_1d(value.detach().cpu().numpy())
    if isinstance(value, np.ndarray | np.generic | int | float):
        return np.atleast_1d(np.asarray(value))
    raise NotImplementedError(
        f"a tensor, a NumPy array or a number is expected, got {type(value).__name__}"
    )


def number(value: object) -> float:
    """The one number of a tensor or an array; ValueError for more."""
    found = array(value)
    if found.size != 1:
        raise ValueError(f"a scalar is expected, got {found.size} numbers of shape {found.shape}")
    return float(found.reshape(-1)[0])


def of_plugin(name: str, content: bytes = b"") -> SummaryMetadata:
    """Which page of tensorboard shows a value, and what the page is told of it."""
    plugin = SummaryMetadata.PluginData(plugin_name=name, content=content)
    return SummaryMetadata(plugin_data=plugin)


def shape_of(sizes: Iterable[int]) -> TensorShapeProto:
    """A shape as records have it."""
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=int(size)) for size in sizes])


def summary_of(**value: object) -> Summary:
    """A summary of one value, by its fields."""
    return Summary(value=[Summary.Value(**value)])


# --- values ----------------------------------------------------------------------------------


def scalar(
    name: str,
    tensor: object,
    collections: object = None,
    new_style: bool = False,
    double_precision: bool = False,
) -> Summary:
    """A number; ValueError for more than one. new_style: as a tensor, of double precision if asked.

    ``collections`` is not used, as in PyTorch.
    """
    value = number(tensor)
    if not new_style:
        return summary_of(tag=name, simple_value=value)
    if double_precision:
        proto = TensorProto(double_val=[value], dtype="DT_DOUBLE")
    else:
        proto = TensorProto(float_val=[value], dtype="DT_FLOAT")
    return summary_of(tag=name, tensor=proto, metadata=of_plugin("scalars"))


def text(tag: str, text: str) -> Summary:
    """A text, which is shown as Markdown."""
    tensor = TensorProto(
        dtype="DT_STRING",
        string_val=[text.encode("utf-8")],
        tensor_shape=shape_of([1]),
    )
    return summary_of(tag=f"{tag}/text_summary", tensor=tensor, metadata=of_plugin("text"))


def histogram(
    name: str, values: object, bins: str | int | Sequence[float], max_bins: int | None = None
) -> Summary:
    """How often values are in each bin. bins: as NumPy's, or ``"tensorflow"``: ever wider."""
    return summary_of(tag=name, histo=counted(array(values), bins, max_bins))


def histogram_raw(
    name: str,
    min: float,
    max: float,
    num: int,
    sum: float,
    sum_squares: float,
    bucket_limits: Sequence[float],
    bucket_counts: Sequence[float],
) -> Summary:
    """A histogram that is counted already; a limit is the end of each bin."""
    if len(bucket_limits) != len(bucket_counts):
        raise ValueError(
            f"as many limits as counts are expected, got {len(bucket_limits)} and "
            f"{len(bucket_counts)}"
        )
    made = HistogramProto(
        min=min,
        max=max,
        num=num,
        sum=sum,
        sum_squares=sum_squares,
        bucket_limit=bucket_limits,
        bucket=bucket_counts,
    )
    return summary_of(tag=name, histo=made)


def image(tag: str, tensor: object, rescale: float = 1, dataformats: str = "NCHW") -> Summary:
    """A picture: bytes from 0 to 255, or other numbers from 0 to 1; its size times ``rescale``."""
    return summary_of(tag=tag, image=encoded(array(tensor), dataformats, rescale))


# --- hyperparameters -------------------------------------------------------------------------


def hparams(
    hparam_dict: Mapping[str, object] | None = None,
    metric_dict: Mapping[str, object] | None = None,
    hparam_domain_discrete: Mapping[str, list[Any]] | None = None,
) -> tuple[Summary, Summary, Summary]:
    """A run's hyperparameters, as the experiment, its beginning and its end.

    metric_dict: the figures by which runs are compared. hparam_domain_discrete: for some
    hyperparameters, the values that they may have. Raises TypeError for what is no dict, ValueError
    for a hyperparameter that is no number, text or tensor of one number.
    """
    if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
        raise TypeError("hparam_dict and metric_dict should be dictionaries, nothing logged.")
    allowed = hparam_domain_discrete or {}
    _check_allowed(hparam_dict, allowed)
    given = {key: value for key, value in hparam_dict.items() if value is not None}
    started = SessionStartInfo()
    for key, value in given.items():
        for field, set_to in _fields(value).items():
            setattr(started.hparams[key], field, set_to)
    described = [_described(key, value, allowed.get(key)) for key, value in given.items()]
    metrics = [MetricInfo(name=MetricName(tag=key)) for key in metric_dict]
    experiment = Experiment(hparam_infos=described, metric_infos=metrics)
    ended = SessionEndInfo(status=Status.Value("STATUS_SUCCESS"))
    return (
        _of_hparams(names.EXPERIMENT_TAG, experiment=experiment),
        _of_hparams(names.SESSION_START_INFO_TAG, session_start_info=started),
        _of_hparams(names.SESSION_END_INFO_TAG, session_end_info=ended),
    )


def _check_allowed(given: Mapping[str, object], allowed: object) -> None:
    if not isinstance(allowed, dict):
        raise TypeError("parameter: hparam_domain_discrete should be a dictionary, nothing logged.")
    for key, values in allowed.items():
        kind = type(given.get(key))
        if key not in given or not all(isinstance(v, kind) for v in values):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{key}] should be a list of same type as "
                f"hparam_dict[{key}]."
            )


def _fields(value: object) -> dict[str, object]:
    """A hyperparameter, or a value that it may have, as the fields of a message."""
    if isinstance(value, str):
        return {"string_value": value}
    if isinstance(value, int | float | Tensor):
        return {"number_value": number(value)}
    raise ValueError(
        f"value should be one of int, float, str, bool, or torch.Tensor; got {value!r}"
    )


def _described(key: str, value: object, allowed: list[object] | None) -> HParamInfo:
    kind = "DATA_TYPE_STRING" if isinstance(value, str) else "DATA_TYPE_FLOAT64"
    made = HParamInfo(name=key, type=DataType.Value(kind))
    for one in allowed or ():
        made.domain_discrete.values.add(**_fields(one))
    return made


def _of_hparams(tag: str, **content: object) -> Summary:
    data = HParamsPluginData(version=names.PLUGIN_DATA_VERSION, **content)
    held = SummaryMetadata.PluginData(
        plugin_name=names.PLUGIN_NAME, content=data.SerializeToString()
    )
    return summary_of(tag=tag, metadata=SummaryMetadata(plugin_data=held))


# --- histograms ------------------------------------------------------------------------------


def _edges() -> npt.NDArray[Any]:
    """The edges that are made by default: each 1.1 times as far from zero as the one before."""
    edges, edge = [], _LEAST_EDGE
    while edge < _MOST_EDGE:
        edges.append(edge)
        edge *= _GROWTH
    return np.array([-e for e in reversed(edges)] + [0.0] + edges)


def _merged(
    counts: npt.NDArray[Any], edges: npt.NDArray[Any], most: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Neighbouring bins together, so that there are few more than ``most``."""
    together = len(counts) // most
    counts = np.pad(counts, (0, -len(counts) % together))
    return counts.reshape(-1, together).sum(1), np.append(edges[:-1:together], edges[-1])


def counted(values: npt.NDArray[Any], bins: Any, max_bins: int | None) -> HistogramProto:
    """How many values are in each bin."""
    if not values.size:
        raise ValueError("a histogram needs at least one value, got none")
    values = values.reshape(-1).astype(float)
    counts, edges = np.histogram(values, bins=_edges() if bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        counts, edges = _merged(counts, edges, max_bins)
    filled = np.flatnonzero(counts)
    if not filled.size:
        raise ValueError("no value is within the bins of the histogram")
    first, last = filled[0], filled[-1]
    return HistogramProto(
        min=values.min(),
        max=values.max(),
        num=values.size,
        sum=values.sum(),
        sum_squares=values.dot(values),
        bucket_limit=edges[first : last + 2].tolist(),
        bucket=[0.0, *counts[first : last + 1].tolist()],
    )


# --- pictures --------------------------------------------------------------------------------


def _picture(image: npt.NDArray[Any], formats: str) -> npt.NDArray[Any]:
    """One picture of rows, columns and three or four colours; a batch is laid out as a grid."""
    formats = formats.upper()
    if len(formats) != image.ndim or set(formats) - set("NCHW") or len(set(formats)) != image.ndim:
        raise ValueError(
            f"dataformats should name each of {image.ndim} dimensions by N, C, H, W: got {formats}"
        )
    for missing in sorted(set("NCHW") - set(formats)):
        image, formats = image[None], missing + formats
    batch = image.transpose([formats.index(name) for name in "NHWC"])
    if batch.shape[3] == 1:
        batch = batch.repeat(3, 3)
    across = min(len(batch), _IMAGES_A_ROW)
    down = math.ceil(len(batch) / across)
    _, height, width, colours = batch.shape
    grid = np.zeros((down * across, height, width, colours), batch.dtype)
    grid[: len(batch)] = batch
    rows = grid.reshape(down, across, height, width, colours).swapaxes(1, 2)
    return rows.reshape(down * height, across * width, colours)


def bytes_of_colours(picture: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Colours from 0 to 255; numbers that are no bytes are from 0 to 1."""
    factor = 1 if picture.dtype == np.uint8 else 255
    return (picture.astype(np.float32) * factor).clip(0, 255).astype(np.uint8)


def encoded(image: npt.NDArray[Any], formats: str, rescale: float = 1) -> Summary.Image:
    """A picture as PNG."""
    from PIL import Image  # noqa: PLC0415  # only pictures need it

    pixels = bytes_of_colours(_picture(image, formats))
    height, width, colours = pixels.shape
    drawn = Image.fromarray(pixels)
    if rescale != 1:
        height, width = int(height * rescale), int(width * rescale)
        drawn = drawn.resize((width, height), Image.Resampling.LANCZOS)
    written = io.BytesIO()
    drawn.save(written, format="PNG")
    return Summary.Image(
        height=height, width=width, colorspace=colours, encoded_image_string=written.getvalue()
    )


__all__ = ["histogram", "histogram_raw", "hparams", "image", "scalar", "text"]
