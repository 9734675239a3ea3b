"""Layers: what they compute, what they keep, what they refuse."""

import math

import numpy as np
import pytest

import maquette as mq
from maquette import nn


def close(a, b, tolerance=1e-5):
    return mq.allclose(a, b, rtol=tolerance, atol=tolerance)


# --- Linear maps and tables ----------------------------------------------------------


def test_linear_is_a_product_and_a_sum():
    layer, x = nn.Linear(3, 2), mq.randn(4, 5, 3)
    assert close(layer(x), x @ layer.weight.t() + layer.bias)


def test_layers_take_device_and_dtype():
    layer = nn.Linear(3, 2, device="meta", dtype=mq.float64)
    assert layer.weight.is_meta
    assert layer.bias.dtype == mq.float64


def test_bilinear_is_a_form_for_each_output():
    layer, x, y = nn.Bilinear(2, 3, 4), mq.randn(5, 2), mq.randn(5, 3)
    assert close(layer(x, y), mq.einsum("bi,oij,bj->bo", x, layer.weight, y) + layer.bias)


def test_embedding_takes_rows_and_keeps_its_padding_zero():
    layer = nn.Embedding(5, 3, padding_idx=-1)
    index = mq.tensor([[0, 4], [2, 2]])
    assert mq.equal(layer(index), layer.weight[index])
    assert layer.padding_idx == 4
    assert layer.weight[4].abs().sum().item() == 0
    layer(index).sum().backward()
    assert layer.weight.grad.sum(1).tolist() == [3.0, 0.0, 6.0, 0.0, 0.0]


def test_embedding_refuses_a_padding_row_that_is_not_there():
    with pytest.raises(AssertionError, match="within num_embeddings; got 5"):
        nn.Embedding(5, 3, padding_idx=5)


def test_embedding_from_pretrained_is_frozen():
    layer = nn.Embedding.from_pretrained(mq.ones(2, 3))
    assert not layer.weight.requires_grad
    assert layer(mq.tensor([1])).tolist() == [[1.0, 1.0, 1.0]]


# --- Convolutions and pooling --------------------------------------------------------


def test_convolution_of_one_pixel_is_linear():
    layer, x = nn.Conv2d(3, 5, 1), mq.randn(2, 3, 4, 4)
    expected = mq.einsum("bchw,oc->bohw", x, layer.weight[:, :, 0, 0])
    assert close(layer(x), expected + layer.bias.view(5, 1, 1))


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_padding_modes_keep_the_size(mode):
    layer = nn.Conv2d(2, 3, 3, padding=1, padding_mode=mode)
    assert layer(mq.randn(1, 2, 6, 5)).shape == (1, 3, 6, 5)


def test_same_padding_keeps_the_size_of_even_kernels():
    assert nn.Conv1d(1, 1, 4, padding="same", dilation=2)(mq.randn(1, 1, 9)).shape == (1, 1, 9)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"groups": 3}, "in_channels must be divisible by groups"),
        ({"groups": 0}, "positive integer"),
        ({"padding": "wide"}, "Invalid padding string"),
        ({"padding": "same", "stride": 2}, "not supported for strided"),
        ({"padding_mode": "mirror"}, "padding_mode must be one of"),
    ],
)
def test_convolutions_refuse_options_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        nn.Conv2d(4, 4, 3, **options)


def test_transposed_convolution_meets_the_size_asked_for():
    layer = nn.ConvTranspose2d(2, 3, 3, stride=2)
    x = mq.randn(1, 2, 4, 4)
    assert layer(x, output_size=[10, 9]).shape == (1, 3, 10, 9)
    with pytest.raises(ValueError, match="valid sizes range from"):
        layer(x, output_size=[20, 20])


def test_pooling_takes_the_largest_and_the_mean():
    x = mq.arange(16.0).view(1, 1, 4, 4)
    assert nn.MaxPool2d(2)(x).flatten().tolist() == [5.0, 7.0, 13.0, 15.0]
    assert nn.AvgPool2d(2)(x).flatten().tolist() == [2.5, 4.5, 10.5, 12.5]
    assert nn.AdaptiveAvgPool2d(1)(x).item() == 7.5
    assert nn.AdaptiveAvgPool2d((None, 1))(x).shape == (1, 1, 4, 1)


