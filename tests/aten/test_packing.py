"""Operators that pack padded batches by time, and that pad rows of different lengths."""

import pytest

import maquette as mq
from maquette.torch.autograd.gradcheck import gradcheck

aten = mq.ops.aten
PADDED = mq.arange(24.0).view(2, 4, 3)
OFFSETS = mq.tensor([0, 2, 5])


@pytest.mark.parametrize("batch_first", [True, False])
def test_packing_is_that_of_the_layers(batch_first: bool) -> None:
    lengths = mq.tensor([3, 2])
    given = PADDED if batch_first else PADDED.transpose(0, 1)
    packed = mq.nn.utils.rnn.pack_padded_sequence(given, lengths, batch_first)
    data, counts = aten._pack_padded_sequence(given, lengths, batch_first)
    assert mq.equal(data, packed.data)
    assert counts.tolist() == packed.batch_sizes.tolist() == [2, 2, 1]


def test_rows_of_a_padded_batch_and_back() -> None:
    rows = aten._padded_dense_to_jagged_forward(PADDED, [OFFSETS])
    assert mq.equal(rows, mq.cat([PADDED[0, :2], PADDED[1, :3]]))
    padded = aten._jagged_to_padded_dense_forward(rows, [OFFSETS], [4], -1.0)
    assert mq.equal(padded[0], mq.cat([PADDED[0, :2], mq.full((2, 3), -1.0)]))
    assert mq.equal(padded[1, :3], PADDED[1, :3])


def test_padding_to_fewer_cuts_rows() -> None:
    padded = aten._jagged_to_padded_dense_forward(mq.arange(5.0), [OFFSETS], [2], 0.0)
    assert padded.tolist() == [[0.0, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: aten._pack_padded_sequence(x, mq.tensor([3, 2]), True)[0],
        lambda x: aten._pack_padded_sequence(x, mq.tensor([2, 2, 1, 1]), False)[0],
        lambda x: aten._padded_dense_to_jagged_forward(x, [OFFSETS]),
        lambda x: aten._jagged_to_padded_dense_forward(x.flatten(0, 1)[:5], [OFFSETS], [4], 1.0),
        lambda x: aten._jagged_to_padded_dense_forward(x.flatten(0, 1)[:5], [OFFSETS], [2], 1.0),
    ],
)
def test_gradients(f) -> None:
    assert gradcheck(f, PADDED.double().requires_grad_())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: aten._pack_padded_sequence(PADDED, mq.tensor([1, 2]), True), "decreasing order"),
        (lambda: aten._pack_padded_sequence(PADDED, mq.tensor([3, 0]), True), "greater than 0"),
        (lambda: aten._pack_padded_sequence(PADDED, mq.tensor([7, 2]), True), "at most 4"),
        (lambda: aten._pack_padded_sequence(PADDED, mq.tensor([3]), True), "batch_size=2"),
        (lambda: aten._padded_dense_to_jagged_forward(PADDED, [OFFSETS], 7), "5 is not 7"),
        (
            lambda: aten._padded_dense_to_jagged_forward(PADDED, [mq.tensor([0, 2, 7])]),
            "length 5 when max length specified by padded input is 4",
        ),
        (
            lambda: aten._jagged_to_padded_dense_forward(PADDED, [OFFSETS] * 2, [4, 4]),
            "single jagged dim",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call()
