"""Checkpoints: ours, and those that PyTorch wrote."""

import io
import pickle
import tracemalloc
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import maquette as mq
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


def test_T57_safetensors_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    mq.save({"w": mq.ones(2)}, path)
    assert torch.load(path)["w"].tolist() == [1.0, 1.0]


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


# --- whole objects, and files of both libraries (finding 53) --------------------------


def loaded(obj: object, **options: object) -> object:
    """What comes back of a file that may hold anything."""
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file, weights_only=False, **options)


def test_whole_modules_come_back() -> None:
    """Finding 53."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.LSTM(3, 1))
    made = loaded(model)
    assert repr(made) == repr(model)
    assert torch.equal(made[0].weight, model[0].weight)
    assert made[2](torch.ones(1, 3))[0].shape == (1, 1)


def test_a_file_has_pytorchs_names_of_things() -> None:
    """Finding 53: PyTorch finds its classes and functions by them."""
    file = io.BytesIO()
    torch.save(torch.nn.MarginRankingLoss(), file)
    pickled = zipfile.ZipFile(file).read("archive/data.pkl")
    assert b"ctorch.nn.modules.loss\nMarginRankingLoss\n" in pickled
    assert b"maquette" not in pickled


def test_hooks_and_buffers_of_a_module_come_back() -> None:
    """Finding 53."""
    model = torch.nn.Linear(1, 1)
    model.register_buffer("hidden", torch.ones(1), persistent=False)
    model.register_forward_hook(doubled)
    made = loaded(model)
    assert "hidden" not in made.state_dict()
    assert made.hidden.item() == 1.0
    assert made(torch.ones(1)).item() == 2 * made.forward(torch.ones(1)).item()


def doubled(module: object, args: object, output: object) -> object:
    """A hook."""
    return output * 2


@pytest.mark.parametrize(
    "value", [1 + 2j, {1, 2}, b"bytes", frozenset([3]), 2**70, OrderedDict(a=1), float("inf")]
)
def test_plain_values_need_no_trust(value: object) -> None:
    """Finding 53: complex, set, bytes and their like."""
    made = round_trip([value])[0]
    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize(
    "kind", [torch.bfloat16, torch.complex64, torch.uint16, torch.float8_e4m3fn, torch.bool]
)
def test_every_dtype_comes_back(kind: object) -> None:
    """Finding 53."""
    made = round_trip(torch.tensor([1, 0]).to(kind))
    assert made.dtype is kind
    assert made.to(torch.complex64).tolist() == [1, 0]


@pytest.mark.parametrize("name", ["bits8", "bits16", "float4_e2m1fn_x2", "bits1x8"])
def test_dtypes_that_nothing_computes_with_come_back(name: str) -> None:
    kind = getattr(torch, name)
    made = round_trip([torch.tensor([1, 2], dtype=torch.uint8).view(kind), kind, torch.uint4])
    assert made[1:] == [kind, torch.uint4]
    assert made[0].dtype is kind
    assert made[0].view(torch.uint8).tolist() == [1, 2]


def test_conjugate_views_and_meta_tensors_come_back() -> None:
    """Finding 53."""
    conj, meta = round_trip([torch.tensor([1 + 2j]).conj(), torch.empty(2, 3, device="meta")])
    assert conj.is_conj()
    assert conj.tolist() == [1 - 2j]
    assert meta.device.type == "meta"
    assert meta.shape == (2, 3)


def test_old_files_are_written_and_read() -> None:
    """Finding 53: the format of before PyTorch 1.6."""
    a = torch.arange(6.0).reshape(2, 3)
    file = io.BytesIO()
    torch.save([a, a.t()], file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert file.getvalue().startswith(b"\x80\x02\x8a\nl\xfc\x9cF")
    first, second = torch.load(file)
    assert second.tolist() == a.t().tolist()
    assert first.untyped_storage() is second.untyped_storage()


def test_T57_old_files_that_were_cut_are_refused_as_damaged() -> None:
    file = io.BytesIO()
    torch.save(torch.ones(3), file, _use_new_zipfile_serialization=False)
    whole = file.getvalue()
    for end in range(1, len(whole)):
        with pytest.raises(saving.FileError):
            torch.load(io.BytesIO(whole[:end]))


def test_unknown_classes_are_refused_until_they_are_allowed() -> None:
    """Finding 53."""
    file = io.BytesIO()
    torch.save(Known(), file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"Weights only load failed.*Known.*add_safe"):
        torch.load(file)
    file.seek(0)
    with torch.serialization.safe_globals([Known]):
        assert torch.load(file).value == 3
    assert torch.serialization.get_safe_globals() == []


class Known:
    """A class that a file may be allowed to make."""

    def __init__(self) -> None:
        self.value = 3


def test_map_location_may_be_a_function() -> None:
    """Finding 53."""
    seen: list[str] = []
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    made = torch.load(file, map_location=lambda storage, where: seen.append(where) or storage)
    assert seen == ["cpu"]
    assert made.tolist() == [1.0, 1.0]


def test_storages_may_be_mapped_from_the_file(tmp_path: Path) -> None:
    """Finding 53: the bytes begin at a multiple of 64; writing leaves the file as it is."""
    path = tmp_path / "m.pt"
    torch.save([torch.ones(3), torch.zeros(2)], path)
    made = torch.load(path, mmap=True)
    assert made[0].data_ptr() % 64 == 0
    made[0].fill_(7)
    assert torch.load(path)[0].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("said, held", [(4, 1000), (1000, 4), (-1, 4)])
def test_a_storage_must_be_as_long_as_it_says(said: int, held: int) -> None:
    """Finding 53."""
    tensor = Reduced(TENSOR, stored("0", said), 0, (1,), (1,), False, {})
    with pytest.raises(torch.serialization.FileError, match="this file: the record 'data/0' has"):
        torch.load(pytorchs_file(tensor, s0=np.ones(held, np.float32)))


def test_a_bomb_is_not_unpacked() -> None:
    """Finding 53: 64 MB of zeros, deflated to 64 kB."""
    numel = 1 << 24
    file = io.BytesIO()
    data = io.BytesIO()
    tensor = Reduced(TENSOR, stored("0", numel), 0, (1,), (1,), False, {})
    PyTorchsPickler(data, 2).dump(tensor)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", data.getvalue())
        archive.writestr("archive/data/0", bytes(4 * numel))
    file.seek(0)
    with pytest.raises(torch.serialization.FileError, match="would unpack"):
        torch.load(file)


@pytest.mark.parametrize(
    "offset, size, stride",
    [(0, (4,), (1,)), (3, (1,), (1,)), (-1, (1,), (1,)), (0, (2,), (-1,)), (0, (2,), (1, 1))],
)
def test_tensors_stay_within_their_storages(offset: int, size: object, stride: object) -> None:
    """Finding 53."""
    tensor = Reduced(TENSOR, stored("0", 3), offset, size, stride, False, {})
    with pytest.raises(torch.serialization.FileError, match=r"beyond|no tensor has"):
        torch.load(pytorchs_file(tensor, s0=np.ones(3, np.float32)))


@pytest.mark.parametrize("keep", [0, 1, 3, 4, 30, 200, -30, -1])
def test_a_truncated_file_gives_one_class_of_error(keep: int, tmp_path: Path) -> None:
    """Finding 53: it is a RuntimeError as PyTorch's is, a ValueError, and names the file."""
    path = tmp_path / "cut.pt"
    torch.save({"a": torch.ones(100)}, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(torch.serialization.FileError, match=r"cut\.pt"):
        torch.load(path)


@pytest.mark.parametrize(
    "pickled", [b"", b"\x80", b"\x80\x02.", b"\x80\x02K", b"\x80\x02h\x01.", b"]]]R."]
)
def test_a_crafted_pickle_gives_one_class_of_error(pickled: bytes) -> None:
    """Finding 53."""
    with pytest.raises((torch.serialization.FileError, pickle.UnpicklingError), match="this file"):
        torch.load(file_of(pickled))


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{",
        b'{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}',
        b'{"__metadata__":{"maquette":"{"}}',
        b'{"__metadata__":{"maquette":"{\\"a\\":3}"},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
    ],
)
def test_a_crafted_safetensors_header_gives_one_class_of_error(header: bytes) -> None:
    """Finding 53."""
    file = io.BytesIO(len(header).to_bytes(8, "little") + header)
    with pytest.raises(torch.serialization.FileError, match="this file"):
        torch.load(file)


