"""`make_tensor` and `FileCheck` (finding 52)."""

import pytest

import maquette.torch as torch
from maquette.torch.testing import FileCheck, make_tensor


@pytest.mark.parametrize(
    "kind", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.complex64]
)
def test_make_tensor_keeps_its_bounds(kind: torch.dtype) -> None:
    """Finding 52."""
    made = make_tensor(50, 2, dtype=kind, device="cpu", low=0, high=2)
    assert made.shape == (50, 2)
    assert made.dtype is kind
    real = torch.view_as_real(made) if kind.is_complex else made
    assert 0 <= real.min().item() <= real.max().item() <= 2


def test_make_tensor_leaves_gaps_and_no_zeros() -> None:
    """Finding 52."""
    made = make_tensor(
        (3, 4), dtype=torch.int8, device="cpu", low=0, high=2, noncontiguous=True, exclude_zero=True
    )
    assert not made.is_contiguous()
    assert made.tolist() == [[1] * 4] * 3


def test_make_tensor_refuses_bounds_that_hold_nothing() -> None:
    """Finding 52."""
    with pytest.raises(ValueError, match="`low` must be less than `high`"):
        make_tensor(2, dtype=torch.float32, device="cpu", low=2, high=1)


TEXT = "def f(x):\n  y = add(x, 1)\n  z = mul(y, 2)\n  return z\n"


@pytest.mark.parametrize(
    "check",
    [
        FileCheck().check("add").check("mul"),
        FileCheck().check("add").check_same("x").check_next("mul"),
        FileCheck().check("add").check_not("div").check("mul"),
        FileCheck().check_count("y", 2, exactly=True),
        FileCheck().check_dag("mul").check_dag("add").check("return"),
        FileCheck().check_regex(r"m\wl"),
    ],
)
def test_a_text_holds_what_is_checked(check: FileCheck) -> None:
    """Finding 52."""
    check.run(TEXT)


@pytest.mark.parametrize(
    "check",
    [
        FileCheck().check("mul").check("add"),
        FileCheck().check("add").check_same("mul"),
        FileCheck().check("add").check_next("return"),
        FileCheck().check("add").check_not("mul").check("return"),
        FileCheck().check_count("y", 1, exactly=True),
        FileCheck().check("return").check_not("z"),
    ],
)
def test_a_text_that_holds_something_else_is_refused(check: FileCheck) -> None:
    """Finding 52."""
    with pytest.raises(RuntimeError, match="Expected to"):
        check.run(TEXT)
