"""`make_tensor` and `FileCheck` (finding 52)."""

import pytest

import maquette.torch as torch
from maquette.torch.testing import FileCheck, make_tensor
from maquette.torch.testing._internal.common_utils import TestCase


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


LAYOUTS = ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"]


def _sparse(name: str, elements: list[list[float]]) -> torch.Tensor:
    block = (2, 2) if name in ("sparse_bsr", "sparse_bsc") else None
    return torch.tensor(elements).to_sparse(layout=getattr(torch, name), blocksize=block)


@pytest.mark.parametrize("name", LAYOUTS)
def test_sparse_tensors_are_compared_part_by_part(name: str) -> None:
    made = _sparse(name, [[1.0, 0, 0, 0], [0, 0, 0, 0]])
    torch.testing.assert_close(made, _sparse(name, [[1 + 1e-7, 0, 0, 0], [0, 0, 0, 0]]))
    kind = name.removeprefix("sparse_").upper()
    with pytest.raises(AssertionError, match=f"Sparse {kind} values are not close"):
        torch.testing.assert_close(made, _sparse(name, [[2.0, 0, 0, 0], [0, 0, 0, 0]]))
    with pytest.raises(AssertionError, match=f"Sparse {kind} .*indices are not equal"):
        torch.testing.assert_close(made, _sparse(name, [[0, 0, 1.0, 0], [0, 0, 0, 0]]))
    more = _sparse(name, [[1.0, 0, 1, 0], [0, 0, 0, 0]])
    with pytest.raises(AssertionError, match=f"specified values in sparse {kind} tensors"):
        torch.testing.assert_close(made, more)
    with pytest.raises(AssertionError, match="attribute 'layout'"):
        torch.testing.assert_close(made, made.to_dense())
    torch.testing.assert_close(made, made.to_dense(), check_layout=False)


def test_coalesced_and_uncoalesced_tensors_are_compared_coalesced() -> None:
    twice = torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,))
    torch.testing.assert_close(twice, torch.tensor([3.0, 0]).to_sparse())
    with pytest.raises(AssertionError, match="number of sparse dimensions"):
        torch.testing.assert_close(torch.ones(2, 2).to_sparse(1), torch.ones(2, 2).to_sparse(2))


def test_meta_tensors_are_compared_by_what_they_have() -> None:
    torch.testing.assert_close(torch.ones(2, device="meta"), torch.ones(2, device="meta"))
    with pytest.raises(AssertionError, match="attribute 'shape'"):
        torch.testing.assert_close(torch.ones(2, device="meta"), torch.ones(3, device="meta"))


def test_make_tensor_draws_whole_numbers_between_bounds_that_are_none() -> None:
    made = make_tensor(1000, dtype=torch.int16, device="cpu", low=-0.9999, high=0.9999)
    assert made.unique().tolist() == [0]


def test_make_tensor_warns_of_one_value_and_refuses_ranges_beyond_the_dtype() -> None:
    with pytest.raises(ValueError, match="`low` must be less than `high`"):
        make_tensor(3, dtype=torch.int64, device="cpu", low=0, high=0)
    with pytest.raises(ValueError, match=r"no torch\.float64 lies between"):
        make_tensor(3, dtype=torch.float64, device="cpu", low=10**400, high=10**401)
    with pytest.warns(FutureWarning, match="low==high"):
        made = make_tensor(3, dtype=torch.float32, device="cpu", low=2, high=2)
    assert made.tolist() == [2, 2, 2]


def test_make_tensor_without_a_device_is_on_the_default_one() -> None:
    with torch.device("meta"):
        assert make_tensor(2, dtype=torch.float32, device=None).is_meta


EQUAL = TestCase().assertEqual


def test_a_test_case_compares_by_tolerances_inside_of_containers() -> None:
    one = {"x": [torch.ones(2), float("nan")], "name": "a", "n": 3}
    EQUAL(one, {"x": [torch.ones(2) + 1e-7, float("nan")], "name": "a", "n": 3})
    EQUAL(torch.full((), 3), 3)
    EQUAL(torch.zeros(2), torch.full((2,), 0.1), atol=0.2, rtol=0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        ({"x": torch.ones(2)}, {"x": torch.zeros(2)}),
        ([1, 2], [1]),
        ({"x": 1}, {"y": 1}),
        ("a", "b"),
        (torch.tensor(1.0), 2),
    ],
    ids=["dtypes", "values", "lengths", "keys", "texts", "numbers"],
)
def test_a_test_case_refuses_what_differs(one: object, other: object) -> None:
    with pytest.raises(AssertionError):
        EQUAL(one, other)