def test_classes_under_names_of_python_2_are_read() -> None:
    file = io.BytesIO()
    torch.save({"kind": int, "spread": range}, file)
    file.seek(0)
    assert torch.load(file, weights_only=False) == {"kind": int, "spread": range}


def test_a_file_that_was_saved_to_is_flushed(tmp_path: Path) -> None:
    with open(tmp_path / "saved.pt", "wb") as file:
        torch.save(torch.ones(3), file)
        assert torch.load(tmp_path / "saved.pt").tolist() == [1, 1, 1]


def test_an_object_that_gathers_what_is_written_is_flushed() -> None:
    class Gathering:
        calls: list[object] = []

        def write(self, data: bytes) -> None:
            self.calls.append(len(data))

        def flush(self) -> None:
            self.calls.append("flush")

    torch.save(torch.ones(3), Gathering())
    assert Gathering.calls[-1] == "flush"
    assert len(Gathering.calls) > 1


def test_data_is_skipped_and_the_bytes_are_set_aside(tmp_path: Path) -> None:
    t = torch.ones(2, 3)
    with torch.serialization.skip_data():
        torch.save(t, tmp_path / "zeros.pt")
    torch.save(t, tmp_path / "whole.pt")
    assert torch.load(tmp_path / "zeros.pt").tolist() == [[0.0] * 3] * 2
    sizes = {file.stat().st_size for file in tmp_path.iterdir()}
    assert len(sizes) == 1


