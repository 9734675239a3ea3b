"""Checkpoints: ours, and those that PyTorch wrote."""

import io
import pickle
import tracemalloc
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import maquette.torch as torch
from maquette.tensor import saving


def round_trip(obj: object) -> object:
    """What comes back of a checkpoint."""
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file)


def test_T56_nested_checkpoints_come_back() -> None:
    given = {
        "model": OrderedDict(w=torch.ones(2)),
        "epoch": 3,
        "history": [0.5, (None, "x", True)],
        4: torch.float16,
        "place": torch.device("cuda", 1),
        "size": torch.Size([1, 2]),
    }
    made = round_trip(given)
    assert type(made["model"]) is OrderedDict
    assert made["model"].pop("w").tolist() == [1.0, 1.0]
    given["model"].pop("w")
    assert made == given


def test_T56_a_checkpoint_may_be_one_tensor() -> None:
    assert round_trip(torch.ones(2)).tolist() == [1.0, 1.0]


def test_T56_tensors_that_shared_share_again() -> None:
    a = torch.ones(2, 3)
    made = round_trip({"a": [a], "b": {"t": a.t()}})
    assert made["a"][0].untyped_storage() is made["b"]["t"].untyped_storage()


def test_T57_a_flat_dict_is_a_plain_safetensors_file(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    torch.save({"w": torch.ones(2)}, path)
    assert b"__metadata__" not in path.read_bytes()
    assert torch.load(path)["w"].tolist() == [1.0, 1.0]


def test_T57_whole_objects_are_refused_with_their_place() -> None:
    with pytest.raises(TypeError, match=r"save\(\): a\.0 is a .*Path.*state_dict"):
        torch.save({"a": [Path()]}, io.BytesIO())


def test_T56_map_location_takes_no_function() -> None:
    with pytest.raises(TypeError, match="got a function"):
        torch.load(io.BytesIO(), map_location=lambda storage, place: storage)


class Named:
    """Pickles as a global name of another module."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


class Reduced:
    """Pickles as a call."""

    def __init__(self, function: Named, *args: object) -> None:
        self.function, self.args = function, args


class PyTorchsPickler(pickle._Pickler):
    """Writes pickles as PyTorch's files hold them, without PyTorch."""

    def persistent_id(self, obj: object) -> object:
        return obj.args if isinstance(obj, Reduced) and obj.function is STORAGE else None

    def save(self, obj: object, save_persistent_id: bool = True) -> None:
        if isinstance(obj, Named):
            self.write(b"c" + f"{obj.module}\n{obj.name}\n".encode())
        elif isinstance(obj, Reduced) and obj.function is not STORAGE:
            self.save(obj.function)
            self.save(obj.args)
            self.write(b"R")
        else:
            super().save(obj, save_persistent_id)


STORAGE = Named("", "")
TENSOR = Named("torch._utils", "_rebuild_tensor_v2")


def stored(key: str, numel: int, kind: str = "FloatStorage", place: str = "cpu") -> Reduced:
    """A reference to a storage of the file."""
    return Reduced(STORAGE, "storage", Named("torch", kind), key, place, numel)


def pytorchs_file(obj: object, **storages: np.ndarray) -> io.BytesIO:
    """A zip file as PyTorch's ``save`` writes it."""
    data = io.BytesIO()
    PyTorchsPickler(data, 2).dump(obj)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", data.getvalue())
        for key, array in storages.items():
            archive.writestr(f"archive/data/{key.removeprefix('s')}", array.tobytes())
    file.seek(0)
    return file


def test_T56_pytorchs_files_are_read() -> None:
    a = Reduced(TENSOR, stored("0", 6), 0, (2, 3), (3, 1), False, {})
    t = Reduced(TENSOR, stored("0", 6), 1, (2,), (3,), True, {})
    made = torch.load(pytorchs_file({"a": a, "t": t}, s0=np.arange(6, dtype=np.float32)))
    assert made["a"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert made["t"].tolist() == [1.0, 4.0]
    assert made["t"].requires_grad
    assert made["a"].untyped_storage() is made["t"].untyped_storage()


def test_T56_pytorchs_parameters_and_dtypes_are_read() -> None:
    half = Reduced(TENSOR, stored("0", 2, "HalfStorage"), 0, (2,), (1,), False, {})
    parameter = Reduced(Named("torch._utils", "_rebuild_parameter"), half, True, {})
    made = torch.load(pytorchs_file([parameter], s0=np.ones(2, np.float16)))[0]
    assert isinstance(made, torch.nn.Parameter)
    assert made.dtype is torch.float16


def test_T57_pytorchs_files_run_no_code() -> None:
    evil = Reduced(Named("os", "system"), "true")
    with pytest.raises(pickle.UnpicklingError, match=r"os\.system"):
        torch.load(pytorchs_file(evil))


def test_T57_a_zip_without_a_pickle_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("readme", "")
    file.seek(0)
    with pytest.raises(ValueError, match=r"no data\.pkl"):
        torch.load(file)


def built(obj: object, state: object) -> bytes:
    """A pickle of an object that is given a state."""
    data = io.BytesIO()
    pickler = PyTorchsPickler(data, 2)
    pickler.write(pickle.PROTO + b"\x02")
    pickler.save(obj)
    pickler.save(state)
    pickler.write(pickle.BUILD + pickle.STOP)
    return data.getvalue()


def file_of(pickled: bytes, **storages: np.ndarray) -> io.BytesIO:
    """A zip file as PyTorch's ``save`` writes it, with a pickle of one's own."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        for key, array in storages.items():
            archive.writestr(f"archive/data/{key.removeprefix('s')}", array.tobytes())
    file.seek(0)
    return file


TWO = Reduced(TENSOR, stored("0", 2), 0, (2,), (1,), False, {})


@pytest.mark.parametrize(
    "obj, state",
    [
        (TWO, {"item": 3}),
        (TWO, (None, {"_keys": 0})),
        (Named("torch", "Size"), (None, {"numel": 1})),
        (Named("torch._utils", "_rebuild_tensor_v2"), (None, {"__defaults__": (1,)})),
        (Reduced(Named("collections", "OrderedDict")), {"update": 1}),
        (Reduced(Named("collections", "Counter")), {"tag": 1}),
    ],
)
def test_T57_state_that_a_class_does_not_keep_is_refused(obj: object, state: object) -> None:
    with pytest.raises(pickle.UnpicklingError, match="state"):
        torch.load(file_of(built(obj, state), s0=np.ones(2, np.float32)))


def test_T57_the_metadata_of_a_state_dict_comes_back() -> None:
    state = {"_metadata": {"": {"version": 1}}}
    made = torch.load(file_of(built(Reduced(Named("collections", "OrderedDict")), state)))
    assert made._metadata == {"": {"version": 1}}


WITH_STATE = Named("torch._utils", "_rebuild_parameter_with_state")


def test_T57_a_parameters_own_attributes_come_back() -> None:
    parameter = Reduced(WITH_STATE, TWO, True, {}, {"tag": "embedding"})
    made = torch.load(pytorchs_file(parameter, s0=np.ones(2, np.float32)))
    assert made.tag == "embedding"


@pytest.mark.parametrize("name", ["backward", "_ag", "grad", "__class__", "_keys"])
def test_T57_a_parameters_state_replaces_nothing_of_its_class(name: str) -> None:
    parameter = Reduced(WITH_STATE, TWO, True, {}, {name: 0})
    with pytest.raises(pickle.UnpicklingError, match=name):
        torch.load(pytorchs_file(parameter, s0=np.ones(2, np.float32)))


def peak_of_loading(file: io.BytesIO) -> int:
    """Bytes that loading takes at its peak."""
    tracemalloc.start()
    try:
        torch.load(file)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_T56_storages_are_read_once_straight_into_place(monkeypatch) -> None:
    monkeypatch.setattr(saving, "_PART", 1 << 20)
    nbytes = 1 << 24
    values = np.zeros(nbytes // 4, np.float32)
    numel = values.size
    tensor = Reduced(TENSOR, stored("0", numel), 0, (numel,), (1,), False, {})
    assert peak_of_loading(pytorchs_file([tensor, tensor], s0=values)) < 1.3 * nbytes


def test_T56_a_file_of_ours_takes_the_memory_of_its_tensors(monkeypatch) -> None:
    monkeypatch.setattr(saving, "_PART", 1 << 20)
    file, nbytes = io.BytesIO(), 1 << 24
    torch.save({"a": torch.zeros(nbytes // 8), "b": torch.zeros(nbytes // 8)}, file)
    file.seek(0)
    assert peak_of_loading(file) < 1.3 * nbytes


def test_T57_tensors_that_overlap_in_a_file_are_refused() -> None:
    header = b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},' + (
        b'"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}'
    )
    file = io.BytesIO(len(header).to_bytes(8, "little") + header + b"abc")
    with pytest.raises(ValueError, match="'b' overlap"):
        torch.load(file)
