"""``out=`` forms that operators have beside the functional one, and that few programs call.

PyTorch generates those of `FUNCTIONAL` from the operators: they compute the result, see to it that
the output has its dtype, resize the output and copy. So do these, each with the schema of its
operator and one output for each result. `DERIVED` lists outputs that PyTorch's kernels write to
directly: their forms are derived from the pages. Both are made when an overload is asked for that
is not there (`dispatch.packet.LATE_FORMS`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from maquette.aten.view.copies import check_outs, write_out
from maquette.autograd.grad_mode import is_grad_enabled
from maquette.core.errors import check
from maquette.dispatch.forms import functional_call
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import PACKETS
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.tensor import Tensor

FUNCTIONAL = """
__lshift__.Scalar __lshift__.Tensor __rshift__.Scalar __rshift__.Tensor _cholesky_solve_helper
_coalesced copy_sparse_to_sparse floor_divide.Scalar glu_backward_jvp glu_jvp resize_as_sparse
sparse_resize sparse_resize_and_clear _adaptive_avg_pool2d _adaptive_avg_pool2d_backward
_adaptive_avg_pool3d _adaptive_avg_pool3d_backward _add_relu.Scalar _aminmax _aminmax.dim
_amp_foreach_non_finite_check_and_unscale _amp_update_scale _batch_norm_no_update _cdist_backward
_cdist_forward _coalesce _conj_physical _convolution _ctc_loss _ctc_loss.Tensor _ctc_loss_backward
_dirichlet_grad _efficientzerotensor _embedding_bag _embedding_bag_forward_only
_embedding_bag_per_sample_weights_backward _euclidean_dist _foreach_abs _foreach_acos
_foreach_add.List _foreach_add.ScalarList _foreach_add.Scalar _foreach_add.Tensor
_foreach_addcdiv.ScalarList _foreach_addcdiv.Scalar _foreach_addcdiv.Tensor
_foreach_addcmul.ScalarList _foreach_addcmul.Scalar _foreach_addcmul.Tensor _foreach_asin
_foreach_atan _foreach_ceil _foreach_clamp_max.List _foreach_clamp_max.ScalarList
_foreach_clamp_max.Scalar _foreach_clamp_min.List _foreach_clamp_min.ScalarList
_foreach_clamp_min.Scalar _foreach_clone _foreach_copy _foreach_cos _foreach_cosh _foreach_div.List
_foreach_div.ScalarList _foreach_div.Scalar _foreach_div.Tensor _foreach_erf _foreach_erfc
_foreach_exp _foreach_expm1 _foreach_floor _foreach_frac _foreach_lerp.List _foreach_lerp.ScalarList
_foreach_lerp.Scalar _foreach_lgamma _foreach_log _foreach_log10 _foreach_log1p _foreach_log2
_foreach_max _foreach_maximum.List _foreach_maximum.ScalarList _foreach_maximum.Scalar
_foreach_minimum.List _foreach_minimum.ScalarList _foreach_minimum.Scalar _foreach_mul.List
_foreach_mul.ScalarList _foreach_mul.Scalar _foreach_mul.Tensor _foreach_neg _foreach_norm.Scalar
_foreach_pow.List _foreach_pow.ScalarList _foreach_pow.Scalar _foreach_powsum.Scalar
_foreach_reciprocal _foreach_round _foreach_rsqrt _foreach_sigmoid _foreach_sign _foreach_sin
_foreach_sinh _foreach_sqrt _foreach_sub.List _foreach_sub.ScalarList _foreach_sub.Scalar
_foreach_tan _foreach_tanh _foreach_trunc _foreach_zero _fused_adagrad _fused_adagrad.tensor_lr
_fused_adam _fused_adam.tensor_lr _fused_adamw _fused_adamw.tensor_lr _fused_sgd
_fused_sgd.tensor_lr _grid_sampler_2d_cpu_fallback _histogramdd_bin_edges _histogramdd_from_bin_cts
_histogramdd_from_bin_tensors _index_put_impl _native_batch_norm_legit_no_training
_native_multi_head_attention _transform_bias_rescale_qkv
_pack_padded_sequence _pdist_backward _pdist_forward _pin_memory _sample_dirichlet
_segment_reduce_backward _slow_conv2d_backward.output_mask _sparse_addmm
_sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors _sparse_log_softmax
_sparse_log_softmax_backward_data _sparse_mask_projection _sparse_softmax
_sparse_softmax_backward_data _sparse_sparse_matmul _sparse_sum.dim _sparse_sum_backward
_standard_gamma _standard_gamma_grad _to_copy _to_dense _to_sparse _to_sparse.sparse_dim
_to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr _trilinear _unique _unique2 _unsafe_view
_weight_norm_interface _weight_norm_interface_backward adaptive_avg_pool1d affine_grid_generator
as_strided_scatter avg_pool1d bartlett_window bartlett_window.periodic bernoulli.Tensor
bernoulli.float binary_cross_entropy_with_logits bincount bitwise_and.Scalar_Tensor
bitwise_left_shift.Scalar_Tensor bitwise_or.Scalar_Tensor bitwise_right_shift.Scalar_Tensor
bitwise_xor.Scalar_Tensor blackman_window blackman_window.periodic block_diag bucketize.Scalar
cauchy celu channel_shuffle clone constant_pad_nd convolution convolution_backward copy
count_nonzero count_nonzero.dim_IntList diagonal_backward diagonal_scatter dist div.Scalar_mode
embedding embedding_dense_backward embedding_renorm empty_like empty_permuted empty_strided
exponential fill.Scalar fill.Tensor flip full_like geometric grid_sampler_2d
grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward hamming_window
hamming_window.periodic hamming_window.periodic_alpha hamming_window.periodic_alpha_beta hann_window
hann_window.periodic hardswish_backward index_fill.int_Scalar index_fill.int_Tensor index_put isinf
isnan kaiser_window kaiser_window.beta kaiser_window.periodic lift linalg_matrix_exp log_normal
masked_fill.Scalar masked_fill.Tensor masked_scatter median mkldnn_rnn_layer
mkldnn_rnn_layer_backward nanmedian native_batch_norm_backward native_dropout
native_dropout_backward native_group_norm native_group_norm_backward native_layer_norm
native_layer_norm_backward new_empty new_empty_strided new_full new_ones new_zeros ones_like
pixel_shuffle pixel_unshuffle prod put rand_like rand_like.generator randint_like
randint_like.Tensor randint_like.Tensor_generator randint_like.generator randint_like.low_dtype
randint_like.low_generator_dtype randn_like randn_like.generator random random.from random.to relu
remainder.Scalar_Tensor repeat repeat_interleave.Tensor resize resize_as roll rot90
rrelu_with_noise_backward rsub.Scalar rsub.Tensor scalar_tensor segment_reduce select_backward
select_scatter set set.source_Storage set.source_Storage_storage_offset set.source_Tensor
slice_backward slice_scatter slow_conv_dilated2d slow_conv_dilated3d sparse_coo_tensor.size
sparse_mask std_mean.correction sum trace tril_indices triu_indices unfold_backward uniform
unique_consecutive unique_dim unique_dim_consecutive unsafe_split.Tensor unsafe_split_with_sizes
upsample_bilinear2d.vec upsample_nearest2d.vec var_mean.correction zero zeros_like
"""

COPIED = """
_compute_linear_combination:out _logcumsumexp:out _slow_conv2d_forward:output
_stack:out slow_conv3d_forward:output _convert_indices_from_coo_to_csr:out
_convert_indices_from_csr_to_coo:out adaptive_avg_pool2d:out adaptive_avg_pool3d:out
argsort.stable:out hspmm:out multilabel_margin_loss:out nll_loss2d:out
nll_loss:out slogdet:sign,logabsdet slow_conv3d:out slow_conv_transpose2d:out
slow_conv_transpose3d:out sspaddmm:out thnn_conv2d:out
"""
"""PyTorch writes them by kernels or other operators; no page derives them, so they copy too."""

DERIVED = {
    # Where the output has the result's dtype, and where it may have any that the result casts to.
    "exact": """
    glu_backward:grad_input log_sigmoid_backward:grad_input _log_softmax:out _softmax:out
    _upsample_bicubic2d_aa:out _upsample_bicubic2d_aa_backward:grad_input
    _upsample_bilinear2d_aa:out _upsample_lanczos2d_aa:out
    _upsample_lanczos2d_aa_backward:grad_input _upsample_bilinear2d_aa_backward:grad_input
    _upsample_nearest_exact1d:out _upsample_nearest_exact1d_backward:grad_input
    _upsample_nearest_exact2d:out _upsample_nearest_exact2d_backward:grad_input
    _upsample_nearest_exact3d:out _upsample_nearest_exact3d_backward:grad_input
    adaptive_max_pool2d:out,indices adaptive_max_pool2d_backward:grad_input
    adaptive_max_pool3d:out,indices adaptive_max_pool3d_backward:grad_input
    avg_pool2d_backward:grad_input avg_pool3d_backward:grad_input col2im:out
    fractional_max_pool2d:output,indices fractional_max_pool2d_backward:grad_input
    fractional_max_pool3d:output,indices fractional_max_pool3d_backward:grad_input im2col:out
    max_pool2d_with_indices:out,indices max_pool2d_with_indices_backward:grad_input
    max_pool3d_with_indices:out,indices max_pool3d_with_indices_backward:grad_input max_unpool2d:out
    max_unpool3d:out nonzero_static:out reflection_pad1d:out reflection_pad1d_backward:grad_input
    reflection_pad2d:out reflection_pad2d_backward:grad_input reflection_pad3d:out
    reflection_pad3d_backward:grad_input replication_pad1d:out replication_pad1d_backward:grad_input
    replication_pad2d:out replication_pad2d_backward:grad_input replication_pad3d:out
    replication_pad3d_backward:grad_input searchsorted.Scalar:out upsample_bicubic2d:out
    upsample_bicubic2d_backward:grad_input upsample_bilinear2d:out
    upsample_bilinear2d_backward:grad_input upsample_linear1d:out
    upsample_linear1d_backward:grad_input upsample_nearest1d:out
    upsample_nearest1d_backward:grad_input upsample_nearest2d:out
    upsample_nearest2d_backward:grad_input upsample_nearest3d:out
    upsample_nearest3d_backward:grad_input upsample_trilinear3d:out
    upsample_trilinear3d_backward:grad_input
    """,
    "cast": """
    gelu_backward:grad_input softshrink_backward:grad_input elu_backward:grad_input
    hardshrink_backward:grad_input hardsigmoid_backward:grad_input hardtanh_backward:grad_input
    leaky_relu_backward:grad_input logit_backward:grad_input sigmoid_backward:grad_input
    silu_backward:grad_input softplus_backward:grad_input tanh_backward:grad_input
    threshold_backward:grad_input
    """,
}

_OPTIONS = re.compile(
    r"ScalarType\? dtype=[^,]+, Layout\? layout=[^,]+, Device\? device=[^,]+, "
    r"bool\? pin_memory=[^,)]+(, )?"
)


def _load() -> None:
    """Define all of these forms, but for those that a program defined before."""
    for name in FUNCTIONAL.split():
        op = _functional(name)
        overload = f"{op._overloadname}_out" if op._overloadname != "default" else "out"
        if overload not in op.overloadpacket._overloads:
            _generate(op, overload)
    for name, outs in _listed(COPIED):
        op = _functional(name)
        named = outs[0] if len(outs) == 1 else "out"
        overload = named if op._overloadname == "default" else f"{op._overloadname}_{named}"
        _copied(op, overload, outs, [Tag.out])
    for kind, names in DERIVED.items():
        for name, outs in _listed(names):
            _derive(_functional(name), outs, exact=kind == "exact")


def _listed(text: str) -> list[tuple[str, list[str]]]:
    """The operators of a text with the outputs of each."""
    parts = [entry.partition(":") for entry in text.split()]
    return [(name, outs.split(",")) for name, _, outs in parts]


def _functional(name: str) -> OpOverload:
    packet, _, overload = name.partition(".")
    return PACKETS[f"aten::{packet}"]._overloads[overload or "default"]


def out_text(op: OpOverload, overload: str, outs: list[str]) -> str:
    """The schema text of the form of ``op`` that writes its results to arguments ``outs``.

    Dtype, layout and device are the outputs' own. Of an operator made from one that mutates several
    arguments, only the first becomes the output; the others stay marked, as PyTorch has it.
    """
    mutating = op.mutating_link
    text = op._schema_text
    results = text.rpartition("->")[2].strip().strip("()").split(", ")
    if mutating is not None and mutating._schema_text.partition("->")[0].count("!") > 1:
        text, results = mutating._schema_text.replace("(a!)", "", 1), results[:1]
    arguments = _OPTIONS.sub("", text.partition("(")[2].rpartition("->")[0].rstrip()[:-1])
    arguments = arguments.strip().removesuffix(",").removesuffix("*").strip().removesuffix(",")
    listed = results[0].startswith("Tensor[]")
    letters = [f"({chr(ord('a') + n)}!)" for n in range(len(outs))]
    written = [f"Tensor{a}{'[]' if listed else ''} {o}" for a, o in zip(letters, outs, strict=True)]
    named = [f" {o}" if r == f"Tensor {o}" else "" for o, r in zip(outs, results, strict=False)]
    returned = ", ".join([f"Tensor{a}{n}" for a, n in zip(letters, named, strict=False)])
    if listed:
        returned = "()"
    elif len(outs) > 1:
        returned = f"({returned})"
    begun = [arguments] if arguments else []
    star = [] if "*, " in arguments else ["*"]
    return f"aten::{op._opname}.{overload}({', '.join([*begun, *star, *written])}) -> {returned}"


# --- forms that compute the result, then copy ------------------------------------------------


def _generate(op: OpOverload, overload: str) -> None:
    count = 1 if op.mutating_link is not None else len(op._schema.returns)
    outs = ["out"] if count == 1 else [f"out{n}" for n in range(count)]
    seeded = [Tag.nondeterministic_seeded] if Tag.nondeterministic_seeded in op.tags else []
    _copied(op, overload, outs, [Tag.generated, *seeded, Tag.out])


def _copied(op: OpOverload, overload: str, outs: list[str], tags: list[Tag]) -> None:
    page = define(out_text(op, overload, outs), tags=tags)
    form = page.op
    form.seldom = True
    if sum(a.is_write for a in form._schema.arguments) > len(outs):
        page.functional_form("it writes one of the results of its operator, and drops the others")
    else:
        form.functional_link = op

    def kernel(*params: object) -> object:
        return _write_results(form, op, params, params[-len(outs) :])

    kernel.__name__ = f"{op._opname}_{overload}"
    page.explicit(kernel)


def _write_results(
    form: OpOverload, op: OpOverload, params: Sequence[object], outs: Sequence[object]
) -> object:
    """The kernel of a form: the operator's results, copied to the outputs."""
    _refuse_history(form, op, params, outs)
    call = functional_call(form)
    given = params[: -len(outs)] if call is None else call.parameters(params)
    pairs = list(zip(given, op._schema.arguments, strict=True))
    positional = [p for p, a in pairs if not a.kwarg_only]
    result = op(*positional, **{a.name: p for p, a in pairs if a.kwarg_only})
    results = result if isinstance(result, tuple) else (result,)
    for out, value in zip(outs, results, strict=False):
        _check_fits(form, out, value)
    for out, value in zip(outs, results, strict=False):
        _fill(out, value)
    return None if not form._schema.returns else outs[0] if len(outs) == 1 else tuple(outs)


