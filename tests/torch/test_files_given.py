"""Files as people give them to `save` and `load`, and how their bytes and objects are read."""

from __future__ import annotations

import bz2
import copy
import gzip
import io
import lzma
import mmap
import os
import pickle
import struct
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.torch import serialization
from maquette.torch.serialization import LoadEndianness, set_default_load_endianness


class Reads:
    """What has only the methods that reading needs."""

    def __init__(self, data: bytes) -> None:
        file = io.BytesIO(data)
        self.read, self.seek, self.tell = file.read, file.seek, file.tell


class Writes:
    """What has only the methods that writing needs."""

    def __init__(self) -> None:
        self.file = io.BytesIO()
        self.write, self.flush = self.file.write, self.file.flush


def saved(obj: object, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(obj, file, **options)
    return file.getvalue()


@pytest.mark.parametrize("zipped", [True, False])
def test_what_only_reads_and_writes_is_a_file(zipped: bool) -> None:
    target = Writes()
    torch.save(torch.ones(3), target, _use_new_zipfile_serialization=zipped)
    found = torch.load(Reads(target.file.getvalue()))
    assert found.tolist() == [1.0, 1.0, 1.0]


def test_what_cannot_be_read_from_a_place_is_refused() -> None:
    source = Reads(saved(torch.ones(3)))
    del source.seek, source.tell
    with pytest.raises(AttributeError, match=r"You can only torch\.load from a file that is seek"):
        torch.load(source)


def test_the_order_of_bytes_of_a_file_that_does_not_say_it_is_the_default() -> None:
    swapped = saved(torch.ones(1).view(torch.int32).clone(), _disable_byteorder_record=True)
    set_default_load_endianness(LoadEndianness.BIG)
    try:
        big = torch.load(io.BytesIO(swapped)).item()
    finally:
        set_default_load_endianness(None)
    little = torch.load(io.BytesIO(swapped)).item()
    assert struct.pack("<i", little) == struct.pack(">i", big)


def test_shared_memory_of_a_file_is_written_to_it(tmp_path: Path) -> None:
    path = tmp_path / "shared.pt"
    torch.save(torch.zeros(2), path)
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        torch.load(path, mmap=True).fill_(3)
    torch.load(path, mmap=True).fill_(4)
    assert torch.load(path, mmap=True).tolist() == [3.0, 3.0]


@pytest.mark.parametrize("place", ["cuda", {"cpu": "cuda:1"}, "xpu"])
@pytest.mark.parametrize("trusted", [True, False])
def test_tensors_of_devices_that_are_not_here_are_refused(place: Any, trusted: bool) -> None:
    if torch.cuda.is_available() and place != "xpu":
        pytest.skip("there is a cuda device here")
    file = io.BytesIO(saved(torch.ones(1)))
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a"):
        torch.load(file, map_location=place, weights_only=not trusted)


def test_a_place_that_nobody_knows_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"don't know how to restore .*nonsense"):
        torch.load(io.BytesIO(saved(torch.ones(1))), map_location="nonsense")


# --- what pickles --------------------------------------------------------------------


class Marking:
    """A pickle module whose classes say that they were used, and write functions by name."""

    used: list[str] = []

    class Pickler(pickle._Pickler):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            Marking.used.append("written")

        def write_lambda(self, function: Callable[..., object]) -> None:
            self.save_reduce(eval, ("lambda: 3",), obj=function)

        dispatch = {**pickle._Pickler.dispatch, type(lambda: 0): write_lambda}

    class Unpickler(pickle.Unpickler):
        def load(self) -> Any:
            Marking.used.append("read")
            return super().load()


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_module_of_ones_own_writes_and_reads(zipped: bool) -> None:
    Marking.used.clear()
    given = [torch.ones(2), torch.nn.ReLU, lambda: 3]
    data = saved(given, pickle_module=Marking, _use_new_zipfile_serialization=zipped)
    tensor, module, function = torch.load(io.BytesIO(data), pickle_module=Marking)
    assert (tensor.tolist(), module, function()) == ([1.0, 1.0], torch.nn.ReLU, 3)
    assert Marking.used[0] == "written"
    assert "read" in Marking.used


def test_a_pickle_module_cannot_be_careful() -> None:
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        torch.load(io.BytesIO(saved(1)), weights_only=True, pickle_module=pickle)


def test_elements_read_as_two_dtypes_are_not_saved() -> None:
    whole = torch.zeros(2, dtype=torch.complex64)
    for other in (whole.imag, whole.untyped_storage()):
        with pytest.raises(RuntimeError, match="view the same data as different types"):
            saved([whole, other])


