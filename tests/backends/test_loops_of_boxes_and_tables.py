"""Loops over boxes, tables, resampled lines, progressions and bools, beside the plain path."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from plain_path import Plainly, arrays, plainly, spread_out, trained, ulps

import maquette.torch as torch
from maquette.tensor.tensor import Tensor

__all__ = ["plainly"]

F, S = torch.nn.functional, torch.special
FLOATS = pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=["single", "double"])


def drawn(*shape: int, kind: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(3)
    return torch.randn(*shape).to(kind)


def both(run: Callable[[], object], plainly: Plainly) -> list[tuple[np.ndarray, np.ndarray]]:
    """What a function gives with loops and without."""
    return list(zip(arrays(run()), arrays(plainly(run)), strict=True))


# --- tables --------------------------------------------------------------------------------

TABULATED = [torch.i0, S.i0e, S.i1, S.i1e, S.bessel_j0, S.bessel_j1, S.airy_ai]


@pytest.mark.parametrize("function", TABULATED, ids=lambda f: f.__name__)
def test_tables_give_single_numbers_to_an_ulp(
    function: Callable[[Tensor], Tensor], plainly: Plainly
) -> None:
    for x in (spread_out(), drawn(300, 200) * 4, drawn(200, 300).t()[::2] - 2):
        ((found, expected),) = both(lambda x=x: function(x), plainly)
        assert found.shape == expected.shape
        assert ulps(found, expected) <= 1
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


def test_a_table_of_airys_function_is_near_in_double_precision(plainly: Plainly) -> None:
    x = (spread_out() * 0.3).double()
    ((found, expected),) = both(lambda: S.airy_ai(x), plainly)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=2e-14)


# --- boxes ---------------------------------------------------------------------------------

POOLS = {
    "max_pool3d": lambda x: F.max_pool3d(x, (2, 3, 2), (2, 1, 3), (1, 1, 0), (1, 2, 1), True, True),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x.flatten(2), 31, True),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x.flatten(3), (5, 7), True),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x, (3, 5, 4), True),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(
        x.flatten(3), 3, (5, 40), None, True, torch.full((3, 4, 2), 0.7, dtype=x.dtype)
    ),
    "fractional_max_pool3d": lambda x: F.fractional_max_pool3d(
        x, 2, (5, 6, 9), None, True, torch.full((3, 4, 3), 0.3, dtype=x.dtype)
    ),
}


@FLOATS
@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_largest_of_boxes_and_their_places_are_the_plain_ones(
    pool: Callable[[Tensor], object], kind: torch.dtype, plainly: Plainly
) -> None:
    x = drawn(3, 4, 14, 13, 20, kind=kind).round(decimals=1)  # with equal values
    x[0, 0, 2:4, 3], x[1] = torch.nan, -torch.inf
    for given in (x, x.transpose(2, 3)):
        for found, expected in both(lambda given=given: pool(given), plainly):
            np.testing.assert_array_equal(found, expected)


@FLOATS
def test_means_of_boxes_and_their_gradients_are_near(kind: torch.dtype, plainly: Plainly) -> None:
    x = drawn(3, 4, 14, 13, 20, kind=kind)
    for pool, given in (
        (lambda x: F.adaptive_avg_pool3d(x, (3, 5, 4)), x),
        (lambda x: F.adaptive_avg_pool2d(x, (5, 7)), x.flatten(3)),
        (lambda x: F.adaptive_avg_pool1d(x, 11), x.flatten(2).mT.contiguous().mT),
    ):
        for found, expected in both(trained(pool, given), plainly):
            np.testing.assert_allclose(found, expected, rtol=3e-5, atol=2e-6)


WINDOWS = {
    "apart": {"kernel_size": 2},
    "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1},
    "within": {"kernel_size": 3, "stride": 1, "padding": 1, "count_include_pad": False},
    "ceil": {"kernel_size": 3, "stride": 2, "ceil_mode": True, "divisor_override": 5},
}


@FLOATS
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("options", WINDOWS.values(), ids=WINDOWS)
def test_means_of_windows_and_their_gradients_have_the_plain_bits(
    options: dict[str, object], dims: int, kind: torch.dtype, plainly: Plainly
) -> None:
    pool = F.avg_pool2d if dims == 2 else F.avg_pool3d
    x = drawn(3, 4, *(12, 31, 29)[-dims:], kind=kind)
    for found, expected in both(trained(lambda t: pool(t, **options), x), plainly):
        np.testing.assert_array_equal(found, expected)


# --- resampling, normalization ---------------------------------------------------------------

RESIZED = {
    "nearest": {"scale_factor": 2.5},
    "bilinear": {"scale_factor": 1.7, "align_corners": True},
    "bicubic": {"size": (30, 17)},
    "smooth": {"size": (13, 17), "mode": "bilinear", "antialias": True},
    "smooth cubic": {"size": (50, 17), "mode": "bicubic", "antialias": True},
}


@FLOATS
@pytest.mark.parametrize("name", RESIZED)
def test_resampling_and_its_gradient_give_the_plain_bits(
    name: str, kind: torch.dtype, plainly: Plainly
) -> None:
    options = {"mode": name, **RESIZED[name]}
    x = drawn(5, 7, 31, 29, kind=kind)
    x[0, 0, 3, 4], x[0, 1, 3, 4] = torch.nan, torch.inf
    run = trained(lambda t: F.interpolate(t, **options), x)
    for found, expected in both(run, plainly):
        np.testing.assert_array_equal(found, expected)


SHAPES = {"lines": (7, 5, 700), "images": (5, 7, 31, 29), "volumes": (3, 4, 11, 9, 13)}


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("order", ["rows", "channels last"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_resampling_gives_the_plain_bits_in_every_layout(
    shape: tuple[int, ...], order: str, mode: str, plainly: Plainly
) -> None:
    names = {3: "linear", 4: "bilinear", 5: "trilinear"}
    x = drawn(*shape)
    x = x if order == "rows" else x.movedim(1, -1).contiguous().movedim(-1, 1)
    options = {"scale_factor": 0.7, "mode": mode if mode == "nearest" else names[len(shape)]}
    for found, expected in both(trained(lambda t: F.interpolate(t, **options), x), plainly):
        np.testing.assert_array_equal(found, expected)


NORMS = {
    "layer": lambda x, w: F.layer_norm(x, x.shape[-1:], w[: x.shape[-1]], w[: x.shape[-1]]),
    "group": lambda x, w: F.group_norm(x, 2, w[: x.shape[1]], w[: x.shape[1]]),
    "batch": lambda x, w: F.batch_norm(x, None, None, w[: x.shape[1]], w[: x.shape[1]], True),
}


@FLOATS
@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_norms_and_their_gradients_are_near(
    norm: Callable[..., Tensor], kind: torch.dtype, plainly: Plainly
) -> None:
    near = 2e-4 if kind is torch.float32 else 1e-12
    run = trained(norm, drawn(20, 6, 500, kind=kind), drawn(500, kind=kind))
    for found, expected in both(run, plainly):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=near, atol=near)


# --- progressions, places ----------------------------------------------------------------------

RANGES = [(0, 40_000, 1), (5, -90_000, -2), (0.5, 5_000, 0.1), (-0.0, -9_000.5, -0.25)]


@pytest.mark.parametrize("bounds", RANGES, ids=str)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int32, torch.int64])
def test_progressions_give_the_plain_bits(
    bounds: tuple[float, ...], kind: torch.dtype, plainly: Plainly
) -> None:
    if not kind.is_floating_point and any(b != int(b) for b in bounds):
        return
    ((found, expected),) = both(lambda: torch.arange(*bounds, dtype=kind), plainly)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("kind", [torch.bool, torch.float32, torch.int64, torch.complex64])
def test_what_is_turned_is_the_same(kind: torch.dtype, plainly: Plainly) -> None:
    x = (drawn(40, 30, 50) * 3).to(kind)
    for turn in (
        lambda: x.flip(2),
        lambda: x.flip(0, 2, 1),
        lambda: x.flip(0, -1),
        lambda: [x.rot90(k, (1, 2)) for k in range(-1, 4)],
        lambda: [x.rot90(k, (2, 0)) for k in range(-1, 4)],
    ):
        for found, expected in both(turn, plainly):
            np.testing.assert_array_equal(found, expected)


BOOLS = {
    "assigned": lambda x, i, y: x.scatter(1, i, y),
    "added": lambda x, i, y: x.scatter_add(1, i, y),
    "largest": lambda x, i, y: x.scatter_reduce(0, i, y, "amax"),
    "products": lambda x, i, y: x.scatter_reduce(1, i, y, "prod"),
    "without self": lambda x, i, y: x.scatter_reduce(0, i, y, "amin", include_self=False),
    "put": lambda x, i, y: x.put(i, y, True),
}


@pytest.mark.parametrize("write", BOOLS.values(), ids=BOOLS)
def test_bools_meet_as_on_the_plain_path(write: Callable[..., Tensor], plainly: Plainly) -> None:
    x, y = drawn(300, 300) > 0, drawn(300, 300).t() > 0.5
    torch.manual_seed(4)
    index = torch.randint(0, 300, (300, 300))
    ((found, expected),) = both(lambda: write(x, index, y), plainly)
    assert found.dtype == expected.dtype == np.bool_
    np.testing.assert_array_equal(found, expected)


def test_extremes_at_positions_keep_nan(plainly: Plainly) -> None:
    x, y = drawn(300, 300), drawn(300, 300).t()
    x[::7], y[:, 3] = torch.nan, torch.nan
    index = torch.arange(300).flip(0).remainder(7).expand(300, 300)
    for reduce in ("amax", "amin"):
        ((found, expected),) = both(lambda r=reduce: x.scatter_reduce(1, index, y, r), plainly)
        np.testing.assert_array_equal(found, expected)


# --- losses, draws ---------------------------------------------------------------------------


@FLOATS
def test_losses_of_classes_are_near(kind: torch.dtype, plainly: Plainly) -> None:
    x, weight = drawn(40, 25, 50, kind=kind), drawn(25, kind=kind).abs()
    torch.manual_seed(6)
    target = torch.randint(0, 25, (40, 50))
    target[3, 4:9], weight[7], x[0, 7] = -100, 0, torch.inf  # what counts as nothing
    for given, at in ((x, target), (x[:, :, 0].expand(40, 25), target[:, 0])):
        for labels, options in (
            (at, {}),
            (at, {"weight": weight}),
            (at, {"reduction": "sum"}),
            (at.clamp_min(3), {"ignore_index": 3}),
        ):
            run = partial(F.nll_loss, given, labels, **options)
            ((found, expected),) = both(run, plainly)
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(IndexError, match="Target 25 is out of bounds"):
        F.nll_loss(x, target.where(target != 4, 25))
    with pytest.raises(IndexError, match="Target 25 is out of bounds"):
        F.nll_loss(x[:3, :, 0], torch.tensor([1, 25, 2]))


@FLOATS
def test_paths_of_labels_sum_as_on_the_plain_path(kind: torch.dtype, plainly: Plainly) -> None:
    logs = drawn(60, 12, 40, kind=kind).log_softmax(2)
    logs[3, 1], logs[2, 2, 5:] = torch.nan, -torch.inf
    torch.manual_seed(6)
    labels = torch.randint(1, 40, (12, 14))
    labels[:, 5] = labels[:, 4]  # a label twice is not skipped to
    frames, lengths = [60] * 10 + [30, 12], [14] * 9 + [0, 1, 14]
    run = trained(lambda t: F.ctc_loss(t, labels, frames, lengths, reduction="none"), logs)
    near = 2e-4 if kind is torch.float32 else 1e-12
    for found, expected in both(run, plainly):
        np.testing.assert_allclose(found, expected, rtol=near, atol=near)


SLOPES = {
    "smooth_l1": lambda x: F.smooth_l1_loss(x, x.detach().flip(0), beta=0.7),
    "smooth_l1, 0": lambda x: F.smooth_l1_loss(x, x.detach().flip(0), beta=0.0),
    "hardshrink": lambda x: F.hardshrink(x, 0.3),
    "softshrink": lambda x: F.softshrink(x, 0.3),
}


@FLOATS
@pytest.mark.parametrize("function", SLOPES.values(), ids=SLOPES)
def test_slopes_of_pieces_give_the_plain_bits(
    function: Callable[[Tensor], Tensor], kind: torch.dtype, plainly: Plainly
) -> None:
    x = (spread_out() * 0.5).to(kind).reshape(200, -1)
    for given in (x, x.t()):
        ((_, _), (found, expected)) = both(trained(function, given), plainly)
        np.testing.assert_array_equal(found, expected)


@FLOATS
def test_histograms_of_even_edges_are_the_plain_ones(kind: torch.dtype, plainly: Plainly) -> None:
    x = drawn(300, 200, kind=kind).round(decimals=1)  # many on the edges
    for run in (
        lambda: torch.histogram(x, 37),
        lambda: torch.histogram(x, 20, range=(-1.0, 1.0), weight=x.abs()),
        lambda: torch.histogram(x * 0 + 1e8, 1000, range=(1e8 - 1, 1e8 + 1)),
        lambda: torch.histogram(x.masked_fill(x > 2, torch.nan), 20, range=(-1.0, 3.0)),
    ):
        for found, expected in both(run, plainly):
            np.testing.assert_array_equal(found, expected)


@FLOATS
def test_positions_drawn_by_weights_are_the_plain_ones(kind: torch.dtype, plainly: Plainly) -> None:
    weights = drawn(40, 600, kind=kind).abs()

    def run() -> object:
        torch.manual_seed(8)
        return torch.multinomial(weights, 30, True)

    ((found, expected),) = both(run, plainly)
    assert (found == expected).mean() > 0.999  # a sum may round across a drawn number


def test_logarithms_of_gamma_are_near(plainly: Plainly) -> None:
    x = spread_out().abs().nan_to_num(2.0) + torch.tensor([0.0, 1e-30, 1e-3, 1.0]).repeat(10_000)
    x[:4] = torch.tensor([1.0, 2.0, torch.inf, 3e38])
    x = x.clamp_min(1e-38)
    ((found, expected),) = both(lambda: torch.lgamma(x), plainly)
    np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1e-13)


def test_labels_of_classes_push_the_others(plainly: Plainly) -> None:
    x, target = drawn(20, 30, kind=torch.float64), torch.randint(0, 30, (20, 30))
    target[::2, 3], target[5] = -1, -1
    run = trained(lambda t: F.multilabel_margin_loss(t, target, reduction="none"), x)
    (found, by_x), rows = arrays(run()), range(20)
    for r in rows:
        named = target[r][: (target[r] < 0).int().argmax() if (target[r] < 0).any() else 30]
        others = [c for c in range(30) if c not in named.tolist()]
        expected = sum(
            max(0.0, 1 - x[r, t].item() + x[r, c].item()) for t in named.tolist() for c in others
        )
        assert found[r] == pytest.approx(expected / 30)
    assert np.isfinite(by_x).all()
