"""Random values: seeds, ranges, refusals; nothing draws in fake mode."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from gradcheck import check_gradients

import maquette as mq
from maquette.aten.random.distributions import normal
from maquette.aten.random.random_factories import fork_rng
from maquette.aten.random.random_fills import PART
from maquette.tensor.streams.generator import stream_of


def test_T53_the_same_seed_draws_the_same() -> None:
    mq.manual_seed(3)
    first = mq.rand(4).tolist()
    mq.manual_seed(3)
    assert mq.rand(4).tolist() == first


def test_T53_draws_in_fork_rng_leave_no_trace() -> None:
    state = mq.get_rng_state()
    with fork_rng():
        mq.rand(3)
    expected = mq.rand(2).tolist()
    mq.set_rng_state(state)
    assert mq.rand(2).tolist() == expected


def test_T53_fakes_and_meta_never_advance_a_generator() -> None:
    state = mq.get_rng_state()
    with mq.FakeTensorMode():
        mq.nn.init.trunc_normal_(mq.empty(3, 4))
        mq.rand(5)
    mq.empty(3, device="meta").uniform_()
    assert mq.get_rng_state().tolist() == state.tolist()


def test_T53_a_generator_of_ones_own() -> None:
    a, b = mq.Generator().manual_seed(7), mq.Generator().manual_seed(7)
    assert mq.rand(3, generator=a).tolist() == mq.rand(3, generator=b).tolist()
    clone = a.clone_state()
    assert clone.initial_seed() == 7
    assert mq.randn(2, generator=a).tolist() == mq.randn(2, generator=clone).tolist()


def test_T53_seeds_wrap_below_and_are_refused_above() -> None:
    assert mq.Generator().manual_seed(-1).initial_seed() == 2**64 - 1
    with pytest.raises(ValueError, match="Overflow"):
        mq.Generator().manual_seed(2**64)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: mq.rand(2, dtype=mq.int64), NotImplementedError, "Long"),
        (lambda: mq.randint(3, 3, (2,)), RuntimeError, "from=3 >= to=3"),
        (lambda: mq.normal(0.0, -1.0, (2,)), RuntimeError, "std -1"),
        (lambda: mq.empty(2).bernoulli_(2.0), RuntimeError, "p=2"),
        (lambda: mq.randint(0, 300, (2,), dtype=mq.uint8), RuntimeError, "out of bounds"),
        (lambda: mq.multinomial(mq.tensor([-1.0, 2.0]), 1), RuntimeError, "element < 0"),
        (lambda: mq.multinomial(mq.tensor([math.nan]), 1), RuntimeError, "nan"),
        (lambda: mq.empty(2).geometric_(1.0), RuntimeError, "p=1"),
    ],
)
def test_T54_refusals(call: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_T54_integers_are_int64() -> None:
    assert mq.randint(3, (2,)).dtype is mq.randperm(4).dtype is mq.int64


def test_ranges_of_draws() -> None:
    mq.manual_seed(0)
    assert 2 <= mq.empty(1000).uniform_(2, 3).numpy().min()
    assert set(mq.randint(5, 8, (200,)).tolist()) == {5, 6, 7}
    assert sorted(mq.randperm(50).tolist()) == list(range(50))
    assert mq.empty(1000, dtype=mq.float64).exponential_(2.0).numpy().mean() == pytest.approx(
        0.5, rel=0.2
    )


def test_multinomial_without_replacement_repeats_nothing() -> None:
    drawn = mq.multinomial(mq.ones(3, 6), 6)
    assert np.sort(drawn.numpy(), -1).tolist() == [list(range(6))] * 3


def test_dropout_keeps_the_mean_and_its_gradient_the_mask() -> None:
    mq.manual_seed(0)
    x = mq.ones(10000, requires_grad=True)
    out = mq.dropout(x, 0.25, True)
    out.sum().backward()
    assert out.detach().numpy().mean() == pytest.approx(1, rel=0.05)
    assert x.grad.tolist() == out.tolist()


def test_dropout_is_fused_on_accelerators() -> None:
    with mq.FakeTensorMode():
        x = mq.ones(3, device="cuda", requires_grad=True)
        assert mq.dropout(x, 0.5, True).grad_fn.name() == "NativeDropoutBackward0"


def test_derivative_of_native_dropout_backward() -> None:
    mask = mq.tensor([True, False, True])
    backward = mq.ops.aten.native_dropout_backward.default
    check_gradients(lambda g: backward(g, mask, 2.0), np.array([1.0, 2.0, 3.0]))


def test_dropout_in_evaluation_is_the_input_itself() -> None:
    x = mq.ones(3)
    assert mq.dropout(x, 0.5, False) is x


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x.random_(),
        lambda x: x.random_(5),
        lambda x: x.log_normal_(),
        lambda x: x.bernoulli_(0.5),
        lambda x: mq.bernoulli(x, 0.5),
    ],
)
def test_draws_that_complex_numbers_do_not_have_are_refused(
    draw: Callable[[mq.Tensor], mq.Tensor],
) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        draw(mq.zeros(2, dtype=mq.complex64))


def test_native_dropout_refuses_integers_while_training() -> None:
    x = mq.zeros(2, dtype=mq.int64)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        mq.ops.aten.native_dropout(x, 0.5, True)
    assert mq.ops.aten.native_dropout(x, 0.5, False)[0].dtype is mq.int64


def test_T53_samples_of_a_transposed_tensor_are_drawn_in_the_order_of_its_memory() -> None:
    x = mq.rand(4, 6) + 0.1
    for draw in (lambda t: mq.native_dropout(t, 0.4, True)[1], lambda t: mq.rand_like(t)):
        mq.manual_seed(5)
        plain = draw(x)
        mq.manual_seed(5)
        assert mq.equal(draw(x.t()), plain.t())


def test_T53_samples_like_an_expanded_tensor_are_drawn_in_the_order_of_the_result() -> None:
    row = mq.rand(6) + 0.1
    for draw in (mq.rand_like, lambda t: mq.native_dropout(t, 0.4, True)[1], _two_of_each):
        mq.manual_seed(5)
        plain = draw(row.repeat(4, 1))
        mq.manual_seed(5)
        assert mq.equal(draw(row.expand(4, 6)), plain)


def _two_of_each(weights: mq.Tensor) -> mq.Tensor:
    return mq.multinomial(weights, 2)


def test_T53_samples_in_another_memory_format_are_drawn_in_its_order() -> None:
    mq.manual_seed(5)
    plain = mq.rand(4, 6)
    mq.manual_seed(5)
    assert mq.equal(mq.rand_like(mq.ones(6, 4).t(), memory_format=mq.contiguous_format), plain)


def test_T53_one_probability_in_a_tensor_is_drawn_in_the_precision_of_its_tensor() -> None:
    """As for more of them; 0.3 as a number draws the other values of this stream."""
    mq.manual_seed(123)
    assert mq.zeros(5).bernoulli_(mq.full((1,), 0.3)).tolist() == [1.0, 0.0, 1.0, 0.0, 1.0]
    mq.manual_seed(123)
    assert mq.zeros(5).bernoulli_(0.3).tolist() == [0.0, 1.0, 0.0, 1.0, 0.0]


@pytest.mark.filterwarnings("ignore:.*out of bounds")
def test_T53_wide_ranges_of_floats_are_narrowed_to_what_rounds_into_them() -> None:
    mq.manual_seed(123)
    assert mq.randint(0, 2**31, (2,), dtype=mq.float32).tolist() == [38989420.0, 773721280.0]
    mq.manual_seed(123)
    assert mq.randint(0, 2**24, (2,), dtype=mq.bfloat16).tolist() == [16646144.0, 3883008.0]


def test_T53_a_pass_leaves_the_generator_of_ones_own_one_order_on() -> None:
    from maquette.torch.utils.data import RandomSampler

    own, other = (mq.Generator().manual_seed(3) for _ in range(2))
    sampler = RandomSampler(range(7), generator=own)
    passes = [list(sampler) for _ in range(2)]
    orders = [mq.randperm(7, generator=other).tolist() for _ in range(3)]
    assert passes == [orders[0], orders[2]]


@pytest.mark.parametrize("shape", [0.05, 0.7, 8.0, 60.0, 300.0])
@pytest.mark.parametrize("quantile", [1e-4, 0.3, 0.999])
def test_draws_of_gamma_move_along_their_quantile(shape: float, quantile: float) -> None:
    special = pytest.importorskip("scipy.special")
    ends = [special.gammaincinv(shape * (1 + h), quantile) for h in (-1e-4, 0, 1e-4)]
    moved = mq.ops.aten._standard_gamma_grad(
        mq.tensor([shape], dtype=mq.float64), mq.tensor([ends[1]], dtype=mq.float64)
    )
    assert moved.item() == pytest.approx((ends[2] - ends[0]) / (2e-4 * shape), rel=1e-5)


@pytest.mark.parametrize("a", [0.1, 2.0, 40.0])
@pytest.mark.parametrize("b", [0.3, 5.0, 90.0])
@pytest.mark.parametrize("quantile", [0.02, 0.6, 0.98])
def test_shares_of_dirichlet_move_along_their_quantile(a: float, b: float, quantile: float) -> None:
    special = pytest.importorskip("scipy.special")
    ends = [special.betaincinv(a * (1 + h), b, quantile) for h in (-1e-4, 0, 1e-4)]
    share, alpha, total = (mq.tensor([t], dtype=mq.float64) for t in (ends[1], a, a + b))
    moved = mq.ops.aten._dirichlet_grad(share, alpha, total).item() * (1 - ends[1])
    assert moved == pytest.approx((ends[2] - ends[0]) / (2e-4 * a), rel=1e-4)


def test_a_small_sample_without_replacement_is_the_start_of_a_large_one() -> None:
    weights = mq.rand(5000) + 0.1
    mq.manual_seed(1)
    few = weights.multinomial(20)
    mq.manual_seed(1)
    assert few.tolist() == weights.multinomial(5000)[:20].tolist()


@pytest.mark.parametrize("std", [0.0, mq.zeros(4)])
def test_each_element_of_an_output_has_its_own_mean(std: float | mq.Tensor) -> None:
    means = mq.arange(12.0).reshape(3, 4)
    out = mq.empty(4, 3, dtype=mq.float64).t()
    mq.normal(means, std, out=out)
    assert out.tolist() == means.tolist()


def test_each_element_of_an_output_has_its_own_probability() -> None:
    chances = mq.tensor([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    out = mq.empty(3, 2).t()
    mq.bernoulli(chances, out=out)
    assert out.tolist() == chances.tolist()


@pytest.mark.parametrize("dtype", [mq.float32, mq.float64, mq.bfloat16], ids=str)
@pytest.mark.parametrize("rest", [0, 5, 16, 21])
def test_large_tensors_are_drawn_in_parts_as_in_one(dtype: mq.dtype, rest: int) -> None:
    count = 2 * PART + rest
    mq.manual_seed(1)
    in_parts = mq.empty(count, dtype=dtype).normal_(2.0, 0.5)
    mq.manual_seed(1)
    whole = normal(stream_of(None), count, 2.0, 0.5, dtype)
    assert in_parts.tolist() == mq.tensor(whole.tolist(), dtype=dtype).tolist()


def test_the_stream_goes_on_after_parts_as_after_one() -> None:
    mq.manual_seed(1)
    mq.empty(2 * PART + 3, dtype=mq.float64).uniform_()
    after = mq.get_rng_state()
    mq.manual_seed(1)
    stream_of(None).doubles(2 * PART + 3)
    assert mq.equal(mq.get_rng_state(), after)


def test_short_and_long_draws_are_of_one_stream() -> None:
    mq.manual_seed(5)
    whole = mq.rand(10_016)
    mq.manual_seed(5)
    assert mq.equal(mq.cat([mq.rand(16), mq.rand(10_000)]), whole)


# By mpmath with 60 digits: the density there is less than any double.
@pytest.mark.parametrize(
    ("share", "alpha", "beta", "expected"),
    [
        (0.01, 100.0, 100.0, 3.998791957e-4),
        (0.01, 1000.0, 0.1, 4.65255384e-5),
        (0.1, 500.0, 500.0, 4.025706847e-4),
        (0.3, 3000.0, 2.0, 1.719730744e-4),
    ],
)
def test_far_from_the_mean_of_large_shapes_a_share_has_its_slope(share, alpha, beta, expected):
    x, a, total = (mq.tensor([v], dtype=mq.float64) for v in (share, alpha, alpha + beta))
    assert mq.ops.aten._dirichlet_grad(x, a, total).item() == pytest.approx(expected, rel=1e-6)


def test_no_share_of_large_shapes_is_without_a_slope():
    x = mq.tensor([1e-30, 1e-6, 0.01, 0.4, 0.9, 0.999999], dtype=mq.float64)[:, None]
    shapes = mq.tensor([[10.0, 1000], [10, 10000], [500, 500], [1000, 0.1], [0.01, 3000]])
    a, b = shapes.double().unbind(1)
    assert mq.ops.aten._dirichlet_grad(*mq.broadcast_tensors(x, a, a + b)).isfinite().all()


# By mpmath with 50 digits.
@pytest.mark.parametrize(
    ("shape", "drawn", "expected"),
    [
        (150.0, 1500.0, 2.560851601),
        (2.0, 900.0, 6.387811229),
        (1e5, 5e4, 0.6931483176),
        (1e5, 9.5e4, 0.9745742175),
        (1e5, 1.1e5, 1.048413725),
        (1e6, 1.002e6, 1.000999501),
    ],
)
def test_draws_of_gamma_have_their_slope_where_the_density_is_nothing(shape, drawn, expected):
    a, x = mq.tensor([shape], dtype=mq.float64), mq.tensor([drawn], dtype=mq.float64)
    assert mq.ops.aten._standard_gamma_grad(a, x).item() == pytest.approx(expected, rel=1e-6)
