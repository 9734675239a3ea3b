"""`torch.distributed.checkpoint.hf_storage`: checkpoints as folders of safetensors files."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

import maquette as mq
import maquette.torch as torch
import maquette.torch.distributed.checkpoint as checkpoint
from maquette.torch.distributed.checkpoint import (
    DefaultLoadPlanner,
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)


def header(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    found: dict[str, Any] = json.loads(data[8 : 8 + length])
    return found


def state() -> dict[str, Any]:
    weight = torch.arange(6.0).view(3, 2).t()  # as it is seen, not as it lies
    return {
        "m": {"w": weight, "b": torch.ones(3, dtype=torch.bfloat16)},
        "step": torch.tensor(3),
        "none": torch.zeros(0, 2),
    }


def zeros() -> dict[str, Any]:
    blank = {"w": torch.zeros(2, 3), "b": torch.zeros(3)}
    return {"m": blank, "step": torch.tensor(0), "none": torch.ones(0, 2)}


NUMBERS = {"m.w": 1, "m.b": 2, "step": 1, "none": 3}


@pytest.mark.parametrize("numbers", [None, NUMBERS])
@pytest.mark.parametrize("shards", [False, True])
def test_T57_states_are_saved_and_loaded_in_place(
    numbers: dict[str, int] | None, shards: bool, tmp_path: Path
) -> None:
    writer = HuggingFaceStorageWriter(tmp_path, numbers, save_distributed=shards)
    checkpoint.save(state(), storage_writer=writer)
    found = zeros()
    weight = found["m"]["w"]
    checkpoint.load(found, storage_reader=HuggingFaceStorageReader(tmp_path))
    assert found["m"]["w"] is weight
    assert weight.tolist() == [[0, 2, 4], [1, 3, 5]]
    assert found["m"]["b"].tolist() == [1, 1, 1]
    assert found["step"].item() == 3


def test_T57_files_say_what_pytorchs_say(tmp_path: Path) -> None:
    checkpoint.save(state(), storage_writer=HuggingFaceStorageWriter(tmp_path))
    name = "model-00001-of-00001.safetensors"
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"] == {"total_size": 24 + 6 + 8}
    assert index["weight_map"] == dict.fromkeys(NUMBERS, name)
    strings = header(tmp_path / name)["__metadata__"]
    assert (strings["DCP_VERSION"], strings["format"]) == ("1.0", "pt")
    assert json.loads(strings["DCP_SHARDING_INFO"]) == {
        "m.w": {"saved_offsets": [0, 0]}, "m.b": {"saved_offsets": [0]},
        "step": {"saved_offsets": []}, "none": {"saved_offsets": [0, 0]},
    }  # fmt: skip


def test_T57_files_of_processes_are_put_together(tmp_path: Path) -> None:
    writer = HuggingFaceStorageWriter(
        tmp_path, NUMBERS, save_distributed=True, enable_consolidation=True
    )
    checkpoint.save(state(), storage_writer=writer)
    shards = sorted(path.name for path in (tmp_path / "sharded").iterdir())
    assert shards == [f"shard-00001-model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
    whole = [path for path in sorted(tmp_path.iterdir()) if path.is_file()]
    assert [path.name for path in whole] == [
        *(f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)),
        "model.safetensors.index.json",
    ]
    found = zeros()
    checkpoint.load(found, checkpoint_id=tmp_path, storage_reader=HuggingFaceStorageReader("-"))
    assert found["m"]["w"].tolist() == [[0, 2, 4], [1, 3, 5]]


def _two_processes(folder: Path) -> None:
    whole = mq.arange(6.0).view(3, 2)
    for number, rows in enumerate([slice(0, 2), slice(2, 3)], 1):
        places = json.dumps({"w": {"saved_offsets": [rows.start, 0]}})
        path = folder / f"shard-{number:05}-model-00001-of-00001.safetensors"
        mq.save({"w": whole[rows].clone()}, path, metadata={"DCP_SHARDING_INFO": places})


def test_T57_pieces_of_several_processes_are_read(tmp_path: Path) -> None:
    _two_processes(tmp_path)
    reader = HuggingFaceStorageReader(tmp_path)
    entry = reader.read_metadata().state_dict_metadata["w"]
    assert isinstance(entry, checkpoint.TensorStorageMetadata)
    assert (tuple(entry.size), len(entry.chunks)) == ((3, 2), 2)
    found = {"w": torch.zeros(3, 2)}
    checkpoint.load(found, storage_reader=reader)
    assert found["w"].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_T57_a_missing_piece_is_refused(tmp_path: Path) -> None:
    _two_processes(tmp_path)
    next(tmp_path.glob("shard-00001*")).unlink()
    with pytest.raises(ValueError, match="pieces of 'w' are missing"):
        checkpoint.load({"w": torch.zeros(3, 2)}, storage_reader=HuggingFaceStorageReader(tmp_path))


def test_T57_plain_files_have_whole_tensors(tmp_path: Path) -> None:
    mq.save({"w": mq.ones(2, 3)}, tmp_path / "model.safetensors")
    found = {"w": torch.zeros(2, 3)}
    checkpoint.load(found, storage_reader=HuggingFaceStorageReader(tmp_path))
    assert found["w"].sum().item() == 6


def test_T57_what_a_checkpoint_lacks_may_stay_as_it_is(tmp_path: Path) -> None:
    mq.save({"w": mq.ones(2)}, tmp_path / "model.safetensors")
    found = {"w": torch.zeros(2), "other": torch.zeros(1)}
    reader = HuggingFaceStorageReader(tmp_path)
    with pytest.raises(RuntimeError, match="Missing key in checkpoint state_dict: other"):
        checkpoint.load(found, storage_reader=reader, planner=DefaultLoadPlanner())
    checkpoint.load(
        found, storage_reader=reader, planner=DefaultLoadPlanner(allow_partial_load=True)
    )
    assert (found["w"].tolist(), found["other"].tolist()) == ([1, 1], [0])


@pytest.mark.parametrize("value", [1, torch.ones(2, dtype=torch.complex64)])
def test_T57_what_the_files_cannot_hold_is_refused(value: object, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'a'"):
        checkpoint.save({"a": value}, storage_writer=HuggingFaceStorageWriter(tmp_path / "new"))
    assert not list(tmp_path.iterdir())


def test_T57_a_tensor_without_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match=r"no file for m\.b, "):
        checkpoint.save(state(), storage_writer=HuggingFaceStorageWriter(tmp_path, {"m.w": 1}))


def test_planners_of_a_programs_own_are_refused(tmp_path: Path) -> None:
    class Own(DefaultLoadPlanner):
        pass

    with pytest.raises(NotImplementedError, match="planners"):
        checkpoint.load({}, checkpoint_id=tmp_path, planner=Own())
    with pytest.raises(NotImplementedError, match="flatten_state_dict"):
        checkpoint.DefaultSavePlanner(flatten_state_dict=False)