def test_nothing_may_be_read_as_two_dtypes() -> None:
    empty = torch.tensor([], dtype=torch.float64)
    also = torch.TypedStorage(wrap_storage=empty.untyped_storage(), dtype=torch.int32)
    first, second = torch.load(io.BytesIO(saved([empty, also])))
    assert (first.dtype, second.dtype) == (torch.float64, torch.int32)


def old_file(refers: tuple[object, ...], *, numel: int = 2) -> bytes:
    """A file of PyTorch 0.3's, with one reference to a storage of floats."""

    class Refers(pickle.Pickler):
        def persistent_id(self, obj: object) -> object:
            return refers if obj == "here" else None

    file = io.BytesIO()
    for header in (0x1950A86A20F9469CFC6C, 1001, {}):
        pickle.dump(header, file, protocol=2)
    Refers(file, protocol=2).dump("here")
    pickle.dump([refers[2]], file, protocol=2)
    return file.getvalue() + struct.pack("<q", numel) + struct.pack(f"<{numel}f", *range(numel))


def test_a_part_of_a_storage_of_old_files_shares_its_memory() -> None:
    # Written with PyTorch's name of the class, as such files have it.
    data = old_file(("storage", "FLOATS", "1", "cpu", 2, ("9", 1, 1)))
    name = pickle.dumps("FLOATS", protocol=2)[2:-1].removesuffix(b"q\x00")
    part = torch.load(io.BytesIO(data.replace(name, b"ctorch\nFloatStorage\n")))
    assert part.tolist() == [1.0]


def test_references_of_python_2_may_stay_bytes() -> None:
    data = old_file((b"storage", "FLOATS", b"1", b"cpu", 2, None))
    name = pickle.dumps("FLOATS", protocol=2)[2:-1].removesuffix(b"q\x00")
    found = torch.load(io.BytesIO(data.replace(name, b"ctorch\nFloatStorage\n")), encoding="bytes")
    assert found.tolist() == [0.0, 1.0]


def test_parts_of_sparse_tensors_of_old_files_are_checked() -> None:
    whole = torch.eye(2).to_sparse()

    class Crafted:
        def __reduce_ex__(self, protocol: int) -> Any:
            parts = (whole._indices() + 5, whole._values(), whole.size())
            return torch._utils._rebuild_sparse_tensor, (whole.layout, parts)

    for zipped in (True, False):
        file = io.BytesIO(saved(Crafted(), _use_new_zipfile_serialization=zipped))
        with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
            torch.load(file)


def test_old_files_may_follow_one_another() -> None:
    file = io.BytesIO()
    for value in (1, 2):
        torch.save(torch.full((2,), value), file, _use_new_zipfile_serialization=False)
        pickle.dump(value, file)
    file.seek(0)
    read = [(torch.load(file).tolist(), pickle.load(file)) for _ in range(2)]
    assert read == [([1, 1], 1), ([2, 2], 2)]


def test_tensors_of_old_files_are_put_on_other_devices() -> None:
    data = saved({"a": torch.ones(2)}, _use_new_zipfile_serialization=False)
    assert torch.load(io.BytesIO(data), map_location="meta")["a"].device.type == "meta"
    with torch._subclasses.FakeTensorMode():
        assert torch.load(io.BytesIO(data), map_location="cuda")["a"].device.type == "cuda"


# --- what objects hold ---------------------------------------------------------------


class Slotted(torch.Tensor):
    """A subclass that holds a tensor in a slot."""

    __slots__ = ["inner", "unset"]

    def new_empty(self, size: Any, **options: Any) -> Any:
        return torch.empty(size, **options).as_subclass(type(self))


@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        lambda t: pickle.loads(pickle.dumps(t)),
        lambda t: torch.load(io.BytesIO(saved(t)), weights_only=False),
    ],
)
def test_slots_of_subclasses_are_copied_and_saved(copied: Callable[[Any], Any]) -> None:
    given = torch.ones(2).as_subclass(Slotted)
    given.inner = torch.full((1,), 7.0)
    made = copied(given)
    assert made.inner.item() == 7.0
    assert not hasattr(made, "unset")


def test_the_state_of_a_cycle_is_plain() -> None:
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6.0, total_steps=10)
    assert torch.load(io.BytesIO(saved(scheduler.state_dict()))) == scheduler.state_dict()


