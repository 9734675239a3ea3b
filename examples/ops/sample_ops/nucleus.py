"""`nucleus`: the likeliest tokens that together have probability p (lesson 2)."""

import numpy as np

import maquette as mq
from maquette.library import custom_op, get_ctx, register_samples


def check(logits, p):
    """What is refused, by the kernel and by the fake alike."""
    if logits.ndim != 1 or logits.dtype not in (mq.float32, mq.float64):
        raise RuntimeError(f"nucleus: expected a row of floats, got {logits.dtype} {logits.shape}")
    if not 0 < p <= 1:
        raise RuntimeError(f"nucleus: expected 0 < p <= 1, got {p}")
    if logits.shape[0] == 0:
        raise RuntimeError("nucleus: expected one token at least")


@custom_op("sample_ops::nucleus", mutates_args=(), device_types="cpu")
def nucleus(logits: mq.Tensor, p: float) -> tuple[mq.Tensor, mq.Tensor]:
    check(logits, p)
    values = logits.numpy()
    if not np.isfinite(values).all():
        raise RuntimeError("nucleus: expected finite logits")
    order = np.argsort(-values, kind="stable")
    probabilities = np.exp(values[order] - values[order[0]])
    probabilities /= probabilities.sum()
    kept = int(np.searchsorted(np.cumsum(probabilities, dtype=np.float64), p - 1e-9)) + 1
    chosen = probabilities[:kept] / probabilities[:kept].sum()
    return mq.from_numpy(order[:kept].copy()), mq.from_numpy(chosen)


@nucleus.register_fake
def nucleus_fake(logits, p):
    check(logits, p)
    kept = get_ctx().new_dynamic_size(min=1)
    return logits.new_empty(kept, dtype=mq.int64), logits.new_empty(kept)


def nucleus_setup(ctx, inputs, output):
    ctx.save_for_backward(*output)
    ctx.size = inputs[0].shape[0]
    ctx.mark_non_differentiable(output[0])


def nucleus_backward(ctx, grad_ids, grad):
    """A softmax over the kept tokens; which are kept does not change by a little."""
    ids, probabilities = ctx.saved_tensors
    kept = probabilities * (grad - (probabilities * grad).sum())
    return kept.new_zeros(ctx.size).index_add(0, ids, kept), None


nucleus.register_autograd(nucleus_backward, setup_context=nucleus_setup)
register_samples(nucleus, lambda: [((mq.randn(9, requires_grad=True), 0.8), {})])


def sample(logits, p=0.9):
    """Draw one token of the nucleus: what a decoder calls."""
    ids, probabilities = nucleus(logits, p)
    return ids[mq.multinomial(probabilities, 1)]
