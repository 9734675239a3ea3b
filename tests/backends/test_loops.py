"""The compiled loops (the extra ``fast``) against the plain path, which is their oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from plain_path import LARGE, Plainly, arrays, plainly, spread_out, trained, ulps

import maquette as mq
import maquette.torch as torch
from maquette.tensor.tensor import Tensor

__all__ = ["plainly"]

F = torch.nn.functional


@pytest.mark.parametrize("function", [torch.erf, F.gelu], ids=["erf", "gelu"])
def test_erf_and_gelu_give_the_plain_bits(
    function: Callable[[Tensor], Tensor], plainly: Plainly
) -> None:
    x = spread_out()
    (found,), (expected,) = arrays(function(x)), arrays(plainly(lambda: function(x)))
    np.testing.assert_array_equal(found, expected)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(found)].all()


@pytest.mark.parametrize("function", [torch.sigmoid, F.silu], ids=["sigmoid", "silu"])
def test_the_logistic_function_is_within_ulps(
    function: Callable[[Tensor], Tensor], plainly: Plainly
) -> None:
    x = spread_out()
    (found,), (expected,) = arrays(function(x)), arrays(plainly(lambda: function(x)))
    kept = np.abs(expected) > 1e-37  # subnormal numbers have fewer bits
    assert ulps(found[kept | np.isnan(expected)], expected[kept | np.isnan(expected)]) <= 6
    np.testing.assert_allclose(found[~kept], expected[~kept], atol=1e-37)


@pytest.mark.parametrize("function", [F.gelu, F.silu], ids=["gelu", "silu"])
def test_slopes_of_activations_agree(
    function: Callable[[Tensor], Tensor], plainly: Plainly
) -> None:
    torch.manual_seed(1)
    run = trained(function, torch.randn(200, 300))
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=3e-7)


def test_a_gradient_that_is_one_number_everywhere(plainly: Plainly) -> None:
    x = torch.randn(LARGE)

    def run() -> object:
        leaf = x.detach().requires_grad_()
        F.gelu(leaf).sum().backward()
        return leaf.grad

    np.testing.assert_allclose(arrays(run())[0], arrays(plainly(run))[0], rtol=2e-6, atol=3e-7)


@pytest.mark.parametrize("size", [16_384, 16_385, 40_000, 100_003])
@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (2.5, 0.75)])
def test_normal_numbers_are_the_plain_bits(
    size: int, mean: float, std: float, plainly: Plainly
) -> None:
    def run() -> object:
        torch.manual_seed(size)
        return torch.empty(size).normal_(mean, std), torch.rand(3)

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int64, torch.uint8])
def test_positions_give_the_plain_bits(kind: mq.dtype, plainly: Plainly) -> None:
    torch.manual_seed(2)
    x = (torch.randn(200, 150) * 9).abs().to(kind)
    index = torch.randint(0, 150, (200, 170))
    values = (torch.randn(200, 170) * 9).abs().to(kind)
    rows = torch.randint(0, 200, (300,))

    def run() -> object:
        return (
            x.gather(1, index),
            x.scatter_add(1, index, values),
            x.index_add(0, rows, x[rows]),
            x.index_put((rows,), x[rows], accumulate=True),
        )

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_positions_out_of_range_are_refused() -> None:
    x, index = torch.zeros(200, 150), torch.full((200, 150), 150)
    with pytest.raises(RuntimeError, match="index 150 is out of bounds"):
        x.gather(1, index)
    with pytest.raises(RuntimeError, match="index 150 is out of bounds"):
        x.scatter_add(1, index, x)
    with pytest.raises((IndexError, RuntimeError), match="200"):
        x.index_add(0, torch.full((150,), 200), x[:150])


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes_are_the_plain_ones(name: str, dim: int, plainly: Plainly) -> None:
    torch.manual_seed(3)
    x = torch.randint(0, 50, (30, 40, 50)).float()
    x[3, 5, 7] = torch.nan

    def run() -> object:
        return tuple(getattr(x, name)(dim))

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b: F.layer_norm(x, (50,), w, b),
        lambda x, w, b: F.group_norm(x.movedim(-1, 1), 5, w, b),
        lambda x, w, b: F.batch_norm(x.movedim(-1, 1), None, None, w, b, True),
        lambda x, w, b: F.batch_norm(x.movedim(-1, 1).contiguous(), None, None, w, b, True),
    ],
    ids=["layer", "group", "batch, strided", "batch"],
)
def test_norms_and_their_gradients_agree(function: Callable[..., Tensor], plainly: Plainly) -> None:
    torch.manual_seed(4)
    x, weight, bias = torch.randn(20, 30, 40, 50) * 3 + 7, torch.randn(50), torch.randn(50)
    run = trained(function, x, weight, bias)
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=3e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    "function",
    [lambda x: F.layer_norm(x, (50,)), lambda x: F.group_norm(x.movedim(-1, 1), 5)],
    ids=["layer", "group"],
)
def test_gradients_of_norms_by_their_input_alone_agree(
    function: Callable[..., Tensor], plainly: Plainly
) -> None:
    torch.manual_seed(5)
    run = trained(lambda x: function(x) ** 2, torch.randn(8, 30, 40, 50) * 3 + 7)
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=3e-5, atol=1e-5 * np.abs(expected).max())


def test_moments_of_many_elements_are_accurate() -> None:
    torch.manual_seed(6)
    x = torch.rand(4, 3, 500_000) + 100
    running = torch.zeros(3), torch.ones(3)
    F.batch_norm(x, *running, training=True, momentum=1.0)
    exact = x.numpy().astype(np.float64)
    np.testing.assert_allclose(running[0].numpy(), exact.mean((0, 2)), rtol=1e-6)
    np.testing.assert_allclose(running[1].numpy(), exact.var((0, 2), ddof=1), rtol=1e-4)


def test_fakes_and_small_arrays_import_no_compiler() -> None:
    import subprocess
    import sys

    program = """
