"""Tensors over the bytes of a file."""

from pathlib import Path

import numpy as np
import pytest

import maquette as mq
from maquette.torch.saving.storage import FloatStorage


def test_writes_go_to_a_shared_file_which_grows(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    t = mq.from_file(path, shared=True, size=3)
    t.copy_(mq.tensor([1.0, 2.0, 3.0]))
    assert mq.from_file(path, shared=True, size=2).tolist() == [1, 2]
    assert FloatStorage.from_file(path, True, 4).tolist() == [1, 2, 3, 0]
    del t
    assert np.fromfile(path, np.float32).tolist() == [1, 2, 3, 0]


def test_writes_to_a_private_copy_stay_here(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.array([1, 2], np.int64).tofile(path)
    t = mq.from_file(path, size=2, dtype=mq.int64)
    t.fill_(7)
    assert np.fromfile(path, np.int64).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="smaller than the required mapping size"):
        mq.from_file(path, size=3, dtype=mq.int64)
    with pytest.raises(RuntimeError, match="unable to open"):
        mq.from_file(tmp_path / "absent", size=1)


def test_a_file_is_mapped_into_memory_of_the_cpu_alone(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.array([1, 2], np.int64).tofile(path)
    assert mq.from_file(path, size=2, dtype=mq.int64, device="cpu").tolist() == [1, 2]
    with pytest.raises(NotImplementedError, match="not of meta"):
        mq.from_file(path, size=2, dtype=mq.int64, device="meta")