def test_max_pooling_gives_indices_on_request():
    values, indices = nn.MaxPool1d(2, return_indices=True)(mq.tensor([[[1.0, 3.0, 2.0, 0.0]]]))
    assert values.tolist() == [[[3.0, 2.0]]]
    assert indices.tolist() == [[[1, 2]]]


# --- Normalization -------------------------------------------------------------------


def test_layer_norm_has_mean_zero_and_variance_one():
    y = nn.LayerNorm(8)(mq.randn(3, 8) * 5 + 2)
    assert close(y.mean(-1), mq.zeros(3))
    assert close(y.var(-1, unbiased=False), mq.ones(3), 1e-4)


def test_rms_norm_has_mean_square_one():
    y = nn.RMSNorm(8)(mq.randn(3, 8) * 5 + 2)
    assert close((y * y).mean(-1), mq.ones(3), 1e-4)


def test_group_norm_of_one_group_is_layer_norm_of_a_sample():
    x = mq.randn(2, 4, 3)
    assert close(nn.GroupNorm(1, 4)(x), nn.LayerNorm((4, 3), elementwise_affine=False)(x))
    with pytest.raises(ValueError, match="divisible by num_groups"):
        nn.GroupNorm(3, 4)


def test_batch_norm_tracks_and_uses_its_statistics():
    layer, x = nn.BatchNorm1d(3), mq.randn(10, 3) * 2 + 1
    y = layer(x)
    assert close(y.mean(0), mq.zeros(3))
    assert close(layer.running_mean, 0.1 * x.mean(0))
    assert close(layer.running_var, 0.9 + 0.1 * x.var(0))
    assert layer.num_batches_tracked.item() == 1
    expected = (x - layer.running_mean) / (layer.running_var + 1e-5).sqrt()
    assert close(layer.eval()(x), expected)
    assert layer.num_batches_tracked.item() == 1


@pytest.mark.parametrize(("eps", "training"), [(0.0, True), (-1.0, True), (-1.0, False)])
def test_batch_norm_refuses_an_eps_that_may_divide_by_zero(eps, training):
    layer = nn.BatchNorm1d(3, eps=eps).train(training)
    with pytest.raises(ValueError, match="eps must be"):
        layer(mq.randn(10, 3))
    assert nn.BatchNorm1d(3, eps=0.0).eval()(mq.ones(2, 3)).shape == (2, 3)


def test_batch_norm_without_momentum_averages_all_batches():
    layer = nn.BatchNorm1d(1, momentum=None)
    for value in (1.0, 2.0, 6.0):
        layer(mq.tensor([[value - 1], [value + 1]]))
    assert layer.running_mean.item() == pytest.approx(3.0)


def test_batch_norm_without_statistics_normalizes_in_evaluation_too():
    layer = nn.BatchNorm1d(2, track_running_stats=False, affine=False).eval()
    assert list(layer.state_dict()) == []
    assert close(layer(mq.randn(5, 2)).mean(0), mq.zeros(2))


@pytest.mark.parametrize(
    "layer, shape, message",
    [
        (nn.BatchNorm1d(3), (1, 3), "more than 1 value per channel"),
        (nn.BatchNorm2d(3), (2, 3, 4), "expected 4D input"),
        (nn.InstanceNorm1d(3), (2, 3, 1), "more than 1"),
        (nn.InstanceNorm1d(3, affine=True), (2, 4, 5), "to match num_features"),
    ],
)
def test_normalization_refuses_what_it_cannot_normalize(layer, shape, message):
    with pytest.raises(ValueError, match=message):
        layer(mq.ones(*shape))


def test_instance_norm_takes_a_single_sample():
    x = mq.randn(3, 7)
    assert close(nn.InstanceNorm1d(3)(x), nn.InstanceNorm1d(3)(x.unsqueeze(0))[0])


# --- Activations, dropout, shapes ----------------------------------------------------


