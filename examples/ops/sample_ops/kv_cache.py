"""`kv_append`: keys and values written into a cache, in place (lesson 3)."""

import maquette as mq
from maquette.library import custom_op, register_samples


def check(cache, new, position):
    """What is refused, by the kernel and by the fake alike."""
    if cache.ndim != 4 or new.ndim != 4 or cache.dtype != new.dtype:
        raise RuntimeError(f"kv_append: expected [batch, heads, length, width] twice, got "
                           f"{cache.dtype} {cache.shape} and {new.dtype} {new.shape}")  # fmt: skip
    if cache.shape[:2] != new.shape[:2] or cache.shape[3] != new.shape[3]:
        raise RuntimeError(f"kv_append: {new.shape} does not fit a cache of {cache.shape}")
    if position < 0 or position + new.shape[2] > cache.shape[2]:
        raise RuntimeError(f"kv_append: positions {position} to {position + new.shape[2]} are not "
                           f"in a cache of length {cache.shape[2]}")  # fmt: skip


@custom_op("sample_ops::kv_append", mutates_args={"keys", "values"})
def kv_append(
    keys: mq.Tensor, values: mq.Tensor, k: mq.Tensor, v: mq.Tensor, position: int
) -> None:
    check(keys, k, position)
    check(values, v, position)
    keys.narrow(2, position, k.shape[2]).copy_(k)
    values.narrow(2, position, v.shape[2]).copy_(v)


@kv_append.register_fake
def kv_append_fake(keys, values, k, v, position):
    check(keys, k, position)
    check(values, v, position)


@kv_append.register_vmap
def kv_append_vmap(info, in_dims, keys, values, k, v, position):
    """A cache for each example is one of a larger batch: its rows are written by one call each."""
    tensors = list(zip((keys, values, k, v), in_dims))
    for i in range(info.batch_size):
        kv_append(*[t if d is None else t.select(d, i) for t, d in tensors], position)
    return None, None


register_samples(kv_append, lambda: [
    ((mq.zeros(2, 3, 8, 4), mq.zeros(2, 3, 8, 4), mq.randn(2, 3, 2, 4), mq.randn(2, 3, 2, 4), 5),
     {}),
])  # fmt: skip
