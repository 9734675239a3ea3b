"""Functions: composition, checks and temporaries that are not an operator's own."""

import pytest

import maquette as mq
from maquette import nn
from maquette.nn import functional as F

X4 = mq.rand(1, 2, 4, 4)


@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_softmax_samples_a_distribution(hard):
    x = mq.randn(5, 3, requires_grad=True)
    y = F.gumbel_softmax(x, hard=hard)
    assert mq.allclose(y.sum(-1), mq.ones(5))
    if hard:
        assert set(y.detach().round(decimals=4).flatten().tolist()) == {0.0, 1.0}
    y.square().sum().backward()
    assert x.grad.abs().sum().item() > 0


def test_normalize_gives_unit_vectors_and_leaves_zero():
    x = mq.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert mq.allclose(F.normalize(x), mq.tensor([[0.6, 0.8], [0.0, 0.0]]))


def test_embedding_rescales_long_rows_in_place():
    weight = mq.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    rows = F.embedding(mq.tensor([0, 1]), weight, max_norm=1.0)
    assert mq.allclose(rows, mq.tensor([[0.6, 0.8], [0.3, 0.4]]), atol=1e-5)
    assert weight[2].tolist() == [6.0, 8.0]


def test_local_response_norm_divides_by_neighbouring_channels():
    x = mq.full((1, 3, 2, 2), 2.0)
    y = F.local_response_norm(x, 3, alpha=3.0, beta=1.0, k=1.0)
    assert y[0, :, 0, 0].tolist() == pytest.approx([2 / 9, 2 / 13, 2 / 9])


@pytest.mark.parametrize(
    "mode, ndim", [("nearest", 3), ("bilinear", 4), ("trilinear", 5), ("area", 4)]
)
def test_interpolate_resizes_space(mode, ndim):
    x = mq.randn(1, 2, *(4,) * (ndim - 2))
    assert F.interpolate(x, scale_factor=2, mode=mode).shape[2:] == (8,) * (ndim - 2)
    assert F.interpolate(x, size=3, mode=mode).shape[2:] == (3,) * (ndim - 2)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({}, ValueError, "either size or scale_factor"),
        ({"size": 2, "scale_factor": 2}, ValueError, "only one of"),
        ({"size": (2, 2, 2)}, ValueError, "same number of spatial dimensions"),
        ({"size": 2, "align_corners": True}, ValueError, "interpolating modes"),
        ({"size": 2, "mode": "linear"}, NotImplementedError, "Got 4D input, but linear mode"),
        ({"size": 2, "antialias": True}, ValueError, "Anti-alias"),
    ],
)
def test_interpolate_refuses_options_that_contradict(options, error, message):
    with pytest.raises(error, match=message):
        F.interpolate(mq.ones(1, 1, 4, 4), **options)


def test_adaptive_pooling_needs_the_dimensions_it_pools():
    with pytest.raises(ValueError, match="at least 3"):
        F.adaptive_avg_pool2d(mq.ones(2, 2), (1, 1))


@pytest.mark.parametrize("p", [1.0, 2.0, float("inf")])
def test_lp_pool_is_the_norm_of_a_window(p):
    x = mq.tensor([[[3.0, 4.0, 1.0, 1.0]]])
    expected = {1.0: [7.0, 2.0], 2.0: [5.0, 2**0.5], float("inf"): [4.0, 1.0]}[p]
    assert F.lp_pool1d(x, p, 2).flatten().tolist() == pytest.approx(expected)


def test_weighted_losses_divide_by_the_weights():
    x, y, weight = mq.tensor([1.0, 2.0]), mq.zeros(2), mq.tensor([3.0, 1.0])
    assert F.mse_loss(x, y, weight=weight).item() == 7 / 4
    assert F.l1_loss(x, y, weight=weight).item() == 5 / 4
    with pytest.raises(ValueError, match="same size"):
        F.mse_loss(x, y, weight=weight[:1])


def test_gaussian_nll_takes_a_variance_of_a_broadcast_shape():
    x, y = mq.zeros(2, 3), mq.ones(2, 3)
    expected = F.gaussian_nll_loss(x, y, mq.full((2, 3), 0.5))
    assert F.gaussian_nll_loss(x, y, mq.full((2,), 0.5)).item() == expected.item()
    assert F.gaussian_nll_loss(x, y, mq.full((2, 1), 0.5)).item() == expected.item()
    assert F.gaussian_nll_loss(x, y, 0.5).item() == expected.item()
    with pytest.raises(ValueError, match="incorrect size"):
        F.gaussian_nll_loss(x, y, mq.ones(5))
    with pytest.raises(ValueError, match="negative"):
        F.gaussian_nll_loss(x, y, -1.0)


def test_dropout_of_channels_needs_channels():
    with pytest.raises(RuntimeError, match="2D or 3D input, but received a 4D input"):
        F.dropout1d(mq.ones(1, 1, 1, 1))
    with pytest.warns(UserWarning, match="channel-wise 1D dropout"):
        F.dropout2d(mq.ones(2, 2, 2))


