"""Products at their edges: outputs of another dtype, nothing to multiply, rounding in 16 bits."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import maquette as mq

aten = mq.ops.aten
random = np.random.default_rng(5)
Call = Callable[[mq.Tensor], mq.Tensor]


def tensor(array: object) -> mq.Tensor:
    return mq.from_numpy(np.asarray(array))


V, M, B = mq.ones(2), mq.ones(2, 2), mq.ones(1, 2, 2)
EXACT: dict[str, Call] = {
    "abs": lambda out: aten.abs.out(V, out=out),
    "addbmm": lambda out: aten.addbmm.out(V, B, B, out=out),
    "addmm": lambda out: aten.addmm.out(V, M, M, out=out),
    "addmv": lambda out: aten.addmv.out(V, M, V, out=out),
    "baddbmm": lambda out: aten.baddbmm.out(V, B, B, out=out),
    "bmm": lambda out: aten.bmm.out(B, B, out=out),
    "dot": lambda out: aten.dot.out(V, V, out=out),
    "inner": lambda out: aten.inner.out(M, V, out=out),
    "linear": lambda out: aten.linear.out(B, M, V, out=out),
    "matmul": lambda out: aten.matmul.out(B, M, out=out),
    "mm": lambda out: aten.mm.out(M, M, out=out),
    "multi_dot": lambda out: aten.linalg_multi_dot.out([M, M], out=out),
    "mv": lambda out: aten.mv.out(M, V, out=out),
    "neg": lambda out: aten.neg.out(V, out=out),
    "sgn": lambda out: aten.sgn.out(V, out=out),
    "sign": lambda out: aten.sign.out(V, out=out),
    "tensordot": lambda out: aten.tensordot.out(M, M, [0], [1], out=out),
    "vdot": lambda out: aten.vdot.out(V, V, out=out),
    "vecdot": lambda out: aten.linalg_vecdot.out(M, M, out=out),
}


@pytest.mark.parametrize("name", EXACT)
def test_T34_a_product_goes_into_its_own_dtype_alone(name: str) -> None:
    assert EXACT[name](mq.zeros(0)).numel()
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got do"):
        EXACT[name](mq.zeros(0, dtype=mq.float64))


@pytest.mark.parametrize("name", ["inner", "outer", "kron", "addr"])
def test_T34_an_elementwise_product_is_converted(name: str) -> None:
    operands = {"inner": (V.sum(), V), "addr": (M, V, V)}.get(name, (V, V))
    found = getattr(aten, name).out(*operands, out=mq.zeros(0, dtype=mq.float64))
    assert found.tolist() == getattr(aten, name)(*operands).tolist()


@pytest.mark.parametrize("kind", [mq.float32, mq.float64, mq.float16, mq.complex128])
def test_magnitudes_of_complex_numbers_go_into_reals_or_their_own_dtype(kind: mq.dtype) -> None:
    z = mq.tensor([3 + 4j], dtype=mq.complex128)
    assert aten.abs.out(z, out=mq.zeros(1, dtype=kind)).tolist() == [5]


def test_magnitudes_of_complex_numbers_go_into_no_other_complex_dtype() -> None:
    z = mq.tensor([3 + 4j], dtype=mq.complex128)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        aten.abs.out(z, out=mq.zeros(1, dtype=mq.complex64))


@pytest.mark.parametrize("inner", [0, 2])
def test_bool_matrices_multiply_where_there_is_nothing_to_multiply(inner: int) -> None:
    a, b = mq.ones(2, inner, dtype=mq.bool), mq.ones(inner, 3, dtype=mq.bool)
    if inner:
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            aten.mm(a, b)
    else:
        assert not aten.mm(a, b).any()


def test_a_sum_over_nothing_is_nothing_whatever_its_factor() -> None:
    infinite = float("inf")
    assert aten.addmm(mq.ones(1, 1), mq.ones(1, 0), mq.ones(0, 1), alpha=infinite).item() == 1
    assert aten.addmv(mq.ones(1), mq.ones(1, 0), mq.ones(0), alpha=infinite).item() == 1
    left, right = mq.ones(1, 1, 0), mq.ones(1, 0, 1)
    assert aten.baddbmm(mq.ones(1, 1, 1), left, right, alpha=infinite).item() == 1
    assert aten.addbmm(mq.ones(1, 1), left, right, alpha=infinite).item() == 1


def test_over_nothing_integers_take_no_fraction_of_the_base() -> None:
    base = mq.ones(1, 1, dtype=mq.int64)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        aten.addmm(base, base[:, :0], base[:0], beta=0.5)


def test_integers_take_no_infinite_factor() -> None:
    base = mq.ones(1, 1, dtype=mq.int64)
    with pytest.raises(RuntimeError, match="cannot be converted to type int64 without overflow"):
        aten.addmm(base, base, base, alpha=float("inf"))


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_addbmm_rounds_after_each_product_in_16_bits(kind: type) -> None:
    shapes = [(4, 5), (6, 4, 3), (6, 3, 5)]
    base, left, right = (random.standard_normal(shape).astype(kind) for shape in shapes)
    found = aten.addbmm(*map(tensor, (base, left, right)), beta=0.6, alpha=0.2)
    total = tensor(base)
    for n, (a, b) in enumerate(zip(left, right)):
        total = aten.addmm(total, tensor(a), tensor(b), beta=1 if n else 0.6, alpha=0.2)
    assert found.tolist() == total.tolist()


@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 5)])
def test_addbmm_in_place_grows_a_base_that_spreads(shape: tuple[int, ...]) -> None:
    base = tensor(random.standard_normal(shape)).clone()
    left, right = (
        tensor(random.standard_normal((2, 3, 4))),
        tensor(random.standard_normal((2, 4, 5))),
    )
    expected = aten.addbmm(base, left, right, beta=2)
    assert base.addbmm_(left, right, beta=2) is base
    assert base.tolist() == expected.tolist()


def test_addbmm_in_place_is_differentiated_where_it_grows() -> None:
    base = mq.ones(1, requires_grad=True)
    grown = (base * 1).addbmm_(mq.ones(2, 3, 4), mq.ones(2, 4, 5), beta=2)
    grown.sum().backward()
    assert base.grad is not None
    assert base.grad.tolist() == [2.0 * 3 * 5]


def test_addbmm_into_an_output_takes_a_base_of_any_dtype() -> None:
    found = aten.addbmm.out(M * 1.5, B.long(), B.long(), out=mq.zeros(2, 2, dtype=mq.int64))
    assert found.tolist() == (B[0] @ B[0] + 1).tolist()


# --- outer products -----------------------------------------------------------------------------


def test_addr_scales_by_a_complex_number_what_is_real() -> None:
    base, whole = mq.ones(3, 3, dtype=mq.complex128), mq.arange(3)
    found = aten.addr(base, whole, whole, beta=1.0, alpha=2j)
    np.testing.assert_allclose(found.numpy(), 1 + 2j * np.outer(np.arange(3), np.arange(3)))


def test_addr_adds_truths_to_numbers() -> None:
    truths = mq.tensor([True, False])
    base = mq.full((2, 2), 200, dtype=mq.uint8)
    assert aten.addr(base, truths, truths, beta=3, alpha=2).tolist() == [[90, 88], [88, 88]]


@pytest.mark.parametrize("name", ["beta", "alpha"])
def test_addr_scales_numbers_by_no_truth(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"Boolean {name} only supported for Boolean results"):
        aten.addr(M, V, V, **{name: True})


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_addr_rounds_after_each_step_in_16_bits(kind: type) -> None:
    base, column, row = (random.standard_normal(n).astype(kind) for n in ((20, 30), 20, 30))
    found = aten.addr(*map(tensor, (base, column, row)), beta=0.6, alpha=0.2)
    factors = mq.tensor([0.6, 0.2]).to(found.dtype)
    scaled = (tensor(column) * factors[1]).unsqueeze(1) * tensor(row)
    assert found.tolist() == (tensor(base) * factors[0] + scaled).tolist()


def test_addr_promotes_by_its_base_as_by_its_vectors() -> None:
    v = mq.ones(2, dtype=mq.bfloat16)
    assert aten.addr(mq.ones((), dtype=mq.float16), v, v).dtype is mq.float32


@pytest.mark.parametrize("fake", [False, True])
@pytest.mark.parametrize("name", ["outer", "ger", "addr"])
def test_T41_outer_products_do_not_write_over_their_vectors(name: str, fake: bool) -> None:
    x, base = mq.ones(2), mq.ones(2, 2)
    if fake:
        mode = mq.FakeTensorMode()
        x, base = mode.from_tensor(x), mode.from_tensor(base)
    operands = (base, x, x) if name == "addr" else (x, x)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        getattr(aten, name).out(*operands, out=x)


# --- products of any rank -----------------------------------------------------------------------


@pytest.mark.parametrize("turned", [False, True])
def test_tensordot_to_one_element_copies_nothing(turned: bool) -> None:
    a, b = tensor(random.standard_normal((2, 3, 1))), tensor(random.standard_normal((1, 3, 2)))
    b = b if turned else b.transpose(1, 2).contiguous()
    dims = ([0, 1], [2, 1]) if turned else ([0, 1], [1, 2])
    found = aten.tensordot(a, b, *dims)
    assert found.shape == (1, 1)
    np.testing.assert_allclose(found.numpy(), np.tensordot(a.numpy(), b.numpy(), dims))


def test_vecdot_of_two_vectors_rounds_once_in_16_bits() -> None:
    a, b = (random.standard_normal(64).astype(ml_dtypes.bfloat16) for _ in range(2))
    exact = np.dot(a.astype(np.float32), b.astype(np.float32)).astype(ml_dtypes.bfloat16)
    assert aten.linalg_vecdot(tensor(a), tensor(b)).item() == float(exact)


def test_vecdot_refuses_mixed_dtypes() -> None:
    with pytest.raises(RuntimeError, match="Expected x and y to have the same dtype"):
        aten.linalg_vecdot(V, V.double())


def test_bilinear_refuses_mixed_dtypes() -> None:
    with pytest.raises(RuntimeError, match="must have one dtype, got int64, float32, float32"):
        aten.bilinear(mq.ones(2, 3).long(), mq.ones(2, 4), mq.ones(5, 3, 4))


def test_linear_into_an_output_adds_a_bias_of_another_dtype() -> None:
    found = aten.linear.out(B.double(), M.double(), V, out=mq.zeros(0, dtype=mq.float64))
    assert found.tolist() == (B @ M.T + V).tolist()


def test_the_conjugate_that_vdot_gives_is_no_view() -> None:
    a = tensor(np.arange(3) + 1j).requires_grad_()
    b = tensor(np.arange(3) - 2j)
    result = aten.vdot(a, b.conj())
    assert result._base is None
    (found,) = mq.autograd.grad(result, [a], grad_outputs=mq.ones_like(result))
    np.testing.assert_allclose(found.numpy(), b.conj().resolve_conj().numpy())


def test_a_bilinear_form_of_one_row_and_one_output() -> None:
    x, y, w = mq.tensor([[1.0, 2.0]]), mq.tensor([[3.0, 4.0]]), mq.tensor([[[1.0, 2], [3, 4]]])
    assert mq.nn.functional.bilinear(x, y, w).tolist() == [[61.0]]
