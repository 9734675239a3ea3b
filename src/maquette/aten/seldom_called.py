"""Operators that few programs call by name and that others say in a line.

PyTorch's own derivatives, losses and modules call them inside; here the pages of what they serve
compute the same. All are definitions by other operators.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from maquette.aten.common.operators import aten
from maquette.aten.view.copies import write_exact_out
from maquette.core.dtype import dtype, float16, float32, float64, int64
from maquette.core.errors import check
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.tensor import Tensor

Ints = Sequence[int]


def _composed(schema: str, says: str, function: Callable[..., object]) -> None:
    """One operator of ``aten``, differentiated through its parts."""
    page = define(f"aten::{schema}")
    page.composite(function)
    page.describe(says)


def _explicit(schema: str, says: str, function: Callable[..., object]) -> OperatorPage:
    """One operator of ``aten`` that modes see as itself, and that has no derivative."""
    page = define(f"aten::{schema}")
    page.explicit(function)
    return page.describe(says)


# --- several tensors as one ---------------------------------------------------------------


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool, padding_value: float, padding_side: str
) -> Tensor:
    check(len(sequences) > 0, lambda: "received an empty list of sequences")
    check(
        padding_side in ("left", "right"),
        lambda: f"Expected padding_side to be one of left or right, but got {padding_side}.",
    )
    longest = max(s.shape[0] for s in sequences)
    rows = []
    for s in sequences:
        missing = longest - s.shape[0]
        ends = (missing, 0) if padding_side == "left" else (0, missing)
        rows.append(aten.constant_pad_nd(s, [0, 0] * (s.ndim - 1) + list(ends), padding_value))
    stacked: Tensor = aten.stack(rows, 0 if batch_first else 1)
    return stacked


def unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    parts = []
    at = 0
    for t in tensors:
        size = t.numel()
        parts.append(flat.narrow(0, at, size).view(t.shape) if size else aten.empty_like(t))
        at += size
    return parts


_composed(
    "pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., str "
    'padding_side="right") -> Tensor',
    "Sequences [length, ...] as [longest, batch, ...], filled up with a value.",
    pad_sequence,
)
_composed(
    "flatten_dense_tensors(Tensor[] tensors) -> Tensor",
    "The elements of all tensors, one after the other.",
    lambda tensors: aten.cat([t.contiguous().view(-1) for t in tensors]),
)
_composed(
    "unflatten_dense_tensors(Tensor flat, Tensor[] tensors) -> Tensor[]",
    "Parts of a vector in the shapes of the tensors.",
    unflatten_dense_tensors,
)
_explicit(
    "_stack(Tensor[] tensors, int dim=0) -> Tensor",
    "`stack` of tensors of one type.",
    lambda tensors, dim: aten.stack(list(tensors), dim),
)
_composed(
    "_to_cpu(Tensor[] tensors) -> Tensor[]",
    "The tensors on cpu.",
    lambda tensors: [t.cpu() for t in tensors],
)

# --- shapes -------------------------------------------------------------------------------

_explicit(
    "_reshape_copy(Tensor self, SymInt[] size) -> Tensor",
    "The elements in another shape, in memory of their own.",
    lambda self, size: self.reshape(size).clone(),
)
_composed(
    "_reshape_from_tensor(Tensor self, Tensor shape) -> Tensor",
    "The elements in a shape that a tensor of integers says.",
    lambda self, shape: self.reshape([int(n) for n in shape]),
)
_composed(
    "_dim_arange(Tensor like, int dim) -> Tensor",
    "The positions along a dimension: int64.",
    lambda like, dim: aten.arange(like.shape[dim], dtype=int64, device=like.device),
)

_PAD_MODES = ("reflect", "replicate", "circular", "constant")


def pad_enum(self: Tensor, pad: Ints, mode: int, value: float | None) -> Tensor:
    check(0 <= mode < len(_PAD_MODES), lambda: f"unrecognised padding mode {mode}; 0 to 3 are")
    return padded(self, pad, _PAD_MODES[mode], value)


def padded(self: Tensor, pad: Ints, mode: str, value: float | None = None) -> Tensor:
    result: Tensor = aten.pad(self, list(pad), mode, value)
    return result


_composed(
    "_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor",
    "`pad` by a number: 0 reflect, 1 replicate, 2 circular, 3 constant.",
    pad_enum,
)
_composed(
    "_pad_circular(Tensor self, SymInt[] pad) -> Tensor",
    "`pad` that goes round.",
    lambda self, pad: padded(self, pad, "circular"),
)

# --- parts of derivatives -----------------------------------------------------------------


def trace_backward(grad: Tensor, sizes: Ints) -> Tensor:
    check(len(sizes) == 2, lambda: f"expected matrix input; got sizes {list(sizes)}")
    zeros = aten.zeros(sizes, dtype=grad.dtype, device=grad.device)
    result: Tensor = aten.diagonal_scatter(zeros, grad.expand(min(sizes)))
    return result


def embedding_backward(
    grad: Tensor, indices: Tensor, rows: int, padding_idx: int, scale: bool, sparse: bool
) -> Tensor:
    form = aten.embedding_sparse_backward if sparse else aten.embedding_dense_backward
    result: Tensor = form(grad, indices, rows, padding_idx, scale)
    return result


def glu_jvp(glu: Tensor, x: Tensor, dx: Tensor, dim: int) -> Tensor:
    half = x.shape[dim] // 2
    gate = x.narrow(dim, half, half).sigmoid()
    moved = dx.narrow(dim, 0, half) * gate
    return moved + glu * (dx.narrow(dim, half, half) * (1 - gate))


def glu_backward_jvp(
    grad_x: Tensor, grad_glu: Tensor, x: Tensor, dgrad_glu: Tensor, dx: Tensor, dim: int
) -> Tensor:
    half = x.shape[dim] // 2
    gate = x.narrow(dim, half, half).sigmoid()
    gate_moved = dx.narrow(dim, half, half) * gate * (1 - gate)
    factor = grad_glu * x.narrow(dim, 0, half)
    factor_moved = dgrad_glu * x.narrow(dim, 0, half) + grad_glu * dx.narrow(dim, 0, half)
    first = dgrad_glu * gate + grad_glu * gate_moved
    slope = gate * (1 - gate)
    second = factor_moved * slope + factor * (1 - 2 * gate) * gate_moved
    result: Tensor = aten.cat([first, second], dim)
    return result


_composed(
    "trace_backward(Tensor grad, SymInt[] sizes) -> Tensor",
    "The gradient of `trace`.",
    trace_backward,
)
_composed(
    "masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor",
    "The gradient of `masked_select`.",
    lambda grad, input, mask: aten.masked_scatter(
        aten.zeros_like(input.expand(aten.broadcast_tensors([input, mask])[0].shape)), mask, grad
    ),
)
_composed(
    "cummaxmin_backward(Tensor grad, Tensor input, Tensor indices, int dim) -> Tensor",
    "The gradient of `cummax` and `cummin`.",
    lambda grad, input, indices, dim: aten.scatter_add(aten.zeros_like(input), dim, indices, grad),
)
_composed(
    "embedding_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt padding_idx, bool "
    "scale_grad_by_freq, bool sparse) -> Tensor",
    "The gradient of `embedding`.",
    embedding_backward,
)
_composed(
    "infinitely_differentiable_gelu_backward(Tensor grad, Tensor self) -> Tensor",
    "The gradient of `gelu`, as operators that have derivatives of every order.",
    lambda grad, self: (
        grad
        * (
            0.5 * (1 + (self * 0.5**0.5).erf())
            + self * (self.square() * -0.5).exp() * 0.3989422804014327
        )
    ),
)
_explicit(
    "glu_jvp(Tensor glu, Tensor x, Tensor dx, int dim) -> Tensor",
    "The tangent of `glu`.",
    glu_jvp,
)
_explicit(
    "glu_backward_jvp(Tensor grad_x, Tensor grad_glu, Tensor x, Tensor dgrad_glu, Tensor dx, int "
    "dim) -> Tensor",
    "The tangent of `glu`'s gradient.",
    glu_backward_jvp,
)

# --- kernels that others are made of ------------------------------------------------------


def convolution_mode(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: str,
    dilation: Ints,
    groups: int,
) -> Tensor:
    form = getattr(aten, f"conv{weight.ndim - 2}d").padding
    result: Tensor = form(input, weight, bias, stride, padding, dilation, groups)
    return result


_composed(
    "_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, "
    "SymInt[] dilation, SymInt groups) -> Tensor",
    'A convolution with padding "same" or "valid".',
    convolution_mode,
)
_explicit(
    "_slow_conv2d_forward(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? bias, "
    "SymInt[2] stride, SymInt[2] padding) -> Tensor",
    "`conv2d`, undilated.",
    lambda self, weight, kernel, bias, stride, padding: aten.convolution(
        self, weight, bias, stride, padding, [1, 1], False, [0, 0], 1
    ),
)
_explicit(
    "slow_conv3d_forward(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? bias, "
    "SymInt[3] stride, SymInt[3] padding) -> Tensor",
    "`conv3d`, undilated.",
    lambda self, weight, kernel, bias, stride, padding: aten.convolution(
        self, weight, bias, stride, padding, [1, 1, 1], False, [0, 0, 0], 1
    ),
)
_explicit(
    "_slow_conv2d_backward.output_mask(Tensor grad_output, Tensor self, Tensor weight, SymInt[2] "
    "kernel_size, SymInt[2] stride, SymInt[2] padding, bool[3] output_mask) -> (Tensor "
    "grad_input, Tensor grad_weight, Tensor grad_bias)",
    "The gradients of `_slow_conv2d_forward` that the mask asks for.",
    lambda grad, self, weight, kernel, stride, padding, mask: aten.convolution_backward(
        grad, self, weight, [weight.shape[0]], stride, padding, [1, 1], False, [0, 0], 1, mask
    ),
)
_explicit(
    "_logcumsumexp(Tensor self, int dim) -> Tensor",
    "`logcumsumexp`.",
    lambda self, dim: aten.logcumsumexp(self, dim),
)
_explicit(
    "_cholesky_solve_helper(Tensor self, Tensor A, bool upper) -> Tensor",
    "`cholesky_solve` of batches of one shape.",
    lambda self, A, upper: aten.cholesky_solve(self, A, upper),
)
_explicit(
    "_compute_linear_combination(Tensor input, Tensor coefficients) -> Tensor",
    "Sums of the rows of `input` [m, ...], each with a row of `coefficients` [n, m]: [n, ...].",
    lambda input, coefficients: aten.tensordot(coefficients, input, [1], [0]),
)


def cumulative_helper(
    whole: Callable[..., tuple[Tensor, Tensor]],
) -> Callable[[Tensor, Tensor, Tensor, int], None]:
    def helper(self: Tensor, values: Tensor, indices: Tensor, dim: int) -> None:
        found = whole(self, dim)
        values.copy_(found[0])
        indices.copy_(found[1])

    return helper


for _name in ("cummax", "cummin"):
    _explicit(
        f"_{_name}_helper(Tensor self, Tensor(a!) values, Tensor(b!) indices, int dim) -> ()",
        f"`{_name}`, written to tensors of its shape.",
        cumulative_helper(getattr(aten, _name).default),
    ).functional_form(f"{_name} is, by another name")


def rowwise_prune(weight: Tensor, mask: Tensor, kind: dtype) -> tuple[Tensor, Tensor]:
    places = mask.to(int64).cumsum(0) - 1
    return weight[mask], places.masked_fill(mask.logical_not(), -1).to(kind)


def saturated(weight: Tensor) -> Tensor:
    check(weight.dtype in (float32, float64), lambda: f"expected float32, got {weight.dtype}")
    result: Tensor = weight.clamp(-65504.0, 65504.0)
    return result


_composed(
    "_rowwise_prune(Tensor weight, Tensor mask, ScalarType compressed_indices_dtype) -> (Tensor, "
    "Tensor)",
    "The rows that the mask keeps, and where each row went: -1 for those that are gone.",
    rowwise_prune,
)
_composed(
    "_saturate_weight_to_fp16(Tensor weight) -> Tensor",
    f"The elements, brought into the range of {float16}.",
    saturated,
)

# --- assertions that graphs keep ----------------------------------------------------------


def asserted_scalar(self: object, message: str, token: Tensor) -> Tensor:
    aten._assert_scalar(self, message)
    copied: Tensor = token.clone()
    return copied


def asserted_tensor(self: Tensor, message: str, token: Tensor) -> Tensor:
    aten._assert_async.msg(self, message)
    copied: Tensor = token.clone()
    return copied


_explicit(
    "_functional_assert_scalar(Scalar self, str assert_msg, Tensor dep_token) -> Tensor",
    "`_assert_scalar`, whose token says what comes after it.",
    asserted_scalar,
)
_explicit(
    "_functional_assert_async.msg(Tensor self, str assert_msg, Tensor dep_token) -> Tensor",
    "`_assert_async`, whose token says what comes after it.",
    asserted_tensor,
)
_explicit("_print(str s) -> ()", "Print a line.", lambda s: sys.stdout.write(f"{s}\n") and None)

# --- questions ----------------------------------------------------------------------------


def internal_overlap(self: Tensor) -> int:
    pairs = sorted((n, size) for n, size in zip(self.stride(), self.shape, strict=True) if size > 1)
    dense = 1
    for stride, size in pairs:
        if stride == 0:
            return 1
        if stride != dense:
            return 2
        dense *= size
    return 0


_composed("get_device(Tensor self) -> int", "The device's number, -1 for cpu.", Tensor.get_device)
_composed("_is_zerotensor(Tensor self) -> bool", "Whether all is zero and has no memory.",
    lambda self: self._is_zerotensor(),
)  # fmt: skip
_composed(
    "_debug_has_internal_overlap(Tensor self) -> int",
    "0 where no two elements share memory, 1 where a stride of 0 makes them, 2 otherwise.",
    internal_overlap,
)
_explicit(
    "is_pinned(Tensor self, Device? device=None) -> bool",
    "Whether the tensor is in pinned memory.",
    lambda self, device: self.is_pinned(),
)
_explicit(
    "is_set_to(Tensor self, Tensor tensor) -> bool",
    "Whether two tensors are the same elements of one memory.",
    lambda self, tensor: self.is_set_to(tensor),
)
_explicit(
    "_has_same_storage_numel(Tensor self, Tensor other) -> bool",
    "Whether the memory of two tensors holds as many elements.",
    lambda self, other: (
        self._storage.nbytes() // self.itemsize == other._storage.nbytes() // other.itemsize
    ),
)
_composed("data(Tensor self) -> Tensor", "The elements without history.", lambda self: self.data)
for _question, _answer, _says in (
    ("_nnpack_available", False, "Whether convolutions may run by NNPACK."),
    ("is_vulkan_available", False, "Whether there is a Vulkan device."),
    ("_use_cudnn_rnn_flatten_weight", False, "Whether recurrent weights lie in one memory."),
):
    _composed(f"{_question}() -> bool", _says, lambda _answer=_answer: _answer)
_composed(
    "cudnn_is_acceptable(Tensor self) -> bool",
    "Whether cuDNN computes with the tensor.",
    lambda self: False,
)

# --- outputs, by the outputs of others ----------------------------------------------------


def _writing(
    schema: str, function: Callable[..., object], returns: str = "Tensor(a!)", *also: Tag
) -> OperatorPage:
    page = define(f"aten::{schema} -> {returns}", tags=[*also, Tag.out])
    page.composite(function)
    page.op.seldom = True
    return page


_writing(
    "mean.dtype_out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out)",
    lambda self, dtype, out: aten.mean.out(
        self, list(range(self.ndim)), False, dtype=dtype, out=out
    ),
)
_writing(
    "range.out_(Scalar start, Scalar end, *, Tensor(a!) out)",
    lambda start, end, out: aten.range.out(start, end, 1, out=out),
)
_writing(
    "special_logsumexp.out(Tensor self, int[1] dim, bool keepdim=False, *, Tensor(a!) out)",
    lambda self, dim, keepdim, out: aten.logsumexp.out(self, dim, keepdim, out=out),
)
_writing(
    "linalg_matmul.out(Tensor self, Tensor other, *, Tensor(a!) out)",
    lambda self, other, out: aten.matmul.out(self, other, out=out),
)
_writing(
    "adaptive_avg_pool3d_backward.grad_input(Tensor grad_output, Tensor self, *, Tensor(a!) "
    "grad_input)",
    lambda grad, self, out: write_exact_out(out, aten._adaptive_avg_pool3d_backward(grad, self)),
).functional_form("_adaptive_avg_pool3d_backward is, by another name")
_writing(
    "rrelu_with_noise.out(Tensor self, Tensor(b!) noise, Scalar lower=0.125, Scalar "
    "upper=0.33333333333333331, bool training=False, Generator? generator=None, *, Tensor(a!) out)",
    lambda *params: write_exact_out(params[-1], aten.rrelu_with_noise(*params[:-1])),
)
_writing(
    "normal.out(Tensor self, float mean=0., float std=1., *, Generator? generator=None, "
    "Tensor(a!) out)",
    lambda self, mean, std, generator, out: write_exact_out(
        out, aten.normal_functional(self, mean, std, generator=generator)
    ),
    "Tensor(a!)",
    Tag.generated,
    Tag.nondeterministic_seeded,
)
_writing(
    "_batch_norm_with_update.out(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) "
    "running_mean, Tensor(b!) running_var, float momentum, float eps, *, Tensor(d!) out, "
    "Tensor(e!) save_mean, Tensor(f!) save_invstd, Tensor(g!) reserve)",
    lambda *params: tuple(
        map(write_exact_out, params[7:], aten._batch_norm_with_update(*params[:7]))
    ),
    "(Tensor(d!), Tensor(e!), Tensor(f!), Tensor(g!))",
)
_writing(
    "_slow_conv2d_backward.grad_input(Tensor grad_output, Tensor self, Tensor weight, SymInt[2] "
    "kernel_size, SymInt[2] stride, SymInt[2] padding, *, Tensor(a!) grad_input, Tensor(b!) "
    "grad_weight, Tensor(c!) grad_bias)",
    lambda *params: tuple(
        map(write_exact_out, params[6:], aten._slow_conv2d_backward(*params[:6], [True] * 3))
    ),
    "(Tensor(a!), Tensor(b!), Tensor(c!))",
).functional_form("the one that is asks which gradients are wanted")
