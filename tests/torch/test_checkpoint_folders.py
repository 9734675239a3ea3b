"""`torch.distributed.checkpoint` of one process: states saved in a folder and loaded in place."""

import pickletools
from pathlib import Path
from typing import Any

import pytest

import maquette.torch as torch
import maquette.torch.distributed.checkpoint as checkpoint
from maquette.torch.distributed.checkpoint.format_utils import (
    dcp_to_torch_save,
    torch_save_to_dcp,
)
from maquette.torch.distributed.checkpoint.metadata import TensorStorageMetadata


def trained() -> tuple[Any, Any]:
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_a_state_is_loaded_in_place(tmp_path: Path) -> None:
    model, optimizer = trained()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}
    checkpoint.save(state, checkpoint_id=tmp_path)
    other, its_optimizer = trained()
    found = {"model": other.state_dict(), "optimizer": its_optimizer.state_dict(), "step": 0}
    weight = found["model"]["weight"]
    checkpoint.load(found, checkpoint_id=tmp_path)
    assert found["step"] == 3
    assert found["model"]["weight"] is weight
    assert torch.equal(other.weight, model.weight)
    assert found["optimizer"]["param_groups"][0]["lr"] == 0.5
    assert torch.equal(
        found["optimizer"]["state"][0]["exp_avg"], state["optimizer"]["state"][0]["exp_avg"]
    )


def test_entries_are_named_by_their_places(tmp_path: Path) -> None:
    """Lists with tensors or mappings come apart, other lists and all tuples are one entry."""
    state = {"a": {"b": torch.ones(2)}, "l": [torch.ones(1), {"c": 1}], "n": [1, 2], "t": (1,)}
    found = checkpoint.save(state, checkpoint_id=tmp_path)
    assert sorted(found.state_dict_metadata) == ["a.b", "l.0", "l.1.c", "n", "t"]
    assert found.planner_data["l.1.c"] == ("l", 1, "c")
    assert isinstance(found.state_dict_metadata["a.b"], TensorStorageMetadata)


def test_the_index_is_written_under_pytorchs_names(tmp_path: Path) -> None:
    checkpoint.save({"x": torch.ones(2)}, checkpoint_id=tmp_path)
    data = (tmp_path / ".metadata").read_bytes()
    names = {str(arg) for op, arg, _ in pickletools.genops(data) if op.name == "GLOBAL"}
    assert "torch.distributed.checkpoint.metadata Metadata" in names
    assert "torch.distributed.checkpoint.filesystem _StorageInfo" in names
    assert not any(name.startswith("maquette") for name in names)


def test_objects_with_states_give_and_take_them(tmp_path: Path) -> None:
    model, other = trained()[0], trained()[0]
    checkpoint.save({"model": model}, checkpoint_id=tmp_path)
    checkpoint.load({"model": other}, checkpoint_id=tmp_path)
    assert isinstance(model, checkpoint.Stateful)
    assert torch.equal(other.bias, model.bias)


def test_pieces_of_a_tensor_are_put_where_they_belong(tmp_path: Path) -> None:
    """As several processes of PyTorch write them."""
    found = checkpoint.save({"x": torch.arange(4.0), "y": torch.ones(2)}, checkpoint_id=tmp_path)
    index = {key.fqn: info for key, info in found.storage_data.items()}
    halves = {checkpoint.MetadataIndex("x", [2], 1): index["y"]}
    found.storage_data = {**found.storage_data, **halves}
    checkpoint.FileSystemWriter(tmp_path)._write_index(found)
    state = {"x": torch.zeros(4)}
    checkpoint.load(state, checkpoint_id=tmp_path)
    assert state["x"].tolist() == [0, 1, 1, 1]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    checkpoint.save({"x": torch.ones(2)}, checkpoint_id=tmp_path)
    with pytest.raises(RuntimeError, match="Missing key in checkpoint state_dict: y"):
        checkpoint.load({"y": torch.ones(2)}, checkpoint_id=tmp_path)
    with pytest.raises(ValueError, match="Size mismatch"):
        checkpoint.load({"x": torch.ones(3)}, checkpoint_id=tmp_path)
    with pytest.raises(NotImplementedError, match="planners"):
        checkpoint.save({}, checkpoint_id=tmp_path, planner=object())
    with pytest.raises(RuntimeError, match="already exists"):
        checkpoint.save({}, storage_writer=checkpoint.FileSystemWriter(tmp_path, overwrite=False))
    with pytest.raises(RuntimeError, match="checkpoint_id"):
        checkpoint.save({})


