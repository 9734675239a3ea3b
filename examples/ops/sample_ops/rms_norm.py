"""`rms_norm`: a kernel in C, or in NumPy where it was not compiled (lesson 1)."""

import numpy as np

import maquette as mq
from maquette.library import Cost, custom_op, register_cost, register_samples

try:
    from sample_ops import _rms_norm as compiled
except ImportError:  # installed where there is no compiler
    compiled = None


def rows_in_numpy(x, weight, out, rstd, eps):
    """What the C kernel does, of arrays [rows, width], [width], [rows, width], [rows]."""
    wide = x.astype(np.float64)
    scale = 1 / np.sqrt(np.mean(wide * wide, axis=-1) + eps)
    rstd[:] = scale
    out[:] = wide * scale[:, None] * weight


def check(input, weight):
    """What is refused, by the kernel and by the fake alike."""
    if input.ndim == 0 or weight.ndim != 1 or input.shape[-1] != weight.shape[0]:
        raise RuntimeError(f"rms_norm: expected a weight of the last size of {input.shape}, "
                           f"got {weight.shape}")  # fmt: skip
    if input.dtype != weight.dtype or input.dtype not in (mq.float32, mq.float64):
        raise RuntimeError(f"rms_norm: expected float32 or float64 twice, got {input.dtype} and "
                           f"{weight.dtype}")  # fmt: skip
    if weight.shape[0] == 0:
        raise RuntimeError("rms_norm: a row of no elements has no mean")


@custom_op("sample_ops::rms_norm", mutates_args=(), device_types="cpu")
def rms_norm(input: mq.Tensor, weight: mq.Tensor, eps: float) -> tuple[mq.Tensor, mq.Tensor]:
    check(input, weight)
    x = np.ascontiguousarray(input.numpy())
    out = np.empty_like(x)
    rstd = np.empty(x.shape[:-1], x.dtype)
    if compiled is not None and x.size:
        compiled.rms_norm(x, np.ascontiguousarray(weight.numpy()), out, rstd, eps)
    else:
        width = weight.shape[0]
        rows_in_numpy(x.reshape(-1, width), weight.numpy(), out.reshape(-1, width),
                      rstd.reshape(-1), eps)  # fmt: skip
    return mq.from_numpy(out), mq.from_numpy(rstd).unsqueeze(-1)


@rms_norm.register_fake
def rms_norm_fake(input, weight, eps):
    check(input, weight)
    return input.new_empty(input.shape), input.new_empty((*input.shape[:-1], 1))


def rms_norm_setup(ctx, inputs, output):
    input, weight, ctx.eps = inputs
    ctx.save_for_backward(input, weight)
    ctx.mark_non_differentiable(output[1])


def rms_norm_backward(ctx, grad, grad_rstd):
    """By operators, so that it can be differentiated again.

    The forward's rstd would do for this gradient, but not for the next: as a saved result it would
    be a constant there, and the second derivative silently wrong.
    """
    input, weight = ctx.saved_tensors
    rstd = ((input * input).mean(-1, keepdim=True) + ctx.eps).rsqrt()
    normal = input * rstd
    to_normal = grad * weight
    shared = (to_normal * normal).mean(-1, keepdim=True)
    to_input = (to_normal - normal * shared) * rstd
    to_weight = (grad * normal).reshape(-1, weight.shape[0]).sum(0)
    return to_input, to_weight, None


rms_norm.register_autograd(rms_norm_backward, setup_context=rms_norm_setup)


@rms_norm.register_vmap
def rms_norm_vmap(info, in_dims, input, weight, eps):
    x = input if in_dims[0] is None else input.movedim(in_dims[0], 0)
    if in_dims[1] is None:  # one weight for all: rows are rows
        return rms_norm(x, weight, eps), (0, 0)
    weights = weight.movedim(in_dims[1], 0)
    if in_dims[0] is None:
        x = x.expand(info.batch_size, *x.shape)
    out, rstd = rms_norm(x, mq.ones_like(weights[0]) if info.batch_size else weight.new_ones(
        weights.shape[1]), eps)  # fmt: skip
    shape = [info.batch_size, *[1] * (x.ndim - 2), weights.shape[1]]
    return (out * weights.reshape(shape), rstd), (0, 0)


@register_cost("sample_ops::rms_norm")
def rms_norm_cost(input, weight, eps, out, rstd):
    return Cost(flops=4 * input.numel)  # bytes: every operand once, as fused kernels move them


register_samples(rms_norm, lambda: [
    ((mq.randn(2, 8, requires_grad=True), mq.rand(8, requires_grad=True), 1e-5), {}),
])  # fmt: skip
