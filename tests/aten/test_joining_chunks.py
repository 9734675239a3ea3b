"""`_chunk_cat` against chunks that are padded and joined one by one."""

from __future__ import annotations

import pytest

import maquette as mq

aten = mq.ops.aten


def by_hand(tensors: list[mq.Tensor], dim: int, num_chunks: int) -> mq.Tensor:
    rows = []
    for t in tensors:
        missing = -t.shape[dim] % num_chunks
        zeros = t.new_zeros((*t.shape[:dim], missing, *t.shape[dim + 1 :]))
        parts = mq.cat([t, zeros], dim).tensor_split(num_chunks, dim)
        rows.append(mq.stack([p.reshape(*p.shape[:dim], -1) for p in parts], dim))
    return mq.cat(rows, -1)


@pytest.mark.parametrize("num_chunks", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "shapes", [[(5,), (3, 2)], [(4, 2, 3), (7,)], [(1,)], [(6, 1), (2, 5), (3,)]]
)
@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_chunks_are_padded_flattened_and_joined(
    lead: tuple[int, ...], shapes: list[tuple[int, ...]], num_chunks: int
) -> None:
    tensors = [mq.arange(1.0, 200.0)[: mq.zeros(*lead, *s).numel()].view(*lead, *s) for s in shapes]
    found = aten._chunk_cat(tensors, len(lead), num_chunks)
    assert mq.equal(found, by_hand(tensors, len(lead), num_chunks))


def test_out_is_resized_and_filled() -> None:
    tensors = [mq.arange(3.0), mq.arange(4.0)]
    out = mq.empty(0)
    assert aten._chunk_cat.out(tensors, 0, 2, out=out) is out
    assert out.tolist() == [[0, 1, 0, 1], [2, 0, 2, 3]]


@pytest.mark.parametrize(
    ("tensors", "dim", "num_chunks", "message"),
    [
        ([], 0, 2, "non-empty input tensor list"),
        ([mq.ones(2)], 0, 0, "positive num_chunks"),
        ([mq.ones(2), mq.ones(2, dtype=mq.float64)], 0, 2, "same dtype"),
        ([mq.ones(0)], 0, 2, "non-empty tensor"),
        ([mq.ones(2), mq.ones(2, 3)], -1, 2, "non-negative dim"),
        ([mq.ones(2, 3), mq.ones(2)], 1, 2, "dim < ndim for all"),
        ([mq.ones(2, 3), mq.ones(3, 3)], 1, 2, "same sizes of 0,...,dim-1"),
    ],
)
def test_tensors_that_do_not_go_together_are_refused(
    tensors: list[mq.Tensor], dim: int, num_chunks: int, message: str
) -> None:
    with pytest.raises(RuntimeError, match=message):
        aten._chunk_cat(tensors, dim, num_chunks)
