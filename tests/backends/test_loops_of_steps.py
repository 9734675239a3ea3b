"""Compiled sums in place, positions in rows, truth values that meet, narrow whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from plain_path import LARGE, Plainly, arrays, plainly, spread_out, trained

import maquette as mq
import maquette.torch as torch

__all__ = ["plainly"]

F = torch.nn.functional
EDGES = [torch.nan, torch.inf, -torch.inf, 3e9, -3e9, 70_000.5, -1.5, 255.7, -0.0]


def same(found: object, plain: object) -> None:
    for a, b in zip(arrays(found), arrays(plain), strict=True):
        np.testing.assert_array_equal(a, b)
        if a.dtype.kind == "f":
            assert (np.signbit(a) == np.signbit(b))[~np.isnan(a)].all()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["add_", "sub_"])
def test_scaled_steps_in_place_have_the_plain_bits(
    name: str, kind: mq.dtype, plainly: Plainly
) -> None:
    x, y = spread_out().to(kind), spread_out().flip(0).to(kind)
    same(
        getattr(x.clone(), name)(y, alpha=0.3),
        plainly(lambda: getattr(x.clone(), name)(y, alpha=0.3)),
    )


def test_scaled_steps_on_shared_and_turned_memory() -> None:
    x = torch.arange(20_000.0)
    x.add_(x, alpha=0.5)
    assert torch.equal(x, 1.5 * torch.arange(20_000.0))
    square = torch.ones(100, 100)
    square.t().add_(torch.arange(100.0).expand(100, 100), alpha=2)
    assert torch.equal(square[:, 0], 1 + 2 * torch.arange(100.0))


def test_lists_step_as_their_members_do() -> None:
    torch.manual_seed(0)
    given, steps = [torch.randn(20_000), torch.randn(3)], [torch.randn(20_000), torch.randn(3)]
    alone = [a.clone().add_(b, alpha=-0.1) for a, b in zip(given, steps)]
    torch._foreach_add_(given, steps, alpha=-0.1)
    assert all(torch.equal(a, b) for a, b in zip(given, alone))


@pytest.mark.parametrize("kind", [torch.float32, torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("how", ["assign", "sum", "prod", "amax", "amin"])
def test_values_meet_in_rows_as_plainly(how: str, kind: mq.dtype, plainly: Plainly) -> None:
    torch.manual_seed(0)
    x, y = (torch.randn(200, 203) * 3).to(kind), (torch.randn(200, 203) * 3).to(kind)
    if kind is torch.float32:
        y[0, :2] = torch.tensor([torch.nan, -torch.inf])
    at = torch.randint(0, 203, (200, 203))

    def run() -> object:
        if how == "assign":
            return x.scatter(1, at, y)
        return x.scatter_reduce(1, at, y, how)

    same(run(), plainly(run))


@pytest.mark.parametrize("place", [-1, 203])
def test_positions_outside_are_named(place: int) -> None:
    at = torch.zeros(200, 203, dtype=torch.int64)
    at[7, 9] = place
    with pytest.raises(RuntimeError, match=f"index {place} is out of bounds for dimension 1"):
        torch.zeros(200, 203).scatter(1, at, torch.ones(200, 203))


@pytest.mark.parametrize("shape", [(20_000,), (300, 70)], ids=str)
def test_truth_values_that_meet_are_or(shape: tuple[int, ...], plainly: Plainly) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(shape) > 1, torch.randn(shape) > 1
    at = torch.randint(-shape[0], shape[0], (shape[0],))
    same(
        x.index_put((at,), y, accumulate=True),
        plainly(lambda: x.index_put((at,), y, accumulate=True)),
    )


@pytest.mark.parametrize("kind", [torch.complex64, torch.complex128], ids=str)
def test_outer_products_of_complex_numbers_are_the_plain_ones(
    kind: mq.dtype, plainly: Plainly
) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(150, dtype=kind), torch.randn(170, dtype=kind)
    a[0], b[1] = complex(torch.inf, 1), complex(2, torch.nan)
    (found,), (plain,) = arrays(a.outer(b)), arrays(plainly(lambda: a.outer(b)))
    eps = torch.finfo(kind).eps  # NumPy's products may be rounded once with their sum
    np.testing.assert_allclose(
        found.view(plain.real.dtype), plain.view(plain.real.dtype), 4 * eps, 9 * eps
    )


@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("kind", [torch.int8, torch.int16], ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex")
def test_numbers_beyond_a_narrow_type_are_cut_as_plainly(
    given: mq.dtype, kind: mq.dtype, plainly: Plainly
) -> None:
    x = torch.tensor(EDGES).repeat(LARGE // 9).to(given)
    for t in (x, x[: 4_000 * 9].reshape(400, 90).t()):
        same(t.to(kind), plainly(lambda t=t: t.to(kind)))


@pytest.mark.parametrize("p", [1.0, 2.0, torch.inf])
def test_gradients_of_pairs_are_the_plain_ones(p: float, plainly: Plainly) -> None:
    torch.manual_seed(0)
    run = trained(lambda t: F.pdist(t, p), torch.randn(60, 7))
    for a, b in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(a, b, 2e-5, 2e-5)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
def test_small_losses_of_classes_are_the_same_beside_loops(
    kind: mq.dtype, plainly: Plainly
) -> None:
    torch.manual_seed(0)
    logs, classes = torch.randn(100, 10, dtype=kind), torch.randint(0, 10, (100,))
    for how in ("mean", "sum"):
        run = lambda how=how: F.nll_loss(logs, classes, reduction=how)  # noqa: E731
        same(run(), plainly(run))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("width", [10, 33, 100])
def test_extremes_of_rows_are_the_plain_ones(width: int, kind: mq.dtype, plainly: Plainly) -> None:
    torch.manual_seed(0)
    x = torch.randn(1_000, width, dtype=kind)
    x[3, 2], x[4, 1], x[5], x[6] = torch.nan, -torch.inf, torch.inf, -1e-40
    x[7, 1] = -torch.tensor(torch.nan, dtype=kind)
    for t in (x, x.t().contiguous().t(), x.reshape(10, 100, width).transpose(0, 1)):
        for name in ("amax", "amin"):
            run = lambda t=t, name=name: getattr(t, name)(-1)  # noqa: E731
            for a, b in zip(arrays(run()), arrays(plainly(run)), strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("count", [31, 32, 500, 5_000])
def test_random_orders_are_the_same_beside_loops(count: int, plainly: Plainly) -> None:
    def run() -> object:
        torch.manual_seed(7)
        return torch.randperm(count)

    same(run(), plainly(run))
