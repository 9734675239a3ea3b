"""`torch.distributed.checkpoint._consolidate_hf_safetensors`: tensors in pieces are made whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import maquette as mq
from maquette.torch.distributed.checkpoint._consolidate_hf_safetensors import (
    consolidate_safetensors_files as consolidate,
)

Pieces = dict[str, tuple[mq.Tensor, list[int]]]


def save(folder: Path, number: int, pieces: Pieces) -> None:
    """Write the file of one process: its pieces, and where each is in its tensor."""
    places = {name: {"saved_offsets": offsets} for name, (_, offsets) in pieces.items()}
    strings = {"DCP_SHARDING_INFO": json.dumps(places), "DCP_VERSION": "1.0", "format": "pt"}
    tensors = {name: t.contiguous() for name, (t, _) in pieces.items()}
    path = folder / f"shard-{number:05}-model-00001-of-00001.safetensors"
    mq.save(tensors, path, metadata=strings)


@pytest.mark.parametrize("threads", [1, 2])
def test_T57_pieces_of_tensors_are_put_together(tmp_path: Path, threads: int) -> None:
    w, half = mq.randn(5, 6), mq.randn(4, 3, 8).to(mq.bfloat16)
    save(tmp_path, 1, {"w": (w[:3], [0, 0]), "half": (half[:2, :, :5], [0, 0, 0])})
    save(tmp_path, 2, {"w": (w[3:, :2], [3, 0]), "half": (half[2:, :, :5], [2, 0, 0])})
    save(tmp_path, 3, {"w": (w[3:, 2:], [3, 2]), "half": (half[:, :, 5:], [0, 0, 5])})
    consolidate(tmp_path, tmp_path, {"w": 1, "half": 2}, num_threads=threads)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    files = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    assert index["weight_map"] == dict(zip(["w", "half"], files, strict=True))
    assert index["metadata"] == {"total_size": 5 * 6 * 4 + 4 * 3 * 8 * 2}
    assert mq.equal(mq.load(tmp_path / files[0])["w"], w)
    assert mq.equal(mq.load(tmp_path / files[1])["half"], half)


def test_T57_scalars_integers_and_empty_tensors_are_kept(tmp_path: Path) -> None:
    whole = {"step": mq.tensor(3), "loss": mq.tensor(0.5), "none": mq.ones(0, 2)}
    save(tmp_path, 1, {name: (t, [0] * t.dim()) for name, t in whole.items()})
    save(tmp_path, 2, {"loss": (whole["loss"], [])})  # by each process alike
    consolidate(str(tmp_path), str(tmp_path), dict.fromkeys(whole, 1))
    found = mq.load(tmp_path / "model-00001-of-00001.safetensors")
    assert list(found) == list(whole)
    for name, t in whole.items():
        assert found[name].dtype is t.dtype
        assert mq.equal(found[name], t)


def _two_rows(folder: Path) -> None:
    save(folder, 1, {"w": (mq.ones(2, 3), [0, 0])})


def _with(number: int, t: mq.Tensor, offsets: list[int]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        _two_rows(folder)
        save(folder, number, {"w": (t, offsets)})

    return write


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda folder: None, "no safetensors file in .* has w"),
        (_with(2, mq.ones(1, 3), [3, 0]), "pieces of 'w' are missing: .* have 9 elements of 12"),
        (_with(2, mq.ones(1, 3).double(), [2, 0]), "the pieces of 'w' do not fit together"),
        (_with(2, mq.ones(3), [2]), "the pieces of 'w' do not fit together"),
        (_with(2, mq.ones(1, 3), [2]), r"shard-00002.*: 'w' of \[1, 3\] cannot be at \[2\]"),
        (lambda folder: mq.save({"w": mq.ones(2)}, folder / "a.safetensors"), "a.safetensors.*: it"
         " does not say which parts"),
    ],
)  # fmt: skip
def test_T57_what_gives_no_whole_tensor_is_refused(
    write: Callable[[Path], None], words: str, tmp_path: Path
) -> None:
    write(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ValueError, match=words):
        consolidate(tmp_path, tmp_path, {"w": 1})
    assert sorted(tmp_path.iterdir()) == before


def test_T57_a_damaged_file_is_named(tmp_path: Path) -> None:
    _two_rows(tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"shard-00001.*: the file ends early"):
        consolidate(tmp_path, tmp_path, {"w": 1})
