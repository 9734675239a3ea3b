"""Overloads that PyTorch's operator database does not call: one tolerance, names of norms, ..."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import maquette as mq
import maquette.torch as torch

D = mq.tensor([10.0, 1.0, 0.5]).diag()


@pytest.mark.parametrize(("tol", "rank"), [(0.11, 3), (0.6, 2), (1.5, 1)])
def test_a_rank_counts_what_exceeds_its_tolerance(tol: float, rank: int) -> None:
    assert torch.linalg.matrix_rank(D, tol) == rank
    assert torch.linalg.matrix_rank(D, tol=mq.tensor(tol), hermitian=True) == rank
    out = mq.empty((), dtype=mq.int64)
    assert torch.linalg.matrix_rank(D, tol, out=out) is out
    assert out == rank


@pytest.mark.parametrize("rcond", [0.06, mq.tensor(0.06)])
@pytest.mark.parametrize("hermitian", [False, True])
def test_a_pseudoinverse_leaves_out_what_is_relatively_small(
    rcond: float | mq.Tensor, hermitian: bool
) -> None:
    found = torch.linalg.pinv(D, rcond, hermitian)
    torch.testing.assert_close(found, mq.tensor([0.1, 1.0, 0.0]).diag())
    out = mq.empty(3, 3)
    torch.linalg.pinv(D, rcond=rcond, hermitian=hermitian, out=out)
    torch.testing.assert_close(out, found)


def test_a_pseudoinverse_of_one_tolerance_has_a_derivative() -> None:
    x = mq.tensor([[2.0, 1.0], [0.0, 3.0]], dtype=mq.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: torch.linalg.pinv(x, 1e-9), x)


@pytest.mark.parametrize(("p", "expected"), [("fro", (101.25 * 5.01) ** 0.5), ("nuc", 11.5 * 3.1)])
def test_a_condition_number_in_a_norm_that_has_a_name(p: str, expected: float) -> None:
    assert torch.linalg.cond(D, p).item() == pytest.approx(expected, rel=1e-4)
    assert torch.linalg.cond(D.expand(2, 3, 3), p=p).shape == (2,)
    assert torch.linalg.cond(D, p, out=mq.empty(())).item() == pytest.approx(expected, rel=1e-4)
    with pytest.raises(RuntimeError, match="invalid norm type: other"):
        torch.linalg.cond(D, "other")


def test_a_nuclear_norm_is_written_to_a_tensor() -> None:
    assert torch.nuclear_norm(D, out=mq.empty(())).item() == pytest.approx(11.5)
    assert torch.nuclear_norm(D, (0, 1), True, out=mq.empty(1, 1)).shape == (1, 1)


@pytest.mark.parametrize("order", ["fro", "nuc", 1, 2])
def test_a_norm_of_real_matrices_is_not_computed_in_complex_numbers(order: object) -> None:
    with pytest.raises(RuntimeError, match="dtype should be real for real inputs"):
        torch.linalg.matrix_norm(D, order, dtype=mq.complex64)


def test_a_chain_of_matrices() -> None:
    a = mq.ones(2, 2)
    assert torch.chain_matmul(a, a, a).tolist() == [[4.0, 4.0], [4.0, 4.0]]
    assert torch.chain_matmul(a) is not a
    with pytest.raises(RuntimeError, match="one or more matrices"):
        torch.chain_matmul()


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: (a.addmm(2, 3, a, a), a.addmm(a, a, beta=2, alpha=3)),
        lambda a, b: (torch.addmm(2, a, 3, a, a), torch.addmm(a, a, a, beta=2, alpha=3)),
        lambda a, b: (torch.addmm(2, a, a, a), torch.addmm(a, a, a, beta=2)),
        lambda a, b: (a.clone().addbmm_(2, b, b), a.addbmm(b, b, beta=2)),
        lambda a, b: (torch.baddbmm(2, b, 3, b, b), torch.baddbmm(b, b, b, beta=2, alpha=3)),
        lambda a, b: (torch.addmv(2, a[0], 3, a, a[0]), a[0].addmv(a, a[0], beta=2, alpha=3)),
        lambda a, b: (a.addr(2, 3, a[0], a[0]), a.addr(a[0], a[0], beta=2, alpha=3)),
    ],
)
def test_factors_of_products_may_stand_where_they_once_did(
    call: Callable[..., tuple[mq.Tensor, mq.Tensor]],
) -> None:
    a = mq.arange(4.0).view(2, 2)
    with pytest.warns(UserWarning, match="deprecated: give beta="):
        old, new = call(a, a.expand(3, 2, 2))
    assert mq.equal(old, new)


def test_bytes_are_multiplied_as_whole_numbers() -> None:
    left, right = mq.full((2, 3), 100, dtype=mq.int8), mq.full((3, 2), -100, dtype=mq.int8)
    found = torch._int_mm(left, right)
    assert (found.dtype, found.tolist()) == (mq.int32, [[-30000, -30000], [-30000, -30000]])
    with pytest.raises(RuntimeError, match="mat2 dtype to be of type int8"):
        torch._int_mm(left, right.int())


def test_a_product_with_its_activation() -> None:
    a = mq.tensor([[1.0, -2.0], [3.0, -4.0]])
    found = torch._addmm_activation(a[0], a, a, use_gelu=True)
    assert mq.equal(found, mq.nn.functional.gelu(mq.addmm(a[0], a, a)))
    assert mq.equal(torch._addmm_activation(a, a, a), mq.addmm(a, a, a).relu())


@pytest.mark.parametrize(
    "draw",
    [
        torch.rand_like,
        torch.randn_like,
        lambda t, **o: torch.randint_like(t, 9, **o),
        lambda t, **o: torch.randint_like(t, 3, 9, **o),
        lambda t, **o: torch.randint_like(t, mq.tensor(9), **o),
    ],
)
def test_what_is_drawn_like_a_tensor_may_come_of_a_generator(
    draw: Callable[..., mq.Tensor],
) -> None:
    mq.manual_seed(5)
    expected = draw(mq.empty(20))
    before = mq.default_generator.get_state()
    given = draw(mq.empty(20), generator=mq.Generator().manual_seed(5))
    assert mq.equal(given, expected)
    assert mq.equal(mq.default_generator.get_state(), before)


def test_factors_of_lists_may_be_packed_in_a_vector() -> None:
    a = [mq.ones(2), mq.ones(3)]
    packed = torch._foreach_addcmul(a, a, a, mq.tensor([2.0, 3.0]))
    assert [t.tolist() for t in packed] == [[3.0, 3.0], [4.0, 4.0, 4.0]]
    torch._foreach_addcdiv_(a, packed, packed, mq.tensor([1.0, -1.0]))
    assert [t.tolist() for t in a] == [[2.0, 2.0], [0.0, 0.0, 0.0]]
    with pytest.raises(RuntimeError, match="length 2 but got 1"):
        torch._foreach_addcmul(a, a, a, mq.tensor([2.0]))


def test_lists_are_copied_reduced_and_multiplied() -> None:
    a = [mq.tensor([[1.0, -2.0], [0.0, 3.0]])]
    assert torch._foreach_max(a)[0].item() == 3.0
    assert torch._foreach_powsum(a, 2)[0].item() == 14.0
    assert mq.equal(torch._foreach_mm(a, a)[0], a[0] @ a[0])
    copied = torch._foreach_clone(a)[0]
    assert copied is not a[0]
    assert mq.equal(copied, a[0])


def test_lists_that_do_not_go_together_are_refused() -> None:
    one = [mq.ones(2)]
    for call in (lambda: torch._foreach_add([], []), lambda: torch._foreach_sqrt_([])):
        with pytest.raises(RuntimeError, match=r"Tensor list must have at least one tensor\."):
            call()
    with pytest.raises(RuntimeError, match="same number of tensors, got 0 and 1"):
        torch._foreach_add([], one)
    with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
        torch._foreach_mul(one, [1.0, 2.0])


def test_what_writes_the_tensors_of_a_list_gives_the_list() -> None:
    listed = [mq.ones(2)]
    assert torch._foreach_add_(listed, 1) is listed
    assert torch.ops.aten._foreach_add_(listed, 1) is None


@pytest.mark.parametrize("p", [1, -1, float("inf"), "fro", "nuc"])
def test_singular_matrices_have_no_finite_condition(p: object) -> None:
    found = torch.linalg.cond(mq.stack([mq.eye(2), mq.ones(2, 2), mq.zeros(2, 2)]), p)
    assert found[1:].tolist() == [float("inf")] * 2
    assert bool(found[0].isfinite())


@pytest.mark.parametrize("diagonal", [-70, -1, 0, 3, 90])
def test_triangles_of_large_matrices_are_those_of_small_ones(diagonal: int) -> None:
    large = mq.arange(2 * 130 * 200.0).view(2, 130, 200)
    row, column = mq.arange(130).unsqueeze(1), mq.arange(200)
    assert mq.equal(large.tril(diagonal), large * (column - row <= diagonal))
    assert mq.equal(large.triu(diagonal), large * (column - row >= diagonal))