def test_inplace_activations_return_their_input():
    x = mq.tensor([-1.0, 2.0])
    assert nn.ReLU(inplace=True)(x) is x
    assert x.tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    "layer, formula",
    [
        (nn.GELU(), lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
        (nn.SiLU(), lambda x: x / (1 + math.exp(-x))),
        (nn.Softplus(), lambda x: math.log1p(math.exp(x))),
        (nn.ELU(2.0), lambda x: x if x > 0 else 2 * math.expm1(x)),
        (nn.LeakyReLU(0.1), lambda x: x if x > 0 else 0.1 * x),
        (nn.Hardtanh(), lambda x: max(-1.0, min(1.0, x))),
        (nn.ReLU6(), lambda x: max(0.0, min(6.0, x))),
        (nn.Softsign(), lambda x: x / (1 + abs(x))),
        (nn.PReLU(), lambda x: x if x > 0 else 0.25 * x),
    ],
)
def test_activations_follow_their_formula(layer, formula):
    xs = [-2.0, -0.5, 0.0, 0.75, 7.0]
    assert layer(mq.tensor(xs)).tolist() == pytest.approx([formula(x) for x in xs], abs=1e-6)


def test_softmax_sums_to_one_and_guesses_a_dimension_with_a_warning():
    x = mq.randn(2, 5)
    assert close(nn.Softmax(1)(x).sum(1), mq.ones(2))
    with pytest.warns(UserWarning, match="Implicit dimension choice"):
        nn.Softmax()(x)


def test_dropout_acts_in_training_only():
    layer, x = nn.Dropout(0.5), mq.ones(2000)
    mq.manual_seed(0)
    y = layer(x)
    assert set(y.tolist()) == {0.0, 2.0}
    assert abs(y.mean().item() - 1.0) < 0.1
    assert mq.equal(layer.eval()(x), x)
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(1.5)


def test_flatten_and_unflatten_are_inverse():
    x = mq.randn(2, 3, 4)
    flat = nn.Flatten()(x)
    assert flat.shape == (2, 12)
    assert mq.equal(nn.Unflatten(1, (3, 4))(flat), x)
    with pytest.raises(TypeError, match="tuple of ints"):
        nn.Unflatten(1, 12)


# --- Attention -----------------------------------------------------------------------


