"""Crafted files: what would take time or memory without end, and archives that lie."""

import copyreg
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import maquette.torch as torch

PAIRS = b"K\x01" + b"2\x86" * 60  # a pair of pairs of pairs: its hash takes 2**60 steps
STORAGE = (
    b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
)


def _expanded() -> bytes:
    numbers = b"K\x00" + pickle.dumps((1 << 40,), 2)[2:-1] + b"K\x00\x85"
    return b"ctorch._utils\n_rebuild_tensor\n(" + STORAGE + numbers + b"tR"


def _given(tmp_path: Path, crafted: bytes) -> str:
    path = str(tmp_path / "crafted.pt")
    with torch.serialization._open_zipfile_writer(path) as writer:
        data = b"\x80\x02" + crafted
        writer.write_record("data.pkl", data, len(data))
        writer.write_record("data/0", bytes(16), 16)
    return path


def _number(n: int) -> bytes:
    return pickle.dumps(n, 2)[2:-1]


def _old(tmp_path: Path, crafted: bytes) -> str:
    path = tmp_path / "crafted.pt"
    headers = [pickle.dumps(header, 2) for header in (0x1950A86A20F9469CFC6C, 1001, {})]
    path.write_bytes(b"".join(headers) + b"\x80\x02" + crafted + struct.pack("<q", 0))
    return str(path)


KEYS = [
    b"}" + PAIRS + b"Ns.",
    b"}(" + PAIRS + b"Nu.",
    b"(" + PAIRS + b"Nd.",
    b"\x8f(" + PAIRS + b"\x90.",
    b"(" + PAIRS + b"\x91.",
    *(
        name + b"\n(" + PAIRS + b"l\x85R."
        for name in (b"cbuiltins\nset", b"cbuiltins\nfrozenset", b"ccollections\nCounter")
    ),
    b"ccollections\nOrderedDict\n(" + PAIRS + b"N\x86l\x85R.",
]


@pytest.mark.parametrize("crafted", KEYS)
def test_T57_keys_without_end_are_refused(crafted: bytes, tmp_path: Path) -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"crafted\.pt.*key") as refused:
        torch.load(_given(tmp_path, crafted))
    assert isinstance(refused.value, torch.serialization.FileError)


@pytest.mark.parametrize("crafted", KEYS[:5])
def test_T57_keys_without_end_are_refused_in_old_files(crafted: bytes, tmp_path: Path) -> None:
    with pytest.raises(torch.serialization.FileError, match=r"crafted\.pt.*key"):
        torch.load(_old(tmp_path, crafted))


@pytest.mark.parametrize("kind", ["set", "frozenset", "list", "dict"])
def test_T57_containers_of_tensors_elements_are_refused(kind: str, tmp_path: Path) -> None:
    crafted = f"cbuiltins\n{kind}\n".encode() + _expanded() + b"\x85R."
    with pytest.raises(torch.serialization.FileError, match=f"makes a {kind} of a Tensor"):
        torch.load(_given(tmp_path, crafted))


@pytest.mark.parametrize("size", [_expanded(), PAIRS])
def test_T57_sizes_are_plain_numbers(size: bytes, tmp_path: Path) -> None:
    crafted = b"ctorch._utils\n_rebuild_tensor\n(" + STORAGE + b"K\x00" + size + size + b"tR."
    with pytest.raises(torch.serialization.FileError, match=r"no tensor has sizes|asks for more"):
        torch.load(_given(tmp_path, crafted))


def test_T57_calls_within_calls_are_looked_at(tmp_path: Path) -> None:
    inner = b"(cbuiltins\nbytearray\nctorch\nTensor\nJ\xff\xff\xff\x7f\x85}tR."
    crafted = b"ctorch._tensor\n_rebuild_from_type_v2\n" + inner
    with pytest.raises(torch.serialization.FileError, match="calls bytearray"):
        torch.load(_given(tmp_path, crafted))


def test_T57_layouts_are_names(tmp_path: Path) -> None:
    crafted = b"ctorch.serialization\n_get_layout\n" + PAIRS + b"\x85R."
    with pytest.raises(torch.serialization.FileError, match="layout"):
        torch.load(_given(tmp_path, crafted))