def _refuse_history(
    form: OpOverload, op: OpOverload, params: Sequence[object], outs: Sequence[object]
) -> None:
    """Refuse tensors that require grad: the copy would have no history."""
    asked = params if op.derivatives is not None else outs
    flat = [t for p in asked for t in (p if isinstance(p, list | tuple) else (p,))]
    check(
        not (is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in flat)),
        lambda: (
            f"{form._opname}(): functions with out=... arguments don't support automatic "
            f"differentiation, but one of the arguments requires grad."
        ),
    )


def _check_fits(form: OpOverload, out: object, value: object) -> None:
    """Refuse a result, or a list of them, that cannot be written to what stands for it."""
    if isinstance(out, Tensor):
        check(
            isinstance(value, Tensor),
            lambda: f"{form}: the operator gives no result for one of the outputs; got {value}",
        )
        assert isinstance(value, Tensor)
        check(
            out.meta.device is value.meta.device,
            lambda: (
                f"Attempting to copy from device {value.meta.device} to device "
                f"{out.meta.device}, but cross-device copies are not allowed! {form} writes to an "
                f"output on the device of its result."
            ),
        )
        check_outs([out], [value], exact=True)
        return
    assert isinstance(out, list | tuple)
    assert isinstance(value, list | tuple)
    check(
        len(out) == len(value),
        lambda: f"{form}: expected as many outputs as results, {len(value)}; got {len(out)}",
    )
    for each, result in zip(out, value, strict=True):
        _check_fits(form, each, result)


def _fill(out: object, value: object) -> None:
    """Write one result, or a list of them, to what stands for it."""
    if isinstance(out, Tensor):
        write_out(out, value)
        return
    assert isinstance(out, list | tuple)
    assert isinstance(value, list | tuple)
    for each, result in zip(out, value, strict=True):
        _fill(each, result)


# --- forms that are written to ---------------------------------------------------------------


def _derive(op: OpOverload, outs: list[str], *, exact: bool) -> None:
    overload = outs[0] if op._overloadname == "default" else f"{op._overloadname}_{outs[0]}"
    if overload in op.overloadpacket._overloads:
        return
    page = OperatorPage(op)
    page.late_variant(out_text(op, overload, outs)).seldom = True
    if exact:
        page.exact_out()


_load()