def attention(q, k, v, mask=None):
    """One head, written out."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return scores.softmax(-1) @ v, scores.softmax(-1)


@pytest.mark.parametrize("need_weights", [True, False])
def test_one_head_is_attention_between_projections(need_weights):
    layer, x = nn.MultiheadAttention(4, 1, batch_first=True), mq.randn(2, 5, 4)
    q, k, v = (x @ layer.in_proj_weight.t() + layer.in_proj_bias).chunk(3, -1)
    out, weights = attention(q, k, v)
    given, given_weights = layer(x, x, x, need_weights=need_weights)
    assert close(given, layer.out_proj(out))
    assert given_weights is None or close(given_weights, weights)
    assert (given_weights is not None) == need_weights


def test_attention_masks_out_padding_and_the_future():
    layer, x = nn.MultiheadAttention(4, 2, batch_first=True), mq.randn(1, 3, 4)
    future = mq.ones(3, 3, dtype=mq.bool).triu(1)
    padding = mq.tensor([[False, False, True]])
    _, weights = layer(x, x, x, attn_mask=future, key_padding_mask=padding)
    assert (weights[0] > 0).tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, False],
    ]


def test_attention_takes_keys_and_values_of_other_widths():
    layer = nn.MultiheadAttention(4, 2, kdim=3, vdim=5)
    out, weights = layer(mq.randn(2, 1, 4), mq.randn(6, 1, 3), mq.randn(6, 1, 5))
    assert out.shape == (2, 1, 4)
    assert weights.shape == (1, 2, 6)
    assert "in_proj_weight" not in layer.state_dict()


def test_attention_refuses_shapes_that_do_not_fit():
    with pytest.raises(AssertionError, match="divisible by num_heads"):
        nn.MultiheadAttention(5, 2)
    layer = nn.MultiheadAttention(4, 2)
    with pytest.raises(AssertionError, match="embedding dimension of 4, but got 6"):
        layer(mq.ones(2, 1, 6), mq.ones(2, 1, 6), mq.ones(2, 1, 6))
    with pytest.raises(RuntimeError, match="2D attn_mask"):
        layer(mq.ones(2, 1, 4), mq.ones(2, 1, 4), mq.ones(2, 1, 4), attn_mask=mq.zeros(3, 3))


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_is_attention_and_a_feed_forward(norm_first):
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True, norm_first=norm_first)
    x = mq.randn(2, 3, 4)

    def attended(y):
        return layer.self_attn(y, y, y)[0]

    def fed(y):
        return layer.linear2(layer.linear1(y).relu())

    if norm_first:
        expected = x + attended(layer.norm1(x))
        expected = expected + fed(layer.norm2(expected))
    else:
        expected = layer.norm1(x + attended(x))
        expected = layer.norm2(expected + fed(expected))
    assert close(layer(x), expected)


def test_a_causal_encoder_does_not_look_ahead():
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)
    stack = nn.TransformerEncoder(layer, 2)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    x = mq.randn(1, 5, 4)
    changed = x.clone()
    changed[:, 3:] += 1
    assert close(stack(x, mask=mask)[:, :3], stack(changed, mask=mask)[:, :3])


def test_transformer_goes_from_source_and_target_to_target():
    model = nn.Transformer(4, 2, 1, 1, 8, batch_first=True)
    assert model(mq.randn(2, 5, 4), mq.randn(2, 3, 4)).shape == (2, 3, 4)
    with pytest.raises(RuntimeError, match="batch number"):
        model(mq.randn(2, 5, 4), mq.randn(1, 3, 4))


# --- Losses --------------------------------------------------------------------------


def test_cross_entropy_is_the_log_of_the_right_probability():
    x, target = mq.randn(4, 3), mq.tensor([0, 2, 1, 1])
    expected = -x.log_softmax(1)[mq.arange(4), target]
    assert close(nn.CrossEntropyLoss(reduction="none")(x, target), expected)
    assert close(nn.CrossEntropyLoss()(x, target), expected.mean())
    assert close(nn.NLLLoss()(x.log_softmax(1), target), expected.mean())
    assert close(nn.CrossEntropyLoss(ignore_index=2)(x, target), expected[[0, 2, 3]].mean())


def test_losses_reduce_as_they_are_told():
    x, y = mq.tensor([1.0, 2.0]), mq.tensor([0.0, 4.0])
    assert nn.MSELoss()(x, y).item() == 2.5
    assert nn.MSELoss(reduction="sum")(x, y).item() == 5.0
    assert nn.L1Loss(reduction="none")(x, y).tolist() == [1.0, 2.0]
    assert nn.SmoothL1Loss()(x, y).item() == 1.0
    assert nn.HuberLoss(delta=0.5)(x, y).item() == pytest.approx(0.625)
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        nn.MSELoss(reduction="product")(x, y)


def test_old_reduction_flags_are_read_with_a_warning():
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert nn.MSELoss(reduce=False).reduction == "none"


def test_binary_cross_entropy_of_logits_and_of_probabilities_agree():
    x, y = mq.randn(6), mq.tensor([0.0, 1, 1, 0, 1, 0])
    assert close(nn.BCEWithLogitsLoss()(x, y), nn.BCELoss()(x.sigmoid(), y))
    with pytest.raises(ValueError, match="must be the same as input size"):
        nn.BCEWithLogitsLoss()(x, y[:3])


def test_divergence_of_a_distribution_from_itself_is_zero():
    p = mq.randn(3, 4).softmax(1)
    assert abs(nn.KLDivLoss(reduction="batchmean")(p.log(), p).item()) < 1e-6


def test_targets_that_broadcast_are_warned_about():
    with pytest.warns(UserWarning, match="different to the input size"):
        nn.MSELoss()(mq.ones(3), mq.ones(1))


def test_loss_weights_are_buffers():
    assert list(nn.CrossEntropyLoss(weight=mq.ones(3)).state_dict()) == ["weight"]


def test_ranking_losses():
    a, b, y = mq.tensor([1.0, 2.0]), mq.tensor([2.0, 1.0]), mq.tensor([1.0, 1.0])
    assert nn.MarginRankingLoss(reduction="sum")(a, b, y).item() == 1.0
    x = mq.eye(2)
    assert nn.CosineEmbeddingLoss()(x, x, y).item() == pytest.approx(0.0)
    assert nn.TripletMarginLoss()(x, x, x).item() == pytest.approx(1.0)
    assert close(nn.CosineSimilarity()(x, x), mq.ones(2))


def test_sizes_of_layers_are_numpys_numbers_too() -> None:
    assert nn.LayerNorm(np.int64(3))(mq.ones(2, 3)).shape == (2, 3)
    assert nn.MaxPool2d(np.int64(2))(mq.ones(1, 4, 4)).shape == (1, 2, 2)
