"""`torch.utils.tensorboard.writer`: figures of a run, written as ``tensorboard`` reads them.

The files and their records are that package's own (``pip install tensorboard``). What goes into a
record is made in `summary.py` (numbers, texts, histograms, pictures, hyperparameters), `media.py`
(sounds, films, figures, meshes), `curves.py`, `embeddings.py` and `graphs.py`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog, TaggedRunMetadata
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from maquette.nn.base.module import Module
from maquette.tensor.tensor import Tensor
from maquette.torch.utils.tensorboard import curves, media
from maquette.torch.utils.tensorboard.embeddings import write_config, write_embedding
from maquette.torch.utils.tensorboard.graphs import graph, run_metadata
from maquette.torch.utils.tensorboard.summary import (
    array,
    histogram,
    histogram_raw,
    hparams,
    image,
    scalar,
    text,
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
        self._embeddings: list[EmbeddingInfo] = []
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

    def _add(self, step: int | None, walltime: float | None, summary: Summary) -> None:
        self._get_file_writer().add_summary(summary, step, walltime)

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
        made = scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision)
        self._add(global_step, walltime, made)

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
            self.all_writers[folder].add_summary(scalar(main_tag, value), global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a text, which is shown as Markdown."""
        self._add(global_step, walltime, text(tag, text_string))

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
        self._add(global_step, walltime, histogram(tag, values, bins, max_bins))

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
        made = histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(global_step, walltime, made)

    def add_image(
        self,
        tag: str,
        img_tensor: object,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write a picture: bytes from 0 to 255, or other numbers from 0 to 1."""
        self._add(global_step, walltime, image(tag, img_tensor, dataformats=dataformats))

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

    def add_hparams(
        self,
        hparam_dict: dict[str, object],
        metric_dict: dict[str, object],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Write a run's hyperparameters and figures, to a folder below this one.

        The folder is ``run_name``, or the time. Raises as `summary.hparams`.
        """
        made = hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        with SummaryWriter(folder) as run:
            for summary in made:
                run._add(global_step, None, summary)
            for key, value in metric_dict.items():
                run.add_scalar(key, value, global_step)

    def add_tensor(
        self,
        tag: str,
        tensor: Tensor,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a tensor's numbers as they are."""
        self._add(global_step, walltime, media.tensor_proto(tag, tensor))

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: object,
        box_tensor: object,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Sequence[str] | None = None,
    ) -> None:
        """Write a picture with boxes: left, top, right and bottom of each, in pixels."""
        shown = [labels] * len(array(box_tensor)) if isinstance(labels, str) else labels
        made = media.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, shown)
        self._add(global_step, walltime, made)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Write a figure of Matplotlib's, or a list of them side by side, and close them."""
        formats = "NCHW" if isinstance(figure, list) else "CHW"
        self.add_image(tag, media.figures(figure, close), global_step, walltime, formats)

    def add_video(
        self,
        tag: str,
        vid_tensor: object,
        global_step: int | None = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Write films, ``(films, frames, colours, rows, columns)``, as one that is moving."""
        self._add(global_step, walltime, media.video(tag, vid_tensor, fps))

    def add_audio(
        self,
        tag: str,
        snd_tensor: object,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Write a sound of one channel, from -1 to 1; sample_rate in Hz."""
        self._add(global_step, walltime, media.audio(tag, snd_tensor, sample_rate))

    def add_mesh(
        self,
        tag: str,
        vertices: object,
        colors: object = None,
        faces: object = None,
        config_dict: Mapping[str, object] | None = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write bodies in space; each of the tensors is ``(bodies, points, 3)``."""
        made = media.mesh(tag, vertices, colors, faces, config_dict)
        self._add(global_step, walltime, made)

    def add_graph(
        self,
        model: Module,
        input_to_model: object = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """Write the operators that a model calls; it runs once. use_strict_trace is not used."""
        drawn = graph(model, input_to_model, verbose)
        writer = self._get_file_writer()
        writer.add_event(Event(graph_def=drawn.SerializeToString()))
        ran = TaggedRunMetadata(tag="step1", run_metadata=run_metadata().SerializeToString())
        writer.add_event(Event(tagged_run_metadata=ran))

    def add_onnx_graph(self, prototxt: object) -> None:
        """Not there: maquette does not read ONNX."""
        raise NotImplementedError(
            "SummaryWriter.add_onnx_graph is not supported by maquette, which does not read ONNX: "
            "write the model itself by add_graph"
        )

    def add_embedding(
        self,
        mat: object,
        metadata: Sequence[Any] | None = None,
        label_img: object = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Write points, a row for each, with labels and pictures, as the projector shows them."""
        step = 0 if global_step is None else int(global_step)
        folder = self._get_file_writer().get_logdir()
        made = write_embedding(folder, mat, metadata, label_img, step, tag, metadata_header)
        self._embeddings.append(made)
        write_config(folder, self._embeddings)

    def add_pr_curve(
        self,
        tag: str,
        labels: object,
        predictions: object,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: object = None,
        walltime: float | None = None,
    ) -> None:
        """Write precision over recall. labels: 0 or 1. predictions: from 0 to 1."""
        made = curves.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(global_step, walltime, made)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: object,
        false_positive_counts: object,
        true_negative_counts: object,
        false_negative_counts: object,
        precision: object,
        recall: object,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: object = None,
        walltime: float | None = None,
    ) -> None:
        """Write precision over recall that is counted already, by thresholds."""
        made = curves.pr_curve_raw(
            tag, true_positive_counts, false_positive_counts, true_negative_counts,
            false_negative_counts, precision, recall, num_thresholds, weights,
        )  # fmt: skip
        self._add(global_step, walltime, made)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Write that several figures are one chart."""
        chart = curves.chart("Multiline", tags, category, title)
        self._add(None, None, curves.custom_scalars([chart]))

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Write that a figure is shown between two others."""
        chart = curves.chart("Margin", tags, category, title)
        self._add(None, None, curves.custom_scalars([chart]))

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Write which charts are shown: ``{"a": {"b": ["Multiline", ["x", "y"]]}}``."""
        self._add(None, None, curves.custom_scalars(layout))

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