@pytest.mark.parametrize(
    "header",
    [
        '{"a": {"dtype": "F32", "shape": ["1"], "data_offsets": [0, 4]}}',
        '{"a": {"dtype": "F32", "shape": [1.5], "data_offsets": [0, 4]}}',
        '{"a": {"dtype": "F32", "shape": [true], "data_offsets": [0, 4]}}',
        '{"a": {"dtype": "F32", "shape": [1], "data_offsets": ["0", "4"]}}',
        '{"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "a": {}}',
        "[" * 100_000,
        '{"a": {"dtype": "U8", "shape": [0, %s], "data_offsets": [0, 0]}}' % ("9" * 4000),
        '{"a": {"dtype": "U8", "shape": [0, 9223372036854775808], "data_offsets": [0, 0]}}',
        '{"a": {"dtype": "U8", "shape": [%s1], "data_offsets": [0, 1]}}' % ("1, " * 100),
        '{"a": {"dtype": "U8", "shape": [1], "data_offsets": [3, 4]}}',  # a gap
        '{"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}',  # bytes left over
        '{"__metadata__": {"a": 1}}',
    ],
)
def test_T57_headers_of_safetensors_are_taken_at_their_word(header: str, tmp_path: Path) -> None:
    path = tmp_path / "crafted.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(4))
    with pytest.raises(torch.serialization.FileError, match=r"crafted\.safetensors"):
        torch.load(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_T57_records_are_stored_or_deflated(method: int, tmp_path: Path) -> None:
    stored, packed = tmp_path / "stored.pt", tmp_path / "packed.pt"
    torch.save(torch.ones(2), stored)
    with zipfile.ZipFile(stored) as source, zipfile.ZipFile(packed, "w", method) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(torch.serialization.FileError, match=r"packed\.pt.*method"):
        torch.load(packed)


# --- what a few bytes ask for many times ----------------------------------------------

LIST = b"q\x000(" + b"K\x01" * 30_000 + b"lq\x010"  # remembered as 1, the function as 0
CALLS = b"(" + b"h\x00h\x01\x85R" * 20_000 + b"l."


@pytest.mark.parametrize(
    "name",
    [b"cbuiltins\nlist\n", b"cbuiltins\nset\n", b"ctorch\nSize\n", b"cbuiltins\nbytearray\n"],
)
def test_T57_copies_of_one_list_without_end_are_refused(name: bytes, tmp_path: Path) -> None:
    with pytest.raises(torch.serialization.FileError, match=r"crafted\.pt.*more memory or time"):
        torch.load(_given(tmp_path, name + LIST + CALLS))


def test_T57_a_list_of_a_checkpoints_size_is_copied(tmp_path: Path) -> None:
    made = torch.load(_given(tmp_path, b"ctorch\nSize\n" + LIST + b"h\x00h\x01\x85R."))
    assert made == torch.Size([1] * 30_000)


def _indices(*size: int) -> bytes:
    storage = STORAGE.replace(b"Float", b"Long").replace(b"K\x04t", b"K\x02t")
    sizes, strides = (b"(" + b"".join(map(_number, s)) + b"t" for s in (size, [0] * len(size)))
    return b"ctorch._utils\n_rebuild_tensor\n(" + storage + b"K\x00" + sizes + strides + b"tR"


COO = b"X\x10\x00\x00\x00torch.sparse_coo\x85R"
FEW = _indices(1)
MANY = 1 << 40
PARTS = {
    "coo": b"ctorch._utils\n_rebuild_sparse_tensor\nctorch.serialization\n_get_layout\n"
    + COO + b"(" + _indices(1, MANY) + _indices(MANY) + b"K\x05\x85t\x86R.",
    "nested": b"ctorch._utils\n_rebuild_nested_tensor\n(" + FEW
    + _indices(MANY, 0) + _indices(MANY, 0) + _indices(MANY) + b"tR.",
    "jagged": b"ctorch.nested._internal.nested_tensor\n_rebuild_njt\n}(X\x06\x00\x00\x00values"
    + _indices(1, 1) + b"X\x07\x00\x00\x00offsets" + _indices(MANY) + b"u\x85R.",
}  # fmt: skip


@pytest.mark.parametrize("kind", PARTS)
def test_T57_parts_with_more_elements_than_the_file_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(torch.serialization.FileError, match=r"crafted\.pt.*more memory or time"):
        torch.load(_given(tmp_path, PARTS[kind]))


@pytest.mark.parametrize("kind", ["numbers", "pairs"])
def test_T57_keys_of_one_hash_are_refused(kind: str, tmp_path: Path) -> None:
    alike = [_number(i * ((1 << 61) - 1)) for i in range(9, 100)]  # the modulus of hashes
    if kind == "pairs":
        alike = [_number(7) + number + b"\x86" for number in alike]
    crafted = b"}" + b"".join(key + b"Ns" for key in alike) + b"."
    with pytest.raises(torch.serialization.FileError, match="keys of one hash"):
        torch.load(_given(tmp_path, crafted))


def test_T57_the_same_key_may_stand_in_many_dicts(tmp_path: Path) -> None:
    path = tmp_path / "keys.pt"
    given = [{(i % 3, "name"): i} for i in range(1000)]
    torch.save(given, path)
    assert torch.load(path) == given


def test_T57_classes_by_numbers_of_the_process_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(copyreg._extension_cache, 7, eval)
    with pytest.raises(torch.serialization.FileError, match="by the number 7"):
        torch.load(_given(tmp_path, b"\x82\x07X\x01\x00\x00\x001\x85R."))


@pytest.mark.parametrize(
    "name", [b"ctorch\ndtype", b"ctorch.nested._internal.nested_tensor\nNestedTensor"]
)
def test_T57_types_that_are_only_named_are_not_called(name: bytes, tmp_path: Path) -> None:
    with pytest.raises(torch.serialization.FileError, match="as no saved object does"):
        torch.load(_given(tmp_path, name + b"\n(" + FEW + FEW + b"tR."))


def test_T57_an_old_file_takes_no_memory_by_a_number(tmp_path: Path) -> None:
    crafted = b"ctorch\nFloatStorage\nJ\xff\xff\xff\x7f\x85R."
    tracemalloc.start()
    try:
        with pytest.raises(torch.serialization.FileError, match=r"crafted\.pt"):
            torch.load(_old(tmp_path, crafted))
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("crafted", [b"\xff.", b"K", b"X\x04\x00\x00", b"R."])
def test_T57_a_damaged_old_file_is_refused_by_its_name(crafted: bytes, tmp_path: Path) -> None:
    with pytest.raises(torch.serialization.FileError, match=r"crafted\.pt"):
        torch.load(_old(tmp_path, crafted), weights_only=False)


def test_T57_an_old_file_changes_no_class(tmp_path: Path) -> None:
    crafted = b"ctorch\nFloatStorage\nN}X\x05\x00\x00\x00dtypeNs\x86b."
    with pytest.raises(torch.serialization.FileError, match=r"crafted\.pt"):
        torch.load(_old(tmp_path, crafted))
    assert torch.FloatStorage.dtype is torch.float32


# --- archives that lie ----------------------------------------------------------------


def _archive(path: Path, *names: str) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"\x80\x02N." if name.endswith("pkl") else b"abcd")
    return path.read_bytes()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "names, told",
    [
        (("a/data.pkl", "a/data.pkl"), "one name"),
        (("b/version", "a/data.pkl"), r"no data\.pkl"),  # PyTorch reads the first folder
        (("data.pkl",), r"no data\.pkl"),
    ],
)
def test_T57_names_of_records_are_not_ambiguous(
    names: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    path = tmp_path / "crafted.pt"
    _archive(path, *names)
    with pytest.raises(torch.serialization.FileError, match=rf"crafted\.pt.*{told}"):
        torch.load(path)


@pytest.mark.parametrize(
    "at, value, told",
    [
        (42, struct.pack("<I", 0), "overlaps"),  # where the second record begins
        (20, struct.pack("<I", 1 << 30), "two lengths"),
        (20, struct.pack("<II", 1 << 30, 1 << 30), "beyond"),
    ],
)
@pytest.mark.parametrize("mapped", [True, False])
def test_T57_records_have_bytes_of_their_own(
    at: int, value: bytes, told: str, mapped: bool, tmp_path: Path
) -> None:
    path = tmp_path / "crafted.pt"
    data = bytearray(_archive(path, "a/data.pkl", "a/data/0"))
    entry = data.rindex(b"PK\x01\x02") + at
    data[entry : entry + len(value)] = value
    path.write_bytes(data)
    with pytest.raises(torch.serialization.FileError, match=rf"crafted\.pt.*{told}"):
        torch.load(path, mmap=mapped)


def test_T57_many_small_bombs_are_one(tmp_path: Path) -> None:
    path = tmp_path / "crafted.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"\x80\x02N.")
        for key in range(50):
            archive.writestr(f"a/data/{key}", bytes(1 << 20))
    with pytest.raises(torch.serialization.FileError, match="would unpack"):
        torch.load(path)


def _with_sum(path: Path, value: int) -> None:
    torch.save(torch.arange(4.0), path)
    data = bytearray(path.read_bytes())
    (name,) = (n for n in zipfile.ZipFile(path).namelist() if n.endswith("data/0"))
    local, central = data.index(name.encode()) - 30 + 14, data.rindex(name.encode()) - 46 + 16
    for at in (local, central):
        data[at : at + 4] = struct.pack("<I", value)
    path.write_bytes(data)


def test_T57_a_record_that_does_not_fit_its_checksum_is_refused(tmp_path: Path) -> None:
    _with_sum(tmp_path / "crafted.pt", 5)
    with pytest.raises(torch.serialization.FileError, match=r"crafted\.pt.*data/0.*CRC"):
        torch.load(tmp_path / "crafted.pt")


@pytest.fixture
def _without_checksums() -> Iterator[None]:
    torch.serialization.set_crc32_options(False)
    yield
    torch.serialization.set_crc32_options(True)


@pytest.mark.usefixtures("_without_checksums")
def test_T57_checksums_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "plain.pt"
    _with_sum(path, 5)
    assert torch.load(path).tolist() == [0, 1, 2, 3]
    torch.save(torch.ones(2), path)
    assert {info.CRC for info in zipfile.ZipFile(path).infolist()} == {0}


def test_T57_files_of_pytorch_without_checksums_are_read(tmp_path: Path) -> None:
    _with_sum(tmp_path / "plain.pt", 0)  # as after set_crc32_options(False)
    assert torch.load(tmp_path / "plain.pt").tolist() == [0, 1, 2, 3]


# --- where storages go ----------------------------------------------------------------


@pytest.mark.parametrize("zipped", [True, False])
def test_T56_storages_that_were_shared_are_shared_on_meta(zipped: bool, tmp_path: Path) -> None:
    whole = torch.arange(6.0)
    path = tmp_path / "shared.pt"
    torch.save([whole, whole[2:]], path, _use_new_zipfile_serialization=zipped)
    first, second = torch.load(path, map_location="meta")
    assert first.untyped_storage() is second.untyped_storage()
    assert second.storage_offset() == 2


def test_T57_an_expanded_tensor_is_moved_by_its_storage(tmp_path: Path) -> None:
    path = tmp_path / "expanded.pt"
    torch.save(torch.ones(1, dtype=torch.complex64).conj().expand(1 << 40), path)
    made = torch.load(path, map_location="meta")
    assert made.stride() == (0,)


@pytest.mark.parametrize("zipped", [True, False])
def test_T56_a_function_says_where_storages_go(zipped: bool, tmp_path: Path) -> None:
    seen: list[str] = []
    path = tmp_path / "placed.pt"
    torch.save(torch.ones(2), path, _use_new_zipfile_serialization=zipped)
    torch.load(path, map_location=lambda storage, place: seen.append(place) or storage)
    assert seen == ["cpu"]


@pytest.mark.parametrize("put", [b"r\xff\xff\xff\x7f", b"p2147483647\n", b"p-1\n"])
@pytest.mark.parametrize("trusted", [False, True])
def test_T57_objects_of_an_old_file_are_not_numbered_without_end(
    put: bytes, trusted: bool, tmp_path: Path
) -> None:
    """The standard library's reader would take 32 GiB for the first."""
    path = _old(tmp_path, b"]" + put + b".\x80\x02].")
    with pytest.raises(torch.serialization.FileError, match=r"crafted\.pt.*numbers an object"):
        torch.load(path, weights_only=not trusted)


def test_T57_the_header_of_an_old_file_is_never_trusted(tmp_path: Path) -> None:
    path = tmp_path / "crafted.pt"
    path.write_bytes(b"\x80\x02cos\ngetcwd\n)R.")
    with pytest.raises(torch.serialization.FileError, match=r"crafted\.pt.*getcwd"):
        torch.load(path, weights_only=False)


@pytest.mark.parametrize("offset", [9, -1])
def test_T57_a_damaged_tensor_in_a_trusted_file_gives_the_same_error(
    offset: int, tmp_path: Path
) -> None:
    facts = _number(offset) + b"K\x01\x85K\x01\x85"
    path = _given(tmp_path, b"ctorch._utils\n_rebuild_tensor\n(" + STORAGE + facts + b"tR.")
    with pytest.raises(torch.serialization.FileError, match=r"crafted\.pt.*offset"):
        torch.load(path, weights_only=False)


def test_T57_a_tag_of_no_device_in_a_trusted_file_names_the_file(tmp_path: Path) -> None:
    nowhere = STORAGE.replace(b"cpu", b"cp_")
    facts = b"K\x00K\x01\x85K\x01\x85"
    path = _given(tmp_path, b"ctorch._utils\n_rebuild_tensor\n(" + nowhere + facts + b"tR.")
    with pytest.raises(torch.serialization.FileError, match=r"crafted\.pt.*tagged with cp_"):
        torch.load(path, weights_only=False)


class Failing:
    """Fails when it is given its state."""

    def __setstate__(self, state: object) -> None:
        torch.ones(2).reshape(3)

    def __reduce__(self) -> object:
        return copyreg.__newobj__, (Failing,), {"a": 1}


def test_T57_errors_of_code_in_a_trusted_file_stay_as_they_are(tmp_path: Path) -> None:
    torch.save(Failing(), tmp_path / "failing.pt")
    with pytest.raises(RuntimeError, match="shape") as caught:
        torch.load(tmp_path / "failing.pt", weights_only=False)
    assert not isinstance(caught.value, torch.serialization.FileError)
    assert "failing.pt" in "".join(caught.value.__notes__)
