"""`torch.utils.tensorboard`: the records that the package ``tensorboard`` reads back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette.torch as torch

pytest.importorskip("tensorboard", reason="the files are written by the package tensorboard")

from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from maquette.torch.utils.tensorboard import SummaryWriter
from maquette.torch.utils.tensorboard.summary import hparams


def values(folder: Path) -> list[Any]:
    """The values of the summaries in the files of a folder, by the package's own reader."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    files = sorted(folder.glob("events.*"))
    events = [event for file in files for event in LegacyEventFileLoader(str(file)).Load()]
    return [(event.step, value) for event in events for value in event.summary.value]


def written(folder: Path, write: Callable[[Any], object]) -> Any:
    """What one call of a writer writes."""
    with SummaryWriter(folder) as writer:
        write(writer)
    ((_, value),) = values(folder)
    return value


def test_a_number_is_written_with_its_step(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss/train", torch.tensor(2.5), 7)
        writer.add_scalar("loss/test", np.float64(1.5), 8, new_style=True, double_precision=True)
    (first, old), (second, new) = values(tmp_path)
    assert (first, old.tag, old.simple_value) == (7, "loss/train", 2.5)
    assert (second, new.tag, list(new.tensor.double_val)) == (8, "loss/test", [1.5])


def test_numbers_of_one_figure_go_to_folders_of_their_own(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("run/x", {"a": 1, "b": 2}, 5)
    found = [values(tmp_path / f"run_x_{name}")[0][1] for name in "ab"]
    assert [(value.tag, value.simple_value) for value in found] == [("run/x", 1), ("run/x", 2)]


def test_a_histogram_counts_all_values(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(1000) * 3
    histogram = written(tmp_path, lambda writer: writer.add_histogram("h", x)).histo
    limits, counts = np.array(histogram.bucket_limit), np.array(histogram.bucket)
    assert counts.sum() == histogram.num == 1000
    below = [(x.numpy() < limit).sum() for limit in limits[:-1]]
    np.testing.assert_array_equal(counts.cumsum()[:-1], below)


def test_a_histogram_of_few_bins_keeps_the_counts(tmp_path: Path) -> None:
    def write(writer: Any) -> None:
        writer.add_histogram("h", np.arange(100.0), bins=50, max_bins=7)

    histogram = written(tmp_path, write).histo
    assert sum(histogram.bucket) == 100
    assert len(histogram.bucket) == 9  # eight bins, and none below


def test_a_batch_of_pictures_is_a_grid_of_eight_across(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    image = written(tmp_path, lambda writer: writer.add_images("i", torch.rand(9, 1, 4, 5))).image
    assert (image.height, image.width, image.colorspace) == (8, 40, 3)


def test_a_text_is_written_for_the_texts_plugin(tmp_path: Path) -> None:
    value = written(tmp_path, lambda writer: writer.add_text("note", "hello"))
    assert (value.tag, list(value.tensor.string_val)) == ("note/text_summary", [b"hello"])


def test_what_is_not_written_says_so(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(NotImplementedError, match="numbers, texts, histograms and pictures"):
            writer.add_graph(None)
        with pytest.raises(ValueError, match="a scalar is expected, got 2 numbers"):
            writer.add_scalar("loss", torch.ones(2))
        with pytest.raises(ValueError, match="dataformats should name each of 3 dimensions"):
            writer.add_image("i", torch.ones(3, 4, 5), dataformats="HW")


def test_hyperparameters_are_written_to_a_folder_of_the_run(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        given = {"lr": 0.1, "net": "small", "deep": True, "seed": torch.tensor(3), "none": None}
        writer.add_hparams(given, {"loss": 2.0}, {"net": ["small", "large"]}, run_name="one")
    found = values(tmp_path / "one")
    tags = [value.tag for _, value in found]
    assert tags == [
        "_hparams_/experiment",
        "_hparams_/session_start_info",
        "_hparams_/session_end_info",
        "loss",
    ]
    started = HParamsPluginData.FromString(found[1][1].metadata.plugin_data.content)
    read = started.session_start_info.hparams
    assert read["lr"].number_value == 0.1
    assert read["net"].string_value == "small"
    assert read["seed"].number_value == 3
    assert "none" not in read


def test_what_is_no_hyperparameter_is_refused() -> None:
    with pytest.raises(TypeError, match="should be dictionaries"):
        hparams([1], {})
    with pytest.raises(ValueError, match="one of int, float, str, bool"):
        hparams({"a": [1]}, {})
    with pytest.raises(TypeError, match="list of same type"):
        hparams({"a": 1}, {}, {"a": ["x"]})
