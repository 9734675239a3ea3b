"""`torch.nn.functional`: the stateless half of `nn`, split by what each file knows.

Each name is PyTorch's, with its signature and its defaults. Names only; the code is in the files.
Annotations here and in `nn.modules` are classes, not text (no ``from __future__ import
annotations``): programs read them, and traced graphs write them, as they do PyTorch's.
"""

from maquette.api.overriding import handle_torch_function as handle_torch_function
from maquette.api.overriding import has_torch_function as has_torch_function
from maquette.api.overriding import has_torch_function_unary as has_torch_function_unary
from maquette.api.overriding import has_torch_function_variadic as has_torch_function_variadic
from maquette.nn import _reduction as _Reduction  # noqa: F401  # PyTorch's name for it here
from maquette.nn import grad
from maquette.nn.functional.activation import (
    _get_softmax_dim as _get_softmax_dim,
)
from maquette.nn.functional.activation import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
    threshold_,
)
from maquette.nn.functional.attention import (
    _canonical_mask as _canonical_mask,
)
from maquette.nn.functional.attention import (
    _in_projection as _in_projection,
)
from maquette.nn.functional.attention import (
    _in_projection_packed as _in_projection_packed,
)
from maquette.nn.functional.attention import (
    _mha_shape_check as _mha_shape_check,
)
from maquette.nn.functional.attention import (
    _none_or_dtype as _none_or_dtype,
)
from maquette.nn.functional.attention import (
    multi_head_attention_forward,
    scaled_dot_product_attention,
)
from maquette.nn.functional.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    fold,
    unfold,
)
from maquette.nn.functional.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from maquette.nn.functional.linear import (
    bilinear,
    embedding,
    embedding_bag,
    grouped_mm,
    linear,
    one_hot,
)
from maquette.nn.functional.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    ctc_loss,
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    linear_cross_entropy,
    mse_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from maquette.nn.functional.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    normalize,
    rms_norm,
)
from maquette.nn.functional.overriding import offer
from maquette.nn.functional.padding import pad
from maquette.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from maquette.nn.functional.pooling_indices import (
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d_with_indices,
    max_pool1d_with_indices,
    max_pool2d_with_indices,
    max_pool3d_with_indices,
)
from maquette.nn.functional.ranking import (
    cosine_embedding_loss,
    cosine_similarity,
    hinge_embedding_loss,
    margin_ranking_loss,
    pairwise_distance,
    pdist,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from maquette.nn.functional.resize import (
    GRID_SAMPLE_INTERPOLATION_MODES as GRID_SAMPLE_INTERPOLATION_MODES,
)
from maquette.nn.functional.resize import (
    GRID_SAMPLE_PADDING_MODES as GRID_SAMPLE_PADDING_MODES,
)
from maquette.nn.functional.resize import (
    affine_grid,
    channel_shuffle,
    grid_sample,
    interpolate,
    native_channel_shuffle,
    pixel_shuffle,
    pixel_unshuffle,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from maquette.nn.functional.scaled_products import (
    ScalingType as ScalingType,
)
from maquette.nn.functional.scaled_products import (
    SwizzleType as SwizzleType,
)
from maquette.nn.functional.scaled_products import (
    assert_int_or_pair as assert_int_or_pair,
)
from maquette.nn.functional.scaled_products import (
    scaled_grouped_mm as scaled_grouped_mm,
)
from maquette.nn.functional.scaled_products import (
    scaled_mm as scaled_mm,
)
from maquette.nn.functional.unpooling import max_unpool1d, max_unpool2d, max_unpool3d

offer(globals())

__all__ = [
    "grad",
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid",
    "hardswish", "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_", "log_softmax", "logsigmoid",
    "mish", "prelu", "relu", "relu6", "relu_", "rrelu", "rrelu_", "selu", "selu_", "sigmoid",
    "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink",
    "threshold", "threshold_", "multi_head_attention_forward", "scaled_dot_product_attention",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "fold", "unfold", "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d",
    "feature_alpha_dropout", "bilinear", "embedding", "embedding_bag", "grouped_mm", "linear",
    "one_hot",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "ctc_loss",
    "gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss",
    "smooth_l1_loss", "batch_norm", "group_norm", "instance_norm", "layer_norm",
    "local_response_norm", "normalize", "rms_norm", "pad", "adaptive_avg_pool1d",
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d",
    "lp_pool3d", "max_pool1d", "max_pool2d", "max_pool3d", "cosine_embedding_loss",
    "cosine_similarity", "hinge_embedding_loss", "margin_ranking_loss", "pairwise_distance",
    "pdist", "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
    "affine_grid", "channel_shuffle", "grid_sample", "interpolate", "pixel_shuffle",
    "pixel_unshuffle", "upsample", "upsample_bilinear", "upsample_nearest",
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "linear_cross_entropy", "max_unpool1d", "max_unpool2d",
    "max_unpool3d", "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d_with_indices", "max_pool1d_with_indices", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "conv_tbc", "native_channel_shuffle",
]  # fmt: skip
