"""CuPy as the array library of cuda: what needs no device here, the rest where there is one."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types

import pytest

import maquette as mq
from maquette.backends import cupy as cupy_backend
from maquette.core.device import device


def _cupy_device() -> bool:
    if importlib.util.find_spec("cupy") is None:
        return False
    return bool(importlib.import_module("cupy").is_available())


needs_device = pytest.mark.skipif(
    not _cupy_device(), reason="no CuPy with a CUDA device here; tools/cuda_conformance.py"
)


def _module(monkeypatch: pytest.MonkeyPatch, **parts: object) -> None:
    module = types.ModuleType("cupy")
    vars(module).update(parts)
    monkeypatch.setitem(sys.modules, "cupy", module)


def test_T3_without_cupy_data_on_cuda_is_refused_with_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(NotImplementedError, match=r"pip install 'maquette\[cuda\]'"):
        cupy_backend.CupyBackend()


def test_T3_without_a_device_data_on_cuda_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _module(monkeypatch, is_available=lambda: False)
    with pytest.raises(NotImplementedError, match="finds no CUDA device"):
        cupy_backend.CupyBackend()


def test_T3_a_cupy_that_promotes_in_the_old_way_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _module(monkeypatch, is_available=lambda: True, __version__="13.6.0")
    with pytest.raises(NotImplementedError, match=r"CuPy 14 or later .* got 13.6.0"):
        cupy_backend.CupyBackend()


def test_T3_fake_tensors_on_cuda_need_no_library() -> None:
    with mq.FakeTensorMode():
        assert (mq.ones(2, device="cuda") + 1).device == device("cuda", 0)


@needs_device
def test_T3_data_on_cuda_is_cupys() -> None:
    a = mq.arange(6.0, device="cuda").reshape(2, 3)
    assert type(a._mq_data).__module__.startswith("cupy")
    assert mq.equal((a @ a.t()).cpu(), a.cpu() @ a.cpu().t())


@needs_device
def test_T3_bfloat16_on_cuda_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="CuPy has no bfloat16 arrays"):
        mq.ones(2, dtype=mq.bfloat16, device="cuda")


@needs_device
def test_T2_views_on_cuda_share_memory() -> None:
    a = mq.zeros(2, 3, device="cuda")
    a.t()[1].add_(5)
    assert a.cpu().tolist() == [[0, 5, 0], [0, 5, 0]]
