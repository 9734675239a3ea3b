"""The recurrent operators: networks are loops of their cells, in whatever arrangement."""

from __future__ import annotations

import pytest

import maquette as mq
from maquette import nn

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "gru": 3, "lstm": 4}
SIZE, HIDDEN = 3, 4


def weights(kind: str, *, biases: bool = True) -> list[mq.Tensor]:
    rows = GATES[kind] * HIDDEN
    shapes = [(rows, SIZE), (rows, HIDDEN), *([(rows,), (rows,)] if biases else [])]
    return [mq.randn(shape, dtype=mq.float64) for shape in shapes]


def state(kind: str, *shape: int) -> list[mq.Tensor] | mq.Tensor:
    members = [mq.randn(*shape, HIDDEN, dtype=mq.float64) for _ in range(2)]
    return members if kind == "lstm" else members[0]


def network(kind, x, hx, params, *, bidirectional=False, batch_first=False):
    biases, layers = len(params) % 4 == 0, 1
    return getattr(mq, kind)(x, hx, params, biases, layers, 0.0, False, bidirectional, batch_first)


def members(kind, found):
    return found if kind == "lstm" else (found,)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("kind", GATES)
def test_a_network_is_a_loop_of_its_cell(kind, biases):
    params, x = weights(kind, biases=biases), mq.randn(5, 2, SIZE, dtype=mq.float64)
    hx = state(kind, 1, 2)
    output, *last = network(kind, x, hx, params)
    now = [h[0] for h in hx] if kind == "lstm" else hx[0]
    for step, expected in zip(x, output, strict=True):
        now = getattr(mq, f"{kind}_cell")(step, now, *params)
        assert mq.allclose(members(kind, now)[0], expected)
    for given, expected in zip(last, members(kind, now), strict=True):
        assert mq.allclose(given[0], expected)


@pytest.mark.parametrize("kind", GATES)
def test_the_second_direction_is_the_first_of_the_reversed_input(kind):
    forth, back = weights(kind), weights(kind)
    x = mq.randn(5, 2, SIZE, dtype=mq.float64)
    hx = state(kind, 2, 2)
    output, *_ = network(kind, x, hx, forth + back, bidirectional=True)
    start = [h[1:] for h in hx] if kind == "lstm" else hx[1:]
    alone, *_ = network(kind, x.flip(0), start, back)
    assert mq.allclose(output[..., HIDDEN:], alone.flip(0))


@pytest.mark.parametrize("kind", GATES)
def test_a_packed_batch_of_equal_lengths_is_the_batch(kind):
    params, x, hx = weights(kind), mq.randn(5, 2, SIZE, dtype=mq.float64), state(kind, 1, 2)
    whole = network(kind, x, hx, params)
    sizes = mq.tensor([2] * 5)
    packed = getattr(mq, kind)(x.flatten(0, 1), sizes, hx, params, True, 1, 0.0, False, False)
    assert mq.allclose(packed[0].view(5, 2, HIDDEN), whole[0])
    assert all(mq.allclose(a, b) for a, b in zip(packed[1:], whole[1:], strict=True))


def test_batch_first_turns_input_and_output():
    params, x, hx = weights("gru"), mq.randn(2, 5, SIZE, dtype=mq.float64), state("gru", 1, 2)
    turned, _ = network("gru", x, hx, params, batch_first=True)
    plain, _ = network("gru", x.transpose(0, 1), hx, params)
    assert mq.equal(turned.transpose(0, 1), plain)


def test_an_lstm_projects_where_its_states_differ_in_size():
    shapes = [(4 * HIDDEN, SIZE), (4 * HIDDEN, 2), (2, HIDDEN)]
    params = [mq.randn(shape) for shape in shapes]
    hx = [mq.zeros(1, 2, 2), mq.zeros(1, 2, HIDDEN)]
    output, h, c = network("lstm", mq.randn(5, 2, SIZE), hx, params[:2] + params[2:])
    assert (output.shape, h.shape, c.shape) == ((5, 2, 2), (1, 2, 2), (1, 2, HIDDEN))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_the_layers_are_the_operators(kind):
    layer = getattr(nn, kind)(SIZE, HIDDEN, num_layers=2, bidirectional=True)
    x = mq.randn(5, 2, SIZE)
    zeros = mq.zeros(4, 2, HIDDEN)
    hx = [zeros, zeros] if kind == "LSTM" else zeros
    operator = getattr(mq, kind.lower())
    output, *_ = operator(x, hx, layer._flat_weights, True, 2, 0.0, True, True, False)
    assert mq.equal(layer(x)[0], output)


def test_gradients_reach_every_weight():
    params = [w.requires_grad_() for w in weights("lstm")]
    x = mq.randn(5, 2, SIZE, dtype=mq.float64)
    output, *_ = network("lstm", x, state("lstm", 1, 2), params)
    grads = mq.autograd.grad(output.square().sum(), params)
    assert all(bool(g.abs().sum() > 0) for g in grads)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda x, h, w: mq.lstm(x, [h], w, True, 1, 0.0, False, False, False), "two hidden"),
        (lambda x, h, w: mq.gru(x, h, w[:3], True, 1, 0.0, False, False, False), "4 weights"),
        (lambda x, h, w: mq.gru(x, h[:0], w, True, 1, 0.0, False, False, False), "hidden state"),
        (lambda x, h, w: mq.gru(x[:0], h, w, True, 1, 0.0, False, False, False), "larger than 0"),
        (lambda x, h, w: mq.gru_cell(x[0, :, :2], h[0], *w), "input_size: got 2 expected 3"),
        (lambda x, h, w: mq.gru_cell(x[0, :1], h[0], *w), "batch size 1 doesn't match"),
        (lambda x, h, w: mq.gru_cell(x[0], h[0, :, :2], *w), "hidden_size: got 2, expected 4"),
    ],
)
@pytest.mark.parametrize("fake", [False, True])
def test_ill_formed_calls_are_refused_in_fake_mode_too(call, words, fake):
    x, h, w = mq.randn(5, 2, SIZE), mq.zeros(1, 2, HIDDEN), [t.float() for t in weights("gru")]
    if fake:
        mode = mq.FakeTensorMode()
        x, h, *w = (mode.from_tensor(t) for t in (x, h, *w))
    with pytest.raises(RuntimeError, match=words):
        call(x, h, w)
