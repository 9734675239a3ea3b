"""`sharded_embedding`: rows of one part of a table that is too large for one place (lesson 5)."""

import maquette as mq
from maquette.library import Cost, custom_op, register_cost, register_samples, register_sharding


def check(shard, ids, first):
    """What is refused, by the kernel and by the fake alike."""
    if shard.ndim != 2 or not shard.is_floating_point():
        raise RuntimeError(
            f"sharded_embedding: expected [rows, width] of floats, got {shard.shape}"
        )
    if ids.dtype != mq.int64:
        raise RuntimeError(f"sharded_embedding: expected int64 positions, got {ids.dtype}")
    if first < 0:
        raise RuntimeError(f"sharded_embedding: a shard starts at row 0 or later, not at {first}")


def local(shard, ids, first):
    """Whether this shard has each row, and which of its own it is (0 where it has not)."""
    here = (ids >= first) & (ids < first + shard.shape[0])
    return here, mq.where(here, ids - first, 0)


@custom_op("sample_ops::sharded_embedding", mutates_args=())
def sharded_embedding(shard: mq.Tensor, ids: mq.Tensor, first: int) -> mq.Tensor:
    check(shard, ids, first)
    here, rows = local(shard, ids, first)
    if shard.shape[0] == 0:
        return shard.new_zeros((*ids.shape, shard.shape[1]))
    return mq.where(here.unsqueeze(-1), shard[rows], 0).to(shard.dtype).contiguous()


@sharded_embedding.register_fake
def sharded_embedding_fake(shard, ids, first):
    check(shard, ids, first)
    return shard.new_empty((*ids.shape, shard.shape[1]))


def sharded_setup(ctx, inputs, output):
    shard, ids, ctx.first = inputs
    ctx.shape = shard.shape
    ctx.save_for_backward(ids)


def sharded_backward(ctx, grad):
    """Each row gets the gradients of where it was looked up; a row twice, both."""
    (ids,) = ctx.saved_tensors
    made = grad.new_zeros(ctx.shape)
    if 0 in ctx.shape:
        return made, None, None
    here, rows = local(made, ids, ctx.first)
    kept = mq.where(here.unsqueeze(-1), grad, 0).to(grad.dtype)
    return made.index_add(0, rows.reshape(-1), kept.reshape(-1, ctx.shape[1])), None, None


sharded_embedding.register_autograd(sharded_backward, setup_context=sharded_setup)


@sharded_embedding.register_vmap
def sharded_vmap(info, in_dims, shard, ids, first):
    if in_dims[0] is None:  # one table: more ids are only more ids
        return sharded_embedding(shard, ids.movedim(in_dims[1], 0), first), 0
    tables = shard.movedim(in_dims[0], 0)
    each = ids.expand(info.batch_size, *ids.shape) if in_dims[1] is None else ids.movedim(
        in_dims[1], 0)  # fmt: skip
    # Tables one below the other are one table; what is in none of them is before its first row.
    rows = tables.shape[1]
    here, own = local(tables.reshape(-1, tables.shape[2])[:rows], each, first)
    below = mq.arange(info.batch_size).reshape(-1, *[1] * (each.ndim - 1)) * rows
    return sharded_embedding(tables.reshape(-1, tables.shape[2]),
                             mq.where(here, own + below, -1), 0), 0  # fmt: skip


register_cost("sample_ops::sharded_embedding", lambda shard, ids, first, out: Cost(
    bytes_read=ids.numel * ids.itemsize + out.numel * out.itemsize,
    bytes_written=out.numel * out.itemsize,
))  # fmt: skip


@register_sharding("sample_ops::sharded_embedding")
def sharded_sharding(shard, ids, first):
    """Rows spread over devices: every device has all ids, the results are summed."""
    return {"shard": "rows", "ids": "replicated", "result": "sum"}


register_samples(sharded_embedding, lambda: [
    ((mq.randn(4, 3, requires_grad=True), mq.tensor([[4, 9], [7, 4]]), 4), {}),
])  # fmt: skip


def embed(shards, ids):
    """Rows of a table in parts: the sum of what each part knows."""
    starts = [sum(s.shape[0] for s in shards[:i]) for i in range(len(shards))]
    return sum(sharded_embedding(s, ids, n) for s, n in zip(shards, starts))
