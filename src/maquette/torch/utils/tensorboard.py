"""`torch.utils.tensorboard`: figures of a run, written as the package ``tensorboard`` reads them.

The files and their records are that package's own (``pip install tensorboard``); here is what goes
into a record: numbers, texts, histograms and pictures. Graphs, meshes, sounds, films, embeddings,
curves and tables of hyperparameters are not written: those methods say so.
"""

from __future__ import annotations

import io
import math
import os
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.summary.writer.record_writer import RecordWriter

from maquette.tensor.tensor import Tensor

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]

_LEAST_EDGE, _MOST_EDGE, _GROWTH = 1e-12, 1e20, 1.1
_IMAGES_A_ROW = 8


def _array(value: object) -> npt.NDArray[Any]:
    """A tensor, an array or a number as an array of at least one dimension."""
    if isinstance(value, Tensor):
        return np.atleast_1d(value.detach().cpu().numpy())
    if isinstance(value, np.ndarray | np.generic | int | float):
        return np.atleast_1d(np.asarray(value))
    raise NotImplementedError(
        f"a tensor, a NumPy array or a number is expected, got {type(value).__name__}"
    )


def _number(value: object) -> float:
    found = _array(value)
    if found.size != 1:
        raise ValueError(f"a scalar is expected, got {found.size} numbers of shape {found.shape}")
    return float(found.reshape(-1)[0])


def _of_plugin(name: str) -> SummaryMetadata:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name))


def _summary(**value: object) -> Summary:
    return Summary(value=[Summary.Value(**value)])


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


def _histogram(values: npt.NDArray[Any], bins: Any, max_bins: int | None) -> HistogramProto:
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


def _image(image: npt.NDArray[Any], formats: str) -> Summary.Image:
    from PIL import Image  # noqa: PLC0415  # only pictures need it

    factor = 1 if image.dtype == np.uint8 else 255
    picture = _picture(image, formats)
    pixels = (picture.astype(np.float32) * factor).clip(0, 255).astype(np.uint8)
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, format="PNG")
    height, width, colours = pixels.shape
    return Summary.Image(
        height=height, width=width, colorspace=colours, encoded_image_string=written.getvalue()
    )


# --- writers ---------------------------------------------------------------------------------


class FileWriter:
    """Writes summaries as events of one file in a folder."""

    def __init__(
        self, log_dir: object, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return str(self.event_writer.get_logdir())

    def add_event(
        self, event: Event, step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write an event at a time, now by default, and a step."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Summary, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a summary as an event."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Go on in a new file; the package's writer opens it with the next event."""
        self.event_writer.reopen()


class SummaryWriter:
    """Writes a run's figures to a folder: ``runs/<time>_<host><comment>`` by default."""

    def __init__(
        self,
        log_dir: object = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            began = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{began}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step = purge_step
        self._options = (max_queue, flush_secs, filename_suffix)
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = FileWriter(self.log_dir, *self._options)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                self.file_writer.add_event(Event(file_version="brain.Event:2"), self.purge_step)
                started = Event(session_log=SessionLog(status=SessionLog.START))
                self.file_writer.add_event(started, self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _add(self, step: int | None, walltime: float | None, **value: object) -> None:
        self._get_file_writer().add_summary(_summary(**value), step, walltime)

    def get_logdir(self) -> str:
        """The folder that is written to."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: object,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number. new_style: as a tensor, of double precision if that is asked for."""
        value = _number(scalar_value)
        if not new_style:
            self._add(global_step, walltime, tag=tag, simple_value=value)
            return
        if double_precision:
            tensor = TensorProto(double_val=[value], dtype="DT_DOUBLE")
        else:
            tensor = TensorProto(float_val=[value], dtype="DT_FLOAT")
        self._add(global_step, walltime, tag=tag, tensor=tensor, metadata=_of_plugin("scalars"))

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, object],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write several numbers of one figure, each to a folder of its own below this one."""
        self._get_file_writer()
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in self.all_writers:
                self.all_writers[folder] = FileWriter(folder, *self._options)
            summary = _summary(tag=main_tag, simple_value=_number(value))
            self.all_writers[folder].add_summary(summary, global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a text, which is shown as Markdown."""
        tensor = TensorProto(
            dtype="DT_STRING",
            string_val=[text_string.encode("utf-8")],
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
        )
        metadata = _of_plugin("text")
        self._add(
            global_step, walltime, tag=f"{tag}/text_summary", tensor=tensor, metadata=metadata
        )

    def add_histogram(
        self,
        tag: str,
        values: object,
        global_step: int | None = None,
        bins: str | int | Sequence[float] = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write how often values are in each bin. bins: as NumPy's, or ever wider from zero."""
        made = _histogram(_array(values), bins, max_bins)
        self._add(global_step, walltime, tag=tag, histo=made)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Sequence[float],
        bucket_counts: Sequence[float],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a histogram that is counted already; a limit is the end of each bin."""
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
        self._add(global_step, walltime, tag=tag, histo=made)

    def add_image(
        self,
        tag: str,
        img_tensor: object,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write a picture: bytes from 0 to 255, or other numbers from 0 to 1."""
        made = _image(_array(img_tensor), dataformats)
        self._add(global_step, walltime, tag=tag, image=made)

    def add_images(
        self,
        tag: str,
        img_tensor: object,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write a batch of pictures as one, in rows of eight."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def flush(self) -> None:
        """Write what waits, of all files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write what waits, and close all files; the next figure opens a new one."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _unwritten(name: str) -> Any:
    def method(self: SummaryWriter, *args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(
            f"SummaryWriter.{name} is not supported by maquette: numbers, texts, histograms and "
            "pictures are written"
        )

    method.__name__ = method.__qualname__ = name
    return method


for _name in (
    "add_audio",
    "add_custom_scalars",
    "add_custom_scalars_marginchart",
    "add_custom_scalars_multilinechart",
    "add_embedding",
    "add_figure",
    "add_graph",
    "add_hparams",
    "add_image_with_boxes",
    "add_mesh",
    "add_onnx_graph",
    "add_pr_curve",
    "add_pr_curve_raw",
    "add_tensor",
    "add_video",
):
    setattr(SummaryWriter, _name, _unwritten(_name))