def test_triplet_loss_takes_any_distance():
    def distance(a, b):
        return (a - b).abs().sum(-1)

    loss = F.triplet_margin_with_distance_loss(
        mq.zeros(1, 2), mq.ones(1, 2), mq.full((1, 2), 3.0), distance_function=distance, margin=5.0
    )
    assert loss.item() == 1.0
    with pytest.raises(ValueError, match="margin must be greater"):
        F.triplet_margin_loss(mq.zeros(1, 2), mq.zeros(1, 2), mq.zeros(1, 2), margin=0)


def test_the_signature_is_pytorchs_where_it_has_a_name():
    x = mq.randn(2, 3)
    given = F.cross_entropy(input=x, target=mq.tensor([0, 1]), label_smoothing=0.1)
    assert given.item() == pytest.approx(
        (0.9 * F.cross_entropy(x, mq.tensor([0, 1])) - 0.1 * x.log_softmax(1).mean()).item(),
        rel=1e-5,
    )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: F.interpolate(X4, size=(2.5, 2)), TypeError, "expected size to be one of int or"),
        (lambda: F.interpolate(X4, size=(2,)), ValueError, "Input and output must have the same"),
        (lambda: F.interpolate(X4, size=2, mode="linear"), NotImplementedError, "needs 3D input"),
        (lambda: F.interpolate(X4, size=2, mode="round"), NotImplementedError, "got round"),
        (lambda: F.grid_sample(X4, X4, mode="round"), ValueError, "or 'bicubic', but got: 'round'"),
        (
            lambda: F.grid_sample(X4, mq.ones(1, 1, 1, 3), align_corners=False),
            RuntimeError,
            "size 2 in last dimension",
        ),
        (lambda: F.binary_cross_entropy(X4, X4[0]), ValueError, "Using a target size"),
        (lambda: F.fractional_max_pool2d(X4, 2, output_ratio=[0.5] * 3), ValueError, "tuple of"),
        (lambda: F.fold(mq.ones(1, 4, 12), (4, 5), 2, 8), RuntimeError, "sliding blocks as"),
        (
            lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2])(mq.ones(1, 4), mq.tensor([6])),
            RuntimeError,
            "Target values should be in",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_pytorchs_words(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_grid_of_one_point_with_aligned_corners_is_warned_of():
    with pytest.warns(UserWarning, match="affine_grid"):
        F.affine_grid(mq.ones(1, 2, 3), [1, 1, 2, 1], align_corners=True)


def test_sums_and_samples_under_their_kernels_names():
    x = mq.tensor([-3.0, 2.0])
    assert mq._add_relu(x, mq.ones(2), alpha=2).tolist() == [0, 4]
    assert mq._add_relu_(x.clone(), 1).tolist() == [0, 3]
    grid = mq.rand(1, 2, 2, 2)
    found = mq._grid_sampler_2d_cpu_fallback(X4, grid, 0, 0, False)
    assert mq.equal(found, F.grid_sample(X4, grid, align_corners=False))


@pytest.mark.parametrize(
    "function",
    [
        F.gelu, F.logsigmoid, F.hardshrink, F.softshrink, F.softplus,
        lambda x, **out: F.avg_pool2d(x, 1, **out), lambda x, **out: F.avg_pool3d(x, 1, **out),
    ],
)  # fmt: skip
def test_results_are_written_where_they_are_wanted(function):
    """Finding 44."""
    out = mq.empty(X4.shape)
    assert function(X4, out=out) is out
    assert mq.equal(out, function(X4))


def test_convolutions_under_their_kernels_names():
    x, weight = mq.randn(1, 2, 5, 5), mq.randn(3, 2, 3, 3)
    found = mq.ops.aten.slow_conv_dilated2d(x, weight, [3, 3], dilation=[2, 2])
    assert mq.allclose(found, F.conv2d(x, weight, dilation=2), atol=1e-5)
    assert mq.allclose(mq.ops.aten.thnn_conv2d(x, weight, [3, 3]), F.conv2d(x, weight), atol=1e-5)
    with pytest.raises(RuntimeError, match="kernel_size"):
        mq.ops.aten.thnn_conv2d(x, weight, [2, 2])


def test_bags_take_the_old_order_of_their_arguments_with_a_warning():
    rows, table = mq.tensor([0, 1]), mq.rand(3, 2)
    wanted = F.embedding_bag(rows, table, mq.tensor([0]))
    with pytest.warns(UserWarning, match="Argument order"):
        assert mq.equal(F.embedding_bag(table, rows, mq.tensor([0])), wanted)


def test_any_truth_asks_for_antialiasing():
    x = mq.arange(16.0).reshape(1, 1, 4, 4)
    smooth = [F.interpolate(x, size=3, mode="bicubic", antialias=each) for each in (True, 1)]
    assert mq.equal(*smooth)
