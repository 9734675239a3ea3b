"""Storages as programs of old use them (finding 37)."""

import pytest

import maquette.torch as torch


def test_a_storage_is_made_of_a_size_or_of_bytes() -> None:
    """Finding 37."""
    assert len(torch.UntypedStorage(4)) == 4
    assert torch.UntypedStorage([1, 2, 255]).tolist() == [1, 2, 255]
    assert torch.UntypedStorage(3, device="meta").device.type == "meta"
    with pytest.raises(TypeError, match="number of bytes or a sequence"):
        torch.UntypedStorage("text")


def test_a_slice_of_a_storage_shares_its_bytes() -> None:
    """Finding 37."""
    whole = torch.UntypedStorage([1, 2, 3, 4])
    part = whole[1:3]
    part[0] = 9
    assert whole.tolist() == [1, 9, 3, 4]
    assert part.clone().tolist() == [9, 3]


def test_bytes_of_elements_turn_round() -> None:
    """Finding 37."""
    held = torch.UntypedStorage([0, 1, 2, 3])
    held.byteswap(torch.int16)
    assert held.tolist() == [1, 0, 3, 2]


def test_a_storage_keeps_what_programs_note_on_it() -> None:
    """Finding 37."""
    x = torch.ones(2)
    x.untyped_storage().note = "mine"
    assert x[:1].untyped_storage().note == "mine"


@pytest.mark.parametrize("kind", ["double", "float", "half", "bfloat16", "long", "int", "short"])
def test_typed_storages_convert(kind: str) -> None:
    """Finding 37."""
    made = getattr(torch.IntStorage([-1, 0, 3]), kind)()
    assert made.tolist() == [-1, 0, 3]
    assert made.dtype is getattr(torch, kind)


def test_typed_storages_on_meta_have_no_elements() -> None:
    """Finding 37."""
    s = torch.TypedStorage([1, 2], device="meta", dtype=torch.float32)
    assert (s.size(), s.nbytes(), s.data_ptr()) == (2, 8, 0)
    for call in (s.tolist, lambda: s[0]):
        with pytest.raises(NotImplementedError, match="Not available"):
            call()
    with pytest.raises(NotImplementedError, match="Cannot copy out"):
        s.cpu()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: torch.FloatStorage(device="cpu"), RuntimeError, "'device' cannot be specified"),
        (lambda: torch.FloatStorage(dtype=torch.int8), RuntimeError, "'dtype' cannot be specified"),
        (lambda: torch.FloatStorage(0, 0), RuntimeError, "Too many positional arguments"),
        (lambda: torch.FloatStorage("text"), TypeError, "invalid data type"),
        (lambda: torch.FloatStorage(torch.ones(1)), TypeError, "Argument type not recognized"),
        (lambda: torch.FloatStorage(other=1), TypeError, "unexpected keyword"),
        (lambda: torch.TypedStorage(device="xla"), RuntimeError, "device not recognized"),
    ],
)
def test_contradictions_are_refused(call: object, error: type[Exception], text: str) -> None:
    """Finding 37."""
    with pytest.raises(error, match=text):
        call()


def test_storages_are_made_of_buffers() -> None:
    """Finding 37."""
    shorts = torch.ShortStorage.from_buffer(bytearray([1, 2, 3, 4]), "big")
    assert shorts.tolist() == [258, 772]
    assert torch.FloatStorage.from_buffer(b"\x40\x10\0\0", "big")[0] == 2.25
    assert torch.BoolStorage.from_buffer(b"\0\2").tolist() == [False, True]


def test_set_refuses_a_storage_of_another_dtype() -> None:
    """Finding 37."""
    with pytest.raises(RuntimeError, match="Expected a Storage of type"):
        torch.tensor([]).set_(torch.LongStorage([1]))
    assert torch.tensor([]).set_(torch.FloatStorage([1, 2])).tolist() == [1.0, 2.0]


def test_the_class_of_storages_without_a_name_is_that_of_floats() -> None:
    """Finding 37."""
    assert torch.Storage is torch.FloatStorage
    assert isinstance(torch.Storage(2), torch.FloatStorage)


def test_an_empty_view_has_no_address() -> None:
    """Finding 37."""
    assert torch.ones(4)[4:].data_ptr() == 0


def test_tensors_are_made_of_storages() -> None:
    """Finding 37."""
    held = torch.IntStorage([1, 2])
    assert torch.tensor(held).tolist() == [1, 2]
    assert torch.tensor(held.untyped(), dtype=torch.int32).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="Expected a Storage of type"):
        torch.tensor(held, dtype=torch.float32)


def test_storage_is_the_class_of_the_default_dtype() -> None:
    assert torch.Storage is torch.FloatStorage
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.Storage is torch.DoubleStorage
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name, kind", [("float", torch.float32), ("long", torch.int64)])
def test_bytes_are_converted_as_numbers(name: str, kind: torch.dtype) -> None:
    made = getattr(torch.UntypedStorage([3, 200]), name)()
    assert (made.dtype, made.tolist()) == (kind, [3, 200])