def test_the_folder_that_a_call_names_goes_before_the_writers(tmp_path: Path) -> None:
    writer = checkpoint.FileSystemWriter(tmp_path / "of the writer")
    checkpoint.save({"x": 1}, checkpoint_id=tmp_path / "named", storage_writer=writer)
    assert [path.name for path in tmp_path.iterdir()] == ["named"]
    state = {"x": 0}
    reader = checkpoint.FileSystemReader(tmp_path / "of the reader")
    checkpoint.load(state, checkpoint_id=tmp_path / "named", storage_reader=reader)
    assert state == {"x": 1}


def test_a_save_in_the_background_is_done_when_it_is_asked_for(tmp_path: Path) -> None:
    found = checkpoint.async_save({"x": 1}, checkpoint_id=tmp_path)
    state = {"x": 0}
    checkpoint.load(state, storage_reader=checkpoint.FileSystemReader(tmp_path))
    assert state == {"x": 1}
    assert list(found.result().state_dict_metadata) == ["x"]


def test_what_plans_for_more_processes_is_absent_by_name() -> None:
    with pytest.raises(NotImplementedError, match=r"SavePlanner .*one process"):
        checkpoint.SavePlanner()


def test_what_fails_is_told_by_the_process(tmp_path: Path) -> None:
    """PyTorch raises that class alone; here it is what failed, too."""
    checkpoint.save({"x": torch.ones(2)}, checkpoint_id=tmp_path)
    with pytest.raises(checkpoint.CheckpointException, match="Size mismatch") as caught:
        checkpoint.load({"x": torch.ones(3)}, checkpoint_id=tmp_path)
    assert isinstance(caught.value, ValueError)
    assert list(caught.value.failures) == [0]
    with pytest.raises(FileNotFoundError, match="metadata") as caught:
        checkpoint.load({"x": torch.ones(3)}, checkpoint_id=tmp_path / "nowhere")
    assert isinstance(caught.value, checkpoint.CheckpointException)


@pytest.mark.parametrize("name", [".metadata", "__0_0.distcp"])
def test_a_damaged_folder_is_refused_by_the_file(name: str, tmp_path: Path) -> None:
    checkpoint.save({"x": torch.ones(2)}, checkpoint_id=tmp_path)
    whole = (tmp_path / name).read_bytes()
    for end in range(0, len(whole), 7):
        (tmp_path / name).write_bytes(whole[:end])
        with pytest.raises(torch.serialization.FileError, match=name):
            checkpoint.load({"x": torch.zeros(2)}, checkpoint_id=tmp_path)


def test_a_folder_becomes_a_file_and_a_file_a_folder(tmp_path: Path) -> None:
    state = {"a": {"b": torch.ones(2), "c": {0: 1}}, "l": [torch.zeros(1), {"d": (1, 2)}]}
    state["n"] = None
    checkpoint.save(state, checkpoint_id=tmp_path / "folder")
    dcp_to_torch_save(tmp_path / "folder", tmp_path / "file.pt")
    torch_save_to_dcp(tmp_path / "file.pt", tmp_path / "again")
    dcp_to_torch_save(tmp_path / "again", tmp_path / "again.pt")
    for name in ("file.pt", "again.pt"):
        made = torch.load(tmp_path / name)
        assert made["a"]["b"].tolist() == [1.0, 1.0]
        assert made["a"]["c"] == {"0": 1}
        assert made["l"][0].tolist() == [0.0]
        assert made["l"][1:] == [{"d": (1, 2)}]
        assert made["n"] is None
