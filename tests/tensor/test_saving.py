"""Safetensors files."""

import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest

import maquette as mq
from maquette.tensor import Parameter
from maquette.tensor.keys import CONJUGATE
from maquette.tensor.tensor import Tensor


def written(obj: dict[str, Tensor], **options: object) -> bytes:
    """The file that `save` writes."""
    file = io.BytesIO()
    mq.save(obj, file, **options)
    return file.getvalue()


def read(data: bytes, *args: object) -> dict[str, Tensor]:
    """What `load` makes of a file."""
    return mq.load(io.BytesIO(data), *args)


def header(data: bytes) -> dict[str, dict[str, object]]:
    """The JSON header of a file."""
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length])


def foreign(data: bytes) -> dict[str, np.ndarray]:
    """The arrays that a reader sees who knows the format and nothing of ours."""
    (length,) = struct.unpack("<Q", data[:8])
    kinds = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "BOOL": "?", "U8": "u1", "F16": "<f2"}
    arrays = {}
    for name, entry in header(data).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin : 8 + length + end]
        arrays[name] = np.frombuffer(raw, kinds[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def test_T57_the_header_is_json_after_its_length() -> None:
    table = header(written({"a": mq.ones(2, 3)}))
    assert table == {"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}


def test_T57_values_lie_without_gaps() -> None:
    data = written({"a": mq.ones(3, dtype=mq.bool), "b": mq.ones(3), "c": mq.tensor([1, 2])})
    ranges = sorted(e["data_offsets"] for e in header(data).values())
    assert [begin for begin, _ in ranges] == [0, *[end for _, end in ranges[:-1]]]
    assert len(data) == 8 + struct.unpack("<Q", data[:8])[0] + ranges[-1][1]


def test_T57_a_foreign_reader_sees_equal_values() -> None:
    a = mq.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    arrays = foreign(written({"a": a, "t": a.t(), "e": mq.ones(1).expand(3)}))
    assert arrays["t"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert arrays["e"].tolist() == [1.0, 1.0, 1.0]


def test_T57_aliases_and_strides_are_restored() -> None:
    a = mq.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    loaded = read(written({"a": a, "t": a.t(), "e": mq.ones(1).expand(3)}))
    assert loaded["a"].untyped_storage() is loaded["t"].untyped_storage()
    assert loaded["t"].stride() == (1, 3)
    assert loaded["e"].untyped_storage().nbytes() == 4
    loaded["a"].zero_()
    assert loaded["t"].tolist() == [[0.0, 0.0]] * 3


def test_T57_names_come_back_in_order() -> None:
    given = {"z": mq.ones(1), "b": mq.ones(1, dtype=mq.float64), "a": mq.ones(1)}
    assert [*read(written(given))] == ["z", "b", "a"]


@pytest.mark.parametrize(
    "kind",
    ["bool", "uint8", "int16", "uint64", "float16", "bfloat16", "float8_e5m2", "complex64"],
)
def test_T57_dtypes_are_kept(kind: str) -> None:
    given = mq.tensor([0, 1, 1]).to(getattr(mq, kind))
    loaded = read(written({"a": given}))["a"]
    assert loaded.dtype is given.dtype
    assert loaded.to(mq.complex128).real.tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("kind", "dtype", "nbytes"),
    [
        ("C64", mq.complex64, 8),
        ("F8_E4M3FNUZ", mq.float8_e4m3fnuz, 1),
        ("F8_E5M2FNUZ", mq.float8_e5m2fnuz, 1),
    ],
)
def test_T57_dtypes_that_the_format_got_later_are_read(
    kind: str, dtype: mq.dtype, nbytes: int
) -> None:
    table = json.dumps({"x": {"dtype": kind, "shape": [1], "data_offsets": [0, nbytes]}}).encode()
    found = read(struct.pack("<Q", len(table)) + table + bytes(nbytes))["x"]
    assert (found.dtype, found.tolist()) == (dtype, [0])


def test_T56_parameters_and_requires_grad_are_restored() -> None:
    loaded = read(written({"p": Parameter(mq.ones(2)), "w": mq.ones(2, requires_grad=True)}))
    assert type(loaded["p"]) is Parameter
    assert loaded["w"].requires_grad
    assert type(loaded["w"]) is Tensor


def test_T57_conjugates_are_written_as_their_values() -> None:
    z = mq.tensor([1 + 2j])
    z._keys |= CONJUGATE
    data = written({"z": z})
    assert foreign(data)["z"].tolist() == [[1.0, -2.0]]
    assert read(data)["z"].numpy().tolist() == [1 - 2j]


@pytest.mark.parametrize(
    "obj, text",
    [
        ({"a": 3}, "'a'.*int"),
        ({1: 2}, "names are strings.*1"),
        ([1], "got list"),
    ],
)
def test_T57_other_objects_are_refused(obj: object, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        mq.save(obj, io.BytesIO())


def test_T57_meta_and_fake_tensors_are_refused() -> None:
    fake = mq.FakeTensorMode().from_tensor(mq.ones(2))
    for given in (fake, mq.empty(2, device="meta")):
        with pytest.raises(TypeError, match="no data"):
            written({"a": given})


def test_F12_placeholders_are_zeros() -> None:
    fake = mq.FakeTensorMode().from_tensor(mq.ones(2))
    with mq.skip_data(materialize_fake_tensors=True):
        data = written({"a": fake})
    assert read(data)["a"].tolist() == [0.0, 0.0]


def test_F12_a_saved_tensor_loads_under_a_mode_as_a_fake() -> None:
    data = written({"a": mq.ones(2, 3)})
    mode = mq.FakeTensorMode()
    with mode:
        loaded = read(data)["a"]
    assert loaded.fake_mode is mode
    assert loaded.shape == (2, 3)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 16,
        struct.pack("<Q", 4) + b"nope",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 20) + b'{"a":{"dtype":"F32"}}'[:20],
    ],
)
def test_T57_what_is_no_safetensors_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no safetensors file"):
        read(data)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1]},
    ],
)
def test_T57_an_entry_that_makes_no_sense_is_refused(entry: dict[str, object]) -> None:
    text = json.dumps({"a": entry}).encode()
    with pytest.raises(ValueError, match="entry of 'a'"):
        read(struct.pack("<Q", len(text)) + text + bytes(4))


def test_T57_a_file_that_ends_early_is_refused() -> None:
    with pytest.raises(ValueError, match="8 bytes of values expected, 5 found"):
        read(written({"a": mq.ones(2)})[:-3])


def test_T56_map_location_places_the_tensors(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    mq.save({"a": mq.ones(2)}, path)
    assert mq.load(path, "cpu")["a"].device.type == "cpu"
    assert mq.load(path, {"cpu": "meta"})["a"].is_meta


def test_T57_a_storage_much_larger_than_its_file_is_not_made_again() -> None:
    facts = {"a": {"storage": 0, "nbytes": 1 << 40, "strides": [1 << 30], "offset": 0}}
    entry = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
    text = json.dumps({"__metadata__": {"maquette": json.dumps(facts)}, "a": entry}).encode()
    made = mq.load(io.BytesIO(len(text).to_bytes(8, "little") + text + b"ab"))["a"]
    assert (made.tolist(), made.stride()) == ([97, 98], (1,))
