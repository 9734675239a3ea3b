"""Crafted pickles whose keys, text or elements would have no end, and calls within calls."""

import pickle
import struct
import zipfile
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
    path = tmp_path / "crafted.pt"
    headers = [pickle.dumps(header, 2) for header in (0x1950A86A20F9469CFC6C, 1001, {})]
    path.write_bytes(b"".join(headers) + b"\x80\x02" + crafted + struct.pack("<q", 0))
    with pytest.raises(torch.serialization.FileError, match=r"crafted\.pt.*key"):
        torch.load(path)


@pytest.mark.parametrize("kind", ["set", "frozenset", "list", "dict"])
def test_T57_containers_of_tensors_elements_are_refused(kind: str, tmp_path: Path) -> None:
    crafted = f"cbuiltins\n{kind}\n".encode() + _expanded() + b"\x85R."
    with pytest.raises(torch.serialization.FileError, match=f"makes a {kind} of a Tensor"):
        torch.load(_given(tmp_path, crafted))


@pytest.mark.parametrize("size", [_expanded(), PAIRS])
def test_T57_sizes_are_plain_numbers(size: bytes, tmp_path: Path) -> None:
    crafted = b"ctorch._utils\n_rebuild_tensor\n(" + STORAGE + b"K\x00" + size + size + b"tR."
    with pytest.raises(torch.serialization.FileError, match="no tensor has sizes"):
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