def test_a_registered_package_tags_and_restores_storages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = torch.serialization.register_package.__globals__["_PACKAGES"]
    monkeypatch.setitem(torch.serialization.register_package.__globals__, "_PACKAGES", [*known])
    seen = []

    def restored(storage: object, tag: str) -> object:
        seen.append(tag)
        return storage if tag == "elsewhere" else None

    torch.serialization.register_package(1, lambda storage: "elsewhere", restored)
    torch.save(torch.ones(2), tmp_path / "tagged.pt")
    assert torch.load(tmp_path / "tagged.pt").tolist() == [1.0, 1.0]
    assert seen == ["elsewhere"]


def test_T57_a_buffer_comes_back_marked() -> None:
    made = round_trip(torch.nn.Buffer(torch.ones(2), persistent=False))
    assert isinstance(made, torch.nn.Buffer)
    assert not made.persistent


def test_T57_storages_within_plain_pickles_are_read() -> None:
    file = io.BytesIO()
    torch.save(torch.LongStorage([0, 1, 2]), file, _use_new_zipfile_serialization=False)
    assert torch.storage._load_from_bytes(file.getvalue()).tolist() == [0, 1, 2]


def test_T57_a_module_in_a_file_of_old_comes_with_its_source() -> None:
    class Old(pickle.Pickler):
        seen = False

        def persistent_id(self, obj: object) -> object:
            if obj is not torch.nn.ReLU or self.seen:
                return None
            self.seen = True
            return ("module", obj, "activation.py", "class ReLU: ...")

    file = io.BytesIO()
    for header in (0x1950A86A20F9469CFC6C, 1001, {}):
        pickle.dump(header, file, protocol=2)
    Old(file, 2).dump(torch.nn.ReLU())
    pickle.dump([], file, protocol=2)
    file.seek(0)
    assert isinstance(torch.load(file, weights_only=False), torch.nn.ReLU)


def test_T57_pickled_functions_of_pytorch_are_found() -> None:
    assert torch._C._VariableFunctionsClass.relu(torch.tensor([-1.0, 2.0])).tolist() == [0, 2]


@pytest.mark.parametrize("kind", [RuntimeError, FileNotFoundError])
def test_T57_a_file_without_a_folder_is_refused(tmp_path: Path, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="absent does not exist"):
        torch.save(1, tmp_path / "absent" / "x.pt")