import sys
import maquette as mq, maquette.torch as torch
x = torch.randn(100).sigmoid()
with mq.FakeTensorMode():
    torch.nn.functional.gelu(torch.empty(1_000_000)).sum()
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_positions_drawn_by_weights_are_the_plain_ones(plainly: Plainly) -> None:
    torch.manual_seed(7)
    weights = torch.rand(150, 200)
    weights[:, 3] = 0

    def run() -> object:
        torch.manual_seed(8)
        return weights.multinomial(50, True)

    np.testing.assert_array_equal(arrays(run())[0], arrays(plainly(run))[0])


@pytest.mark.parametrize(
    ("stride", "padding", "dilation"),
    [(1, 1, 1), (1, (2, 0), (2, 3)), (1, 5, 1), (2, 1, 1), ((3, 2), (0, 4), (1, 2)), (4, 2, 3)],
    ids=str,
)
@pytest.mark.parametrize("kernels", [1, 2])
def test_depthwise_convolutions_and_their_gradients_agree(
    stride: object, padding: object, dilation: object, kernels: int, plainly: Plainly
) -> None:
    torch.manual_seed(9)
    x, weight = torch.randn(3, 16, 61, 59), torch.randn(16 * kernels, 1, 3, 2)
    run = trained(lambda x, w: F.conv2d(x, w, None, stride, padding, dilation, 16), x, weight)
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-4)


def test_depthwise_convolutions_of_lines_agree(plainly: Plainly) -> None:
    torch.manual_seed(9)
    x, weight = torch.randn(3, 16, 801), torch.randn(16, 1, 4)
    run = trained(lambda x, w: F.conv1d(x, w, None, 2, 3, 1, 16), x, weight)
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-4)