def test_records_are_written_and_read_under_pytorchs_names(tmp_path: Path) -> None:
    path = str(tmp_path / "own.pt")
    with torch.serialization._open_zipfile_writer(path) as writer:
        writer.write_record("a", b"12345", 3)
        writer.write_record_metadata("room/b", 4)
    with torch.serialization._open_zipfile_reader(path) as reader:
        assert reader.get_record("a") == b"123"
        assert reader.get_record("room/b") == bytes(4)
        assert {"a", "room/b", "version"} <= set(reader.get_all_records())
        assert not reader.has_record("c")
        begin = reader.get_record_offset("a")
    assert Path(path).read_bytes()[begin : begin + 3] == b"123"


def test_a_saved_storage_is_a_record(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(mq.arange(3.0), buffer)
    reader = torch._C.PyTorchFileReader(buffer)
    assert reader.get_storage_from_record("data/0", 3, mq.float32).tolist() == [0, 1, 2]
    assert reader.version() == 3
    with pytest.raises(RuntimeError, match="no record 'x'"):
        reader.get_record("x")


def test_a_call_as_text_shows_no_elements() -> None:
    text = torch._utils.render_call(torch.sum, [mq.ones(100)], {"dim": 0})
    assert text == "torch.sum(tensor([...], size=(100,)), dim=0)"


def test_slots_are_copied_of_classes_that_say_they_are_in_torch(
    installed: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = ModuleType("torch.testing._internal.beside")
    monkeypatch.setitem(sys.modules, beside.__name__, beside)
    members = {"__slots__": ["inner"], "__module__": beside.__name__}
    kind = type("Beside", (torch.Tensor,), members | {"new_empty": Slotted.new_empty})
    given = torch.ones(2).as_subclass(kind)
    given.inner = "kept"
    assert copy.deepcopy(given).inner == "kept"


@pytest.mark.parametrize(
    "crafted",
    [
        b"\x96" + struct.pack("<q", 1 << 62),  # a bytearray of so many bytes, none of them there
        *(name + b"\nJ\xff\xff\xff\x7f\x85R." for name in (
            b"cbuiltins\nbytearray", b"cbuiltins\nbytes",
            b"ctorch\nFloatStorage", b"ctorch\nTensor",
        )),
        b"K\x01" + b"2\x86" * 60 + b"Q.",  # pairs of pairs, whose text is as long as 2**60
    ],
)  # fmt: skip
def test_a_few_bytes_take_neither_memory_nor_time(crafted: bytes, tmp_path: Path) -> None:
    path = str(tmp_path / "crafted.pt")
    with torch.serialization._open_zipfile_writer(path) as writer:
        data = b"\x80\x05" + crafted
        writer.write_record("data.pkl", data, len(data))
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match=r"crafted\.pt"):
        torch.load(path)


# --- what is no file, or changes -------------------------------------------------------


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pt")
    with pytest.raises(serialization.FileError, match=r"pipe\.pt.*this is a pipe"):
        torch.load(tmp_path / "pipe.pt")


def test_a_folder_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        torch.load(tmp_path)


def test_a_file_open_for_text_is_refused(tmp_path: Path) -> None:
    torch.save(1, tmp_path / "one.pt")
    with open(tmp_path / "one.pt") as file, pytest.raises(TypeError, match="for reading bytes"):
        torch.load(file)


def test_tensors_keep_their_values_when_their_file_is_saved_anew(tmp_path: Path) -> None:
    path = tmp_path / "mapped.pt"
    torch.save(torch.arange(1000.0), path)
    mapped = torch.load(path, mmap=True)
    torch.save(torch.zeros(1), path)
    assert mapped[-1].item() == 999.0
    assert torch.load(path).tolist() == [0.0]


def test_a_file_that_is_not_mapped_stays_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "plain.pt"
    torch.save(torch.arange(1000.0), path)
    before = path.stat().st_ino
    torch.save(torch.zeros(1), path)
    assert path.stat().st_ino == before


@pytest.mark.parametrize("zipped", [True, False])
def test_a_trusted_file_that_was_cut_is_refused_by_its_name(zipped: bool, tmp_path: Path) -> None:
    whole = saved({"a": torch.ones(2)}, _use_new_zipfile_serialization=zipped)
    path = tmp_path / "cut.pt"
    for end in range(1, len(whole), 7):
        path.write_bytes(whole[:end])
        with pytest.raises(serialization.FileError, match=r"cut\.pt"):
            torch.load(path, weights_only=False)


class Failing:
    """Cannot be made again."""

    def __reduce__(self) -> Any:
        return _fail, ()


def _fail() -> object:
    raise IndexError("of its own")


def test_errors_of_what_a_trusted_file_runs_stay_as_they_are(tmp_path: Path) -> None:
    torch.save(Failing(), tmp_path / "failing.pt")
    with pytest.raises(IndexError, match="of its own") as failed:
        torch.load(tmp_path / "failing.pt", weights_only=False)
    assert not isinstance(failed.value, serialization.FileError)


def test_classes_that_are_safe_in_a_block_are_safe_in_its_thread() -> None:
    with torch.serialization.safe_globals([Slotted]):
        here = torch.serialization.get_safe_globals()
        with ThreadPoolExecutor(1) as pool:
            there = pool.submit(torch.serialization.get_safe_globals).result()
    assert (here, there, torch.serialization.get_safe_globals()) == ([Slotted], [], [])


def test_a_record_that_was_set_aside_may_be_filled_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "filled.pt"
    with torch.serialization.skip_data():
        torch.save(torch.ones(3), path)
    with torch.serialization._open_zipfile_reader(path) as reader:
        begins = reader.get_record_offset("data/0")
    with open(path, "r+b") as file:
        file.seek(begins)
        file.write(struct.pack("<3f", 4, 5, 6))
    assert torch.load(path).tolist() == [4.0, 5.0, 6.0]


def test_weights_of_a_file_address_are_read(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "w.pt")
    address, folder = (tmp_path / "w.pt").as_uri(), str(tmp_path / "kept")
    assert torch.hub.load_state_dict_from_url(address, folder)["a"].tolist() == [1.0, 1.0]
    assert (tmp_path / "kept" / "w.pt").exists()


def test_weights_of_another_hash_are_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "w-0badc0de.pt")
    address = (tmp_path / "w-0badc0de.pt").as_uri()
    with pytest.raises(RuntimeError, match=r"invalid hash value .*w-0badc0de\.pt"):
        torch.hub.load_state_dict_from_url(address, str(tmp_path / "kept"), check_hash=True)


