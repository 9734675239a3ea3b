"""`lookup`: tokens renamed by a vocabulary, an object that is no tensor (lesson 4)."""

import maquette as mq
from maquette.library import (
    custom_op,
    register_class,
    register_fake_class,
    register_samples,
)

TYPE = "__torch__.torch.classes.sample_ops.Vocabulary"


class Vocabulary:
    """Maps token numbers to others, and counts how often it was asked."""

    def __init__(self, table):
        self.table = dict(table)
        self.asked = 0

    def __repr__(self):
        return f"sample_ops.Vocabulary({self.table})"

    def look_up(self, ids):
        """The new numbers, -1 for those that are not known."""
        self.asked += 1
        found = [self.table.get(i, -1) for i in ids.reshape(-1).tolist()]
        return mq.tensor(found, dtype=mq.int64).reshape(ids.shape)

    def __obj_flatten__(self):
        """What a fake one is made of: sizes would do, here nothing is needed."""
        return (("size", len(self.table)),)


class FakeVocabulary:
    """Stands for a vocabulary where there is no data: it knows the shape of its answer."""

    def __init__(self, size):
        self.size = size

    @classmethod
    def __obj_unflatten__(cls, flattened):
        return cls(dict(flattened)["size"])

    def look_up(self, ids):
        return ids.new_empty(ids.shape, dtype=mq.int64)


register_class("sample_ops::Vocabulary", Vocabulary)
register_fake_class("sample_ops::Vocabulary", FakeVocabulary)


def check(ids):
    """What is refused, by the kernel and by the fake alike."""
    if ids.dtype not in (mq.int64, mq.int32):
        raise RuntimeError(f"lookup: expected whole numbers, got {ids.dtype}")


def lookup_kernel(vocabulary, ids):
    check(ids)
    return vocabulary.look_up(ids)


lookup = custom_op(
    "sample_ops::lookup", lookup_kernel, mutates_args=(),
    schema=f"({TYPE} vocabulary, Tensor ids) -> Tensor",
)  # fmt: skip


@lookup.register_fake
def lookup_fake(vocabulary, ids):
    check(ids)
    return ids.new_empty(ids.shape, dtype=mq.int64)


@lookup.register_vmap
def lookup_vmap(info, in_dims, vocabulary, ids):
    return lookup(vocabulary, ids.movedim(in_dims[1], 0)), 0


register_samples(lookup, lambda: [
    ((Vocabulary({0: 10, 1: 11, 2: 12}), mq.tensor([[0, 2], [5, 1]])), {}),
])  # fmt: skip