@pytest.mark.parametrize("spoiled", ["x", "weight"])
def test_infinity_stays_where_a_depthwise_window_meets_it(spoiled: str, plainly: Plainly) -> None:
    x, weight = torch.ones(3, 16, 41, 39), torch.ones(16, 1, 3, 3)
    (x if spoiled == "x" else weight).select(0, 1).select(0, 0)[0, -1] = torch.inf
    run = trained(lambda x, w: F.conv2d(x, w, None, groups=16), x, weight)
    for found, expected in zip(arrays(run())[1:], arrays(plainly(run))[1:], strict=True):
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize(
    "geometry",
    [(2, 2, 0, 1), (3, 2, 1, 1), ((3, 2), (1, 2), (1, 0), (2, 3)), (4, 3, 2, 2), (5, 1, 2, 8)],
)
def test_maxima_of_windows_are_the_plain_ones(
    geometry: tuple[object, ...], nan: bool, kind: mq.dtype, plainly: Plainly
) -> None:
    torch.manual_seed(10)
    x = (torch.randn(3, 16, 30, 29) * 2).round().to(kind)
    if kind.is_floating_point:
        x[0, 0, 3, 4], x[1, 2] = torch.nan if nan else torch.inf, -torch.inf
    kernel, stride, padding, dilation = geometry

    def run() -> object:
        return F.max_pool2d(x, kernel, stride, padding, dilation, return_indices=True)

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_resampling_gives_the_plain_bits(mode: str, plainly: Plainly) -> None:
    torch.manual_seed(11)
    x = torch.randn(3, 16, 30, 29)

    def run() -> object:
        return F.interpolate(x, size=(47, 17), mode=mode)

    np.testing.assert_array_equal(arrays(run())[0], arrays(plainly(run))[0])


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_softmax_and_its_gradient_agree(function: Callable[..., Tensor], plainly: Plainly) -> None:
    torch.manual_seed(12)
    x = torch.randn(200, 150) * 5
    x[3, :100] = -torch.inf
    run = trained(lambda t: function(t, 1), x)
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation"),
    [(1, 1, 1), ((2, 3), (1, 2), 1), (1, 0, (2, 3)), ((3, 1), (0, 4), (1, 2)), (4, 3, 1)],
    ids=str,
)
def test_the_gradients_of_a_convolution_have_the_plain_bits(
    stride: object, padding: object, dilation: object, groups: int, plainly: Plainly
) -> None:
    torch.manual_seed(18)
    x, weight = torch.randn(4, 8, 41, 38), torch.randn(6, 8 // groups, 3, 5)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    run = trained(lambda x, w: F.conv2d(x, w, None, **options), x, weight)
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("stride", [1, 2, 5])
def test_a_transposed_convolution_of_lines_has_the_plain_bits(
    stride: int, plainly: Plainly
) -> None:
    torch.manual_seed(19)
    x, weight = torch.randn(4, 8, 900), torch.randn(8, 3, 4)

    def run() -> object:
        return F.conv_transpose1d(x, weight, stride=stride, padding=1)

    np.testing.assert_array_equal(arrays(run())[0], arrays(plainly(run))[0])


@pytest.mark.parametrize("masked", ["no", "causal", "mask"])
def test_attention_and_its_gradients_agree(masked: str, plainly: Plainly) -> None:
    torch.manual_seed(13)
    q, k, v = torch.randn(3, 2, 4, 70, 16)
    mask = torch.randn(2, 4, 70, 70) if masked == "mask" else None
    if mask is not None:
        mask[0, 0, 5] = mask[1, 2, 7, :30] = -torch.inf
    run = trained(
        lambda *t: F.scaled_dot_product_attention(*t, mask, is_causal=masked == "causal"), q, k, v
    )
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("rows", [1, 33, 150], ids=lambda n: f"{n} rows")
@pytest.mark.parametrize("mask", [(150,), (3, 1, 1, 150), (1, 4, "rows", 1)], ids=str)
def test_attention_of_shared_keys_and_broadcast_masks_agrees(
    rows: int, mask: tuple[object, ...], plainly: Plainly
) -> None:
    torch.manual_seed(15)
    q = torch.randn(3, rows, 4, 24).transpose(1, 2)
    k, v = torch.randn(3, 2, 150, 24), torch.randn(3, 150, 2, 24).transpose(1, 2)
    given = torch.randn([rows if size == "rows" else size for size in mask])
    run = trained(
        lambda *t: F.scaled_dot_product_attention(*t, given, scale=0.3, enable_gqa=True), q, k, v
    )
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("lengths", [(90, 200), (200, 90)], ids=str)
def test_causal_attention_of_two_lengths_agrees(lengths: tuple[int, int], plainly: Plainly) -> None:
    torch.manual_seed(16)
    q = torch.randn(2, 4, lengths[0], 16)
    k, v = torch.randn(2, 2, 4, lengths[1], 16)
    run = trained(lambda *t: F.scaled_dot_product_attention(*t, is_causal=True), q, k, v)
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-6)


