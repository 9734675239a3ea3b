"""`torch.utils.tensorboard`: the records that the package ``tensorboard`` reads back."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette.torch as torch

pytest.importorskip("tensorboard", reason="the files are written by the package tensorboard")

from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from maquette.torch.utils.tensorboard import SummaryWriter
from maquette.torch.utils.tensorboard.graphs import graph
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


def test_onnx_graphs_are_not_written_and_say_so(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer, pytest.raises(NotImplementedError, match="ONNX"):
        writer.add_onnx_graph("net.onnx")


def test_what_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(ValueError, match="a scalar is expected, got 2 numbers"):
            writer.add_scalar("loss", torch.ones(2))
        with pytest.raises(ValueError, match="dataformats should name each of 3 dimensions"):
            writer.add_image("i", torch.ones(3, 4, 5), dataformats="HW")
        with pytest.raises(ValueError, match="BxNx3"):
            writer.add_mesh("m", torch.ones(4, 3))
        with pytest.raises(AssertionError, match="1 dimensional"):
            writer.add_audio("a", torch.ones(2, 3))


def test_a_tensor_is_written_with_its_shape_and_dtype(tmp_path: Path) -> None:
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float16)
    tensor = written(tmp_path, lambda writer: writer.add_tensor("t", x)).tensor
    assert [dim.size for dim in tensor.tensor_shape.dim] == [1, 2]
    assert np.array(tensor.half_val, np.uint16).view(np.float16).tolist() == [1, 2]


def test_a_sound_is_cut_where_it_is_too_loud(tmp_path: Path) -> None:
    x = torch.tensor([0.0, 0.5, -3.0])
    with pytest.warns(UserWarning, match="is cut"):
        audio = written(tmp_path, lambda writer: writer.add_audio("a", x, sample_rate=8000)).audio
    assert (audio.sample_rate, audio.length_frames) == (8000, 3)
    samples = np.frombuffer(audio.encoded_audio_string[-6:], "<i2")
    assert samples.tolist() == [0, 16383, -32767]


def test_films_side_by_side_are_one_picture_that_moves(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow writes pictures")
    films = torch.zeros(2, 3, 3, 4, 5, dtype=torch.uint8)
    films[1, 2] = 255
    made = written(tmp_path, lambda writer: writer.add_video("v", films)).image
    assert (made.height, made.width) == (4, 10)
    drawn = image.open(io.BytesIO(made.encoded_image_string))
    drawn.seek(2 if drawn.n_frames == 3 else 1)
    assert np.asarray(drawn.convert("L"))[0, [0, 9]].tolist() == [0, 255]


def test_boxes_are_drawn_on_pictures(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow writes pictures")
    x, boxes = torch.zeros(3, 8, 9), torch.tensor([[2, 1, 6, 5]])
    made = written(tmp_path, lambda w: w.add_image_with_boxes("b", x, boxes, rescale=2)).image
    assert (made.height, made.width) == (16, 18)
    drawn = np.asarray(image.open(io.BytesIO(made.encoded_image_string)))
    assert drawn[4, 5, 0] > 200
    assert drawn[14, 16].tolist() == [0, 0, 0]


def test_a_mesh_has_a_value_for_each_of_its_parts(tmp_path: Path) -> None:
    x = torch.rand(1, 4, 3)
    with SummaryWriter(tmp_path) as writer:
        writer.add_mesh("m", x, colors=x * 255, faces=torch.zeros(1, 2, 3).long())
    tags = [value.tag for _, value in values(tmp_path)]
    assert tags == ["m_VERTEX", "m_FACE", "m_COLOR"]


def test_a_curve_says_precision_over_recall(tmp_path: Path) -> None:
    labels, given = torch.tensor([0, 1, 1, 0]), torch.tensor([0.1, 0.9, 0.4, 0.6])
    curve = written(tmp_path, lambda w: w.add_pr_curve("p", labels, given, num_thresholds=3))
    rows = np.array(curve.tensor.float_val).reshape(6, 3)
    assert rows[:4].tolist() == [[2, 1, 0], [2, 1, 0], [0, 1, 2], [0, 1, 2]]
    assert rows[4:].tolist() == [[0.5, 0.5, 0], [1, 0.5, 0]]


def test_a_chart_with_margins_has_three_tags(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer, pytest.raises(ValueError, match="three tags, got 2"):
        writer.add_custom_scalars({"a": {"b": ["Margin", ["x", "y"]]}})


def test_points_are_written_with_labels_and_pictures(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image", reason="Pillow writes pictures")
    with SummaryWriter(tmp_path) as writer:
        rows = [["a", 1], ["b", 2]]
        pictures = torch.zeros(2, 3, 4, 5)
        writer.add_embedding(torch.eye(2), rows, pictures, 3, "t/s", metadata_header=["n", "v"])
    folder = tmp_path / "00003" / "t%2fs"
    assert (folder / "tensors.tsv").read_text() == "1.0\t0.0\n0.0\t1.0\n"
    assert (folder / "metadata.tsv").read_text() == "n\tv\na\t1\nb\t2\n"
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert 'tensor_name: "t/s:00003"' in config
    assert "single_image_dim: 5\n    single_image_dim: 4" in config


def test_a_graph_has_a_node_for_each_operator_in_its_modules_box(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    nodes = {node.name.partition(".")[0]: node for node in graph(net, torch.rand(1, 3)).node}
    relu = nodes["Sequential/ReLU[1]/relu"]
    assert relu.op == "aten::relu"
    assert next(iter(relu.input)).startswith("Sequential/Linear[0]/")
    assert [dim.size for dim in relu.attr["_output_shapes"].list.shape[0].dim] == [1, 2]
    assert list(nodes["output/output"].input) == [relu.name]
    assert net.training


def test_a_graph_is_written_as_an_event(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(torch.nn.Linear(3, 2), torch.rand(1, 3))
    assert b"Linear/weight/weight" in next(tmp_path.glob("events.*")).read_bytes()


def test_figures_are_pictures_and_are_closed(tmp_path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="Matplotlib draws figures")
    drawn = [pyplot.figure(figsize=(1, 1)) for _ in range(2)]
    made = written(tmp_path, lambda writer: writer.add_figure("f", drawn, 3)).image
    assert (made.height, made.width) == (100, 200)
    assert pyplot.get_fignums() == []


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
