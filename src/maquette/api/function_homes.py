"""Where PyTorch has an operator's function: in `torch`, below `torch.nn.functional`, or nowhere.

Here every operator is a function of `maquette`. In PyTorch some are methods alone, and programs
ask ``hasattr(torch, name)`` to tell versions apart; generated code names functions by their homes.
"""

from __future__ import annotations

FAMILIES = ("linalg_", "fft_", "special_")
"""How operators of `torch.linalg` and its like begin."""
_STEPS = ("_backward", "_forward", "_jvp")  # parts of other operators, called by derivatives
_OF_NN = frozenset(
    """
    adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d avg_pool2d
    avg_pool3d binary_cross_entropy col2im cross_entropy_loss elu elu_ flatten_dense_tensors
    fractional_max_pool2d fractional_max_pool3d gelu gelu_ glu hardsigmoid hardsigmoid_
    hardswish hardswish_ hardtanh hardtanh_ huber_loss im2col l1_loss leaky_relu leaky_relu_
    linear log_sigmoid max_pool2d_with_indices max_pool3d_with_indices max_unpool2d
    max_unpool3d mish mish_ mse_loss multi_margin_loss multilabel_margin_loss nll_loss
    nll_loss2d nll_loss_nd one_hot pad pad_sequence reflection_pad1d reflection_pad2d
    reflection_pad3d relu6 relu6_ replication_pad1d replication_pad2d replication_pad3d
    rrelu_with_noise rrelu_with_noise_ scaled_dot_product_attention silu silu_ slow_conv3d
    slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d
    smooth_l1_loss soft_margin_loss softplus softshrink thnn_conv2d unflatten_dense_tensors
    upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
    upsample_nearest2d upsample_nearest3d upsample_trilinear3d
    """.split()
)
_IN_PLACE = frozenset(
    """
    abs_ acos_ acosh_ addmv_ alpha_dropout_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_
    as_strided_ asin_ asinh_ atan_ atanh_ ceil_ celu_ clamp_ clamp_max_ clamp_min_ clip_
    conj_physical_ cos_ cosh_ deg2rad_ detach_ dropout_ embedding_renorm_ erf_ erfc_ exp2_ exp_
    expm1_ feature_alpha_dropout_ feature_dropout_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_
    lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_
    relu_ resize_as_ resize_as_sparse_ round_ rrelu_ rsqrt_ selu_ sigmoid_ sin_ sinc_ sinh_
    sqrt_ square_ tan_ tanh_ threshold_ trunc_ xlogy_ zero_
    """.split()
)
_NO_FUNCTIONS = frozenset(
    """
    alias ccol_indices coalesce col_indices contiguous crow_indices data dense_dim dim expand
    expand_as index indices is_coalesced is_contiguous is_leaf is_non_overlapping_and_dense
    is_pinned is_set_to is_strides_like_format item lift lift_fresh lift_fresh_copy matrix_H mH
    mT new_empty new_empty_strided new_full new_ones new_zeros nonzero_numpy numpy_T output_nr
    repeat reshape_as retains_grad row_indices size slice sparse_dim sparse_mask
    sparse_sampled_addmm storage_offset stride sum_to_size sym_is_contiguous sym_numel sym_size
    sym_storage_offset sym_stride to to_dense to_sparse to_sparse_bsc to_sparse_bsr
    to_sparse_csc to_sparse_csr type_as unfold unique_dim_consecutive values view view_as
    """.split()
)


def function_home(name: str) -> str | None:
    """The module of PyTorch's that has the function of an operator; None if none has.

    Private operators are functions of `torch`, though PyTorch leaves some of them out.
    """
    if name.startswith("_"):
        return "torch"
    if name.startswith(FAMILIES):
        return f"torch._C._{name.partition('_')[0]}"
    if name in _OF_NN:
        return "torch._C._nn"
    if name in _NO_FUNCTIONS or name.endswith(_STEPS):
        return None
    return None if name.endswith("_") and name not in _IN_PLACE else "torch"


def own_module(function: object) -> str:
    """The module of maquette that has a function or class, whatever that says under `install`.

    That of others as it stands; "" for one without.
    """
    found: str | None = getattr(function, "_mq_home", None) or getattr(function, "__module__", "")
    return found or ""