def test_attention_is_nan_where_a_score_is(plainly: Plainly) -> None:
    torch.manual_seed(17)
    q, k, v = torch.randn(3, 2, 4, 70, 16)
    q[0, 1, 5, 3] = torch.nan
    k[1, 2, 4] = torch.inf
    found = arrays(F.scaled_dot_product_attention(q, k, v))[0]
    expected = arrays(plainly(lambda: F.scaled_dot_product_attention(q, k, v)))[0]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))


def test_the_slope_of_relu_is_the_plain_one(plainly: Plainly) -> None:
    x = spread_out()
    run = trained(F.relu, x)
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [16_384, 100_003])
def test_a_random_order_is_the_plain_one(size: int, plainly: Plainly) -> None:
    def run() -> object:
        torch.manual_seed(size)
        return torch.randperm(size), torch.get_rng_state()

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(40, 500), (41, 500), (3, 50, 140), (20_000,)], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_sums_and_products_have_the_plain_bits(
    name: str, shape: tuple[int, ...], kind: mq.dtype, plainly: Plainly
) -> None:
    torch.manual_seed(21)
    x = (torch.randn(shape) * 0.1 + 1).to(kind)

    def run() -> object:
        return [getattr(x, name)(dim).double() for dim in range(x.ndim)]

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("dim", [None, 0, 1, 2, (1, 2), (0, 2)], ids=str)
@pytest.mark.parametrize("name", ["prod", "nansum", "std", "var_mean"])
def test_reductions_agree(name: str, dim: object, kind: mq.dtype, plainly: Plainly) -> None:
    if name == "prod" and isinstance(dim, tuple):
        pytest.skip("prod takes one dimension")
    torch.manual_seed(22)
    x = (torch.randn(30, 40, 50) * 0.02 + 1).to(kind)
    if name == "nansum":
        x[2, 3:30, 4] = torch.nan

    def run() -> object:
        called = getattr(torch, name)
        if dim is None:
            return called(x), called(x.permute(2, 0, 1))
        return called(x, dim), called(x, dim, keepdim=True)

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        exactly = 1e-4 if name == "prod" else 2e-6  # the plain product rounds at each step
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), exactly)


def test_a_product_neither_overflows_nor_vanishes_on_its_way() -> None:
    x = torch.ones(LARGE)
    x[:8], x[-8:] = 1e30, 1e-30
    assert abs(float(x.prod()) - 1) < 1e-5


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scattering_along_any_dimension_has_the_plain_bits(
    dim: int, kind: mq.dtype, plainly: Plainly
) -> None:
    torch.manual_seed(23)
    x = (torch.randn(20, 30, 50) * 4).to(kind)
    if kind.is_floating_point:
        x[0, 3, 4] = torch.nan
    source, index = x.flip(0), torch.randint(0, 20, x.shape)
    some = torch.randint(0, 20, (20,)) if dim == 0 else torch.randint(0, 20, (x.shape[dim],))

    def run() -> object:
        found = [x.scatter(dim, index, source), x.scatter(dim, index, 3), x.put(index, source)]
        for name in ("sum", "prod", "amax", "amin", "mean"):
            found.append(x.scatter_reduce(dim, index, source, name))
            found.append(x.scatter_reduce(dim, index, source, name, include_self=False))
            if name != "sum":
                found.append(x.index_reduce(dim, some, source, name))
        return found

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_whole_quotients_have_the_plain_bits(plainly: Plainly) -> None:
    x = spread_out()
    y = torch.cat([x.flip(0)[:-10] / 7, torch.zeros(10)])

    def run() -> object:
        return torch.floor_divide(x, y), torch.floor_divide(x.double(), y.double())

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_lengths_and_logarithms_of_sums_agree(plainly: Plainly) -> None:
    x = spread_out()
    y = x.flip(0) * 3

    def run() -> object:
        return torch.hypot(x, y), torch.logaddexp(x, y), torch.logaddexp(x, x)

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-7)
