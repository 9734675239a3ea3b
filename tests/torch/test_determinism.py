"""What is filled where programs ask for determinism."""

from collections.abc import Iterator

import pytest

import maquette.torch as torch
from maquette.torch.utils import deterministic


@pytest.fixture
def determinism() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.complex64])
def test_memory_that_is_left_unset_is_nan(determinism: None, kind: torch.dtype) -> None:
    """Finding 52: torch.utils.deterministic acts."""
    assert torch.empty(2, 3, dtype=kind).isnan().all()
    assert torch.empty_strided((2, 3), (1, 2), dtype=kind).isnan().all()
    assert torch.empty_like(torch.ones(2, dtype=kind)).isnan().all()
    assert torch.ones(2, dtype=kind).new_empty(3).isnan().all()


def test_integers_are_the_largest(determinism: None) -> None:
    assert torch.empty(2, dtype=torch.int16).tolist() == [32767, 32767]
    assert torch.empty(2, dtype=torch.bool).all()


def test_the_filling_can_be_left_out(determinism: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deterministic, "fill_uninitialized_memory", False)
    assert not torch.empty_strided((2,), (1,)).isnan().any()


def test_what_is_no_bool_is_refused() -> None:
    with pytest.raises(TypeError, match="must be bool, not int"):
        torch.use_deterministic_algorithms(1)
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        torch.set_deterministic_debug_mode(7)


def test_what_resizing_adds_is_filled(determinism: None) -> None:
    x = torch.ones(2).resize_(4)
    assert x[:2].tolist() == [1.0, 1.0]
    assert x[2:].isnan().all()