def _refuse(storage: object, location: str) -> object:
    raise KeyError(location)


@pytest.mark.parametrize("zipped", [True, False])
def test_errors_of_a_function_of_the_callers_stay_as_they_are(zipped: bool) -> None:
    file = io.BytesIO()
    torch.save(torch.ones(2), file, _use_new_zipfile_serialization=zipped)
    for trusted in (False, True):
        file.seek(0)
        with pytest.raises(KeyError, match="cpu"):
            torch.load(file, map_location=_refuse, weights_only=not trusted)
        file.seek(0)
        with pytest.raises(TypeError, match="should give a storage or None, got 3"):
            torch.load(file, map_location=lambda *_: 3, weights_only=not trusted)


@pytest.mark.parametrize("place", [0, True, ["cpu"], torch.float32])
def test_what_says_no_places_is_refused(place: object) -> None:
    with pytest.raises(TypeError, match="map_location should be a device"):
        torch.load(io.BytesIO(b""), map_location=place)


def test_an_unknown_option_of_load_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'weight_only'"):
        torch.load(io.BytesIO(b""), weight_only=True)


@pytest.mark.parametrize("opened", [gzip.open, bz2.open, lzma.open])
def test_files_that_cannot_go_back_are_written_to(opened: Any, tmp_path: Path) -> None:
    with opened(tmp_path / "packed", "wb") as file:
        torch.save({"a": torch.ones(2)}, file)
    with opened(tmp_path / "packed", "rb") as file:
        assert torch.load(file)["a"].tolist() == [1.0, 1.0]


def test_a_file_that_tensors_share_is_read_again(tmp_path: Path) -> None:
    """What is written to the tensors is in the file, which says no checksum of them any more."""
    path = tmp_path / "shared.pt"
    torch.save({"a": torch.ones(2), "b": torch.zeros(3), "c": torch.ones(1)}, path)
    with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        torch.load(path, mmap=True)["b"][1] = 7
    assert torch.load(path)["b"].tolist() == [0, 7, 0]
    path.write_bytes(path.read_bytes().replace(b"_rebuild_tensor_v2", b"_rebuild_tensor_v3"))
    with pytest.raises(torch.serialization.FileError, match=r"data\.pkl.*CRC"):
        torch.load(path)


def test_the_environment_says_what_files_may_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in PyTorch: one variable for all calls, one for those that say nothing."""
    file = io.BytesIO()
    torch.save(Fraction(1, 2), file)

    def loaded(**options: Any) -> object:
        file.seek(0)
        return torch.load(file, **options)

    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(torch.serialization.FileError, match="Fraction"):
        loaded(weights_only=False)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "true")
    with pytest.raises(RuntimeError, match="both set"):
        loaded()
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    assert loaded() == Fraction(1, 2)
    with pytest.raises(torch.serialization.FileError, match="Fraction"):
        loaded(weights_only=True)
