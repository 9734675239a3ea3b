"""LDL factors, least squares, `torch.lu`: values, layouts, gradients, refusals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from gradcheck import check_gradients, check_second_gradients

import maquette as mq
from maquette.aten.linalg.factorizations import LinAlgError

Floats = npt.NDArray[np.float64]
aten = mq.ops.aten
RANDOM = np.random.default_rng(17)
DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def matrix(*shape: int) -> Floats:
    return RANDOM.standard_normal(shape)


def tensor(array: object) -> mq.Tensor:
    return mq.from_numpy(np.array(array))


def symmetric(*shape: int) -> Floats:
    x = matrix(*shape)
    return x + x.swapaxes(-1, -2)


def singular() -> Floats:
    return np.diag([1.0, 0.0])


# --- LDL -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (70, 70), (0, 2, 2)])
def test_ldl_factors_solve_indefinite_systems(shape: tuple[int, ...]) -> None:
    a, b = symmetric(*shape), matrix(*shape[:-1], 2)
    packed, pivots = aten.linalg_ldl_factor(tensor(a))
    x = aten.linalg_ldl_solve(packed, pivots, tensor(b))
    np.testing.assert_allclose(a @ x.numpy(), b, atol=1e-8)


def test_ldl_reads_the_lower_triangle_alone() -> None:
    a = symmetric(4, 4)
    expected = aten.linalg_ldl_factor(tensor(a))[0]
    np.testing.assert_array_equal(aten.linalg_ldl_factor(tensor(np.tril(a)))[0], expected)


@pytest.mark.parametrize("hermitian", [True, False])
def test_ldl_of_complex_matrices_is_hermitian_if_asked(hermitian: bool) -> None:
    a = np.tril(matrix(4, 4) + 1j * matrix(4, 4))
    b = matrix(4, 1) + 0j
    packed, pivots = aten.linalg_ldl_factor(tensor(a), hermitian=hermitian)
    x = aten.linalg_ldl_solve(packed, pivots, tensor(b), hermitian=hermitian).numpy()
    lower = np.tril(a, -1)
    diagonal = np.diag(np.diag(a).real if hermitian else np.diag(a))
    whole = lower + diagonal + (lower.conj().T if hermitian else lower.T)
    np.testing.assert_allclose(whole @ x, b, atol=1e-10)


def test_ldl_solve_broadcasts_its_batches() -> None:
    a, b = symmetric(3, 3), matrix(5, 3, 2)
    packed, pivots = aten.linalg_ldl_factor(tensor(a))
    x = aten.linalg_ldl_solve(packed, pivots, tensor(b))
    np.testing.assert_allclose(a @ x.numpy(), b, atol=1e-10)


def test_ldl_of_a_singular_matrix_reports_what_ldl_factor_raises() -> None:
    _, _, info = aten.linalg_ldl_factor_ex(tensor(singular()))
    assert info.item() == 2
    for refusing in (
        lambda x: aten.linalg_ldl_factor(x),
        lambda x: aten.linalg_ldl_factor_ex(x, check_errors=True),
    ):
        with pytest.raises(LinAlgError):
            refusing(tensor(singular()))


@pytest.mark.parametrize("pivots", [[0, 1], [3, 1], [1, -2], [-1, 2]])
def test_pivots_that_lead_out_of_the_matrix_are_refused(pivots: list[int]) -> None:
    with pytest.raises(RuntimeError, match="every pivot must be between 1 and 2"):
        aten.linalg_ldl_solve(tensor(np.eye(2)), mq.tensor(pivots), tensor(np.eye(2)))


def test_ldl_outputs_are_of_the_exact_dtype() -> None:
    LD, pivots = tensor(np.zeros(0, np.float32)), mq.empty(0, dtype=mq.int32)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype double"):
        aten.linalg_ldl_factor.out(tensor(np.eye(2)), LD=LD, pivots=pivots)


# --- least squares -------------------------------------------------------------------


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4), (2, 3, 5, 2)])
def test_lstsq_is_the_pseudoinverse(driver: str, shape: tuple[int, ...]) -> None:
    a, b = matrix(*shape), matrix(*shape[:-1], 2)
    x = aten.linalg_lstsq(tensor(a), tensor(b), driver=driver)[0]
    np.testing.assert_allclose(x.numpy(), np.linalg.pinv(a) @ b, atol=1e-10)


@pytest.mark.parametrize("driver", ["gels", "gelsd", "gelss"])
def test_residuals_are_what_is_left_over(driver: str) -> None:
    a, b = matrix(2, 5, 3), matrix(2, 5, 2)
    x, residuals, _, _ = aten.linalg_lstsq(tensor(a), tensor(b), driver=driver)
    expected = ((a @ x.numpy() - b) ** 2).sum(-2)
    np.testing.assert_allclose(residuals.numpy(), expected, atol=1e-12)


def test_there_are_no_residuals_without_full_rank() -> None:
    a = np.stack([np.ones((4, 2)), matrix(4, 2)])
    found = aten.linalg_lstsq(tensor(a), tensor(matrix(2, 4, 1)), driver="gelsd")
    assert found[1].shape == (0,)
    assert found[2].tolist() == [1, 2]


def test_singular_values_come_with_the_drivers_that_find_them() -> None:
    a = matrix(4, 3)
    sizes = {d: aten.linalg_lstsq(tensor(a), tensor(a), driver=d)[3].numpy() for d in DRIVERS}
    assert sizes["gels"].size == sizes["gelsy"].size == 0
    np.testing.assert_allclose(sizes["gelsd"], np.linalg.svd(a, compute_uv=False))
    np.testing.assert_allclose(sizes["gelss"], sizes["gelsd"])


@pytest.mark.parametrize("driver", DRIVERS)
def test_lstsq_of_a_matrix_without_columns_leaves_all_over(driver: str) -> None:
    b = matrix(3, 2)
    x, residuals, _, _ = aten.linalg_lstsq(tensor(np.zeros((3, 0))), tensor(b), driver=driver)
    assert x.shape == (0, 2)
    if driver != "gelsy":
        np.testing.assert_allclose(residuals.numpy(), (b**2).sum(0))


def test_the_solution_is_a_window_into_a_longer_array() -> None:
    a = tensor(matrix(2, 5, 3))
    assert aten.linalg_lstsq(a, tensor(matrix(2, 5, 2)))[0].stride() == (10, 1, 5)
    vectors = aten.linalg_lstsq(a, tensor(matrix(2, 5)))[0]
    assert (tuple(vectors.shape), vectors.stride()) == ((2, 3), (5, 1))


def test_an_empty_solution_is_laid_out_as_that_window() -> None:
    a, b = tensor(matrix(5, 3)), tensor(matrix(5, 2))
    names = ("solution", "residuals", "singular_values")
    outs = {name: mq.empty(0, dtype=mq.float64) for name in names}
    rank = mq.empty(0, dtype=mq.int64)
    x = aten.linalg_lstsq.out(a, b, driver="gelsd", rank=rank, **outs)[0]
    assert x is outs["solution"]
    assert x.stride() == (1, 5)
    np.testing.assert_array_equal(x, aten.linalg_lstsq(a, b, driver="gelsd")[0])


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (2, 3, 3)])
@pytest.mark.parametrize("driver", ["gels", "gelsd"])
def test_derivative_of_lstsq(driver: str, shape: tuple[int, ...]) -> None:
    def solve(a: mq.Tensor, b: mq.Tensor) -> object:
        return aten.linalg_lstsq(a, b, driver=driver)[:2]

    check_gradients(solve, matrix(*shape), matrix(*shape[:-1], 2))


def test_lstsq_broadcasts_batches() -> None:
    a, b = matrix(2, 5, 3), matrix(5, 2)
    x, residuals, rank, _ = aten.linalg_lstsq(tensor(a), tensor(b), driver="gelsd")
    np.testing.assert_allclose(x.numpy(), np.linalg.pinv(a) @ b, atol=1e-10)
    assert (tuple(residuals.shape), tuple(rank.shape)) == ((2, 2), (2,))


def test_ranks_are_of_the_matrices_where_the_right_hand_sides_are_more() -> None:
    found = aten.linalg_lstsq(tensor(matrix(1, 5, 3)), tensor(matrix(2, 5, 2)), driver="gelss")
    assert [tuple(t.shape) for t in found] == [(2, 3, 2), (2, 2), (1,), (1, 3)]


def test_derivative_of_lstsq_sums_over_a_broadcast_batch() -> None:
    check_gradients(lambda a, b: aten.linalg_lstsq(a, b)[0], matrix(2, 4, 2), matrix(4, 3))


def test_derivative_of_lstsq_of_vectors() -> None:
    check_gradients(lambda a, b: aten.linalg_lstsq(a, b)[0], matrix(2, 4, 2), matrix(2, 4))


def test_second_derivative_of_lstsq() -> None:
    check_second_gradients(lambda a, b: aten.linalg_lstsq(a, b)[0], matrix(4, 2), matrix(4, 1))


def test_gels_refuses_a_matrix_without_full_rank() -> None:
    batch = tensor(np.stack([np.eye(2), singular()]))
    with pytest.raises(LinAlgError, match=r"\(Batch element 1\).*does not have full rank"):
        aten.linalg_lstsq(batch, batch, driver="gels")


def test_F69_lstsq_in_fake_mode_depends_on_the_data() -> None:
    mode = mq.FakeTensorMode()
    x = mode.from_tensor(tensor(matrix(3, 2)))
    with mode, pytest.raises(RuntimeError) as caught:
        aten.linalg_lstsq(x, x)
    assert type(caught.value).__name__ == "DynamicOutputShapeException"


def unknown_driver(x: mq.Tensor) -> object:
    return aten.linalg_lstsq(x, x, driver="qr")


def test_an_unknown_driver_is_refused() -> None:
    with pytest.raises(RuntimeError, match="driver` should be one of"):
        unknown_driver(tensor(matrix(3, 2)))


def test_F22_an_unknown_driver_is_refused_in_fake_mode_too() -> None:
    mode = mq.FakeTensorMode()
    with mode, pytest.raises(RuntimeError, match="driver` should be one of"):
        unknown_driver(mode.from_tensor(tensor(matrix(3, 2))))


def test_lstsq_refuses_what_is_not_a_number() -> None:
    x = tensor(np.full((3, 2), np.nan))
    with pytest.raises(RuntimeError, match="input must be finite"):
        aten.linalg_lstsq(x, x)


# --- LU ------------------------------------------------------------------------------


def test_lu_factors_a_singular_matrix_and_says_so() -> None:
    packed, pivots, info = mq.lu(tensor(singular()), get_infos=True)
    assert info.item() == 2
    np.testing.assert_array_equal(packed, tensor(singular()).lu()[0])
    assert pivots.dtype is mq.int32


def test_lu_writes_to_as_many_tensors_as_it_gives() -> None:
    x = tensor(matrix(3, 3))
    outs = mq.empty(0, dtype=mq.float64), mq.empty(0, dtype=mq.int32)
    assert mq.lu(x, out=outs)[0] is outs[0]
    np.testing.assert_array_equal(outs[0], mq.lu(x)[0])
    with pytest.raises(TypeError, match="a tuple of 3 tensors, but it has 2"):
        mq.lu(x, get_infos=True, out=outs)
