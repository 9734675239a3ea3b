"""Recurrent layers as loops of operators: tanh and relu cells, LSTM, GRU, over time and layers.

PyTorch has an operator for each kind of network (`aten::lstm.input` and so on) that it decomposes
into these same steps unless a vendor's library takes all of them. Here the steps are all there is:
the input's products for all time steps at once, then a step at a time. A packed batch is told by
its `batch_sizes`, how many sequences reach each time step, and laid out one step after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from maquette.aten import functions as mq
from maquette.tensor import Tensor

State = tuple[Tensor, ...]  # (h,) or, for an LSTM, (h, c); each (batch, size)


class Weights(NamedTuple):
    """One layer in one direction: weight_ih (gates * hidden, input), and so on."""

    ih: Tensor
    hh: Tensor
    bias_ih: Tensor | None = None
    bias_hh: Tensor | None = None
    hr: Tensor | None = None  # an LSTM's projection (proj, hidden)


# From the input's part of the gates, the last state and the weights to the new state, whose first
# member is the output.
Cell = Callable[[Tensor, State, Weights], State]


def rnn_tanh_cell(gates: Tensor, state: State, weights: Weights) -> State:
    """h' = tanh(gates + W h)."""
    return (mq.tanh(_hidden(state[0], weights) + gates),)


def rnn_relu_cell(gates: Tensor, state: State, weights: Weights) -> State:
    """h' = relu(gates + W h)."""
    return (mq.relu(_hidden(state[0], weights) + gates),)


def lstm_cell(gates: Tensor, state: State, weights: Weights) -> State:
    """Hochreiter and Schmidhuber 1997, with a forget gate; gates in the order i, f, g, o."""
    h, c = state
    i, f, g, o = (_hidden(h, weights) + gates).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return (h if weights.hr is None else mq.linear(h, weights.hr)), c


def gru_cell(gates: Tensor, state: State, weights: Weights) -> State:
    """Cho et al. 2014, with the reset gate after the product; gates in the order r, z, n."""
    (h,) = state
    input_r, input_z, input_n = gates.chunk(3, -1)
    hidden_r, hidden_z, hidden_n = _hidden(h, weights).chunk(3, -1)
    r = (hidden_r + input_r).sigmoid()
    z = (hidden_z + input_z).sigmoid()
    n = (input_n + r * hidden_n).tanh()
    return ((h - n) * z + n,)


CELLS: dict[str, Cell] = {
    "RNN_TANH": rnn_tanh_cell,
    "RNN_RELU": rnn_relu_cell,
    "LSTM": lstm_cell,
    "GRU": gru_cell,
}


def _hidden(h: Tensor, weights: Weights) -> Tensor:
    return mq.linear(h, weights.hh, weights.bias_hh)


def step(cell: Cell, input: Tensor, state: State, weights: Weights) -> State:
    """One step from the input itself, (batch, input)."""
    return cell(mq.linear(input, weights.ih, weights.bias_ih), state, weights)


def recur(
    cell: Cell,
    input: Tensor,
    state: State,
    weights: Sequence[Weights],
    *,
    directions: int = 1,
    dropout: float = 0.0,
    batch_sizes: Sequence[int] | None = None,
) -> tuple[Tensor, State]:
    """All layers over all steps: the last layer's outputs and every layer's last state.

    input: (time, batch, size) or, with `batch_sizes`, (sum of them, size). state: members (layers *
    directions, batch, size). weights: layer by layer, in each the forward direction first. dropout:
    its probability on the outputs of all layers but the last; zero when not training.
    """
    lasts: list[State] = []
    layers = len(weights) // directions
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            start = tuple(member[place] for member in state)
            run = _over_time if batch_sizes is None else _over_packed
            output, last = run(
                cell, input, start, weights[place], direction == 1, batch_sizes or ()
            )
            outputs.append(output)
            lasts.append(last)
        input = outputs[0] if directions == 1 else mq.cat(outputs, -1)
        if dropout and layer < layers - 1:
            input = mq.dropout(input, dropout, True)
    return input, tuple(mq.stack(members) for members in zip(*lasts))


def _over_time(
    cell: Cell,
    input: Tensor,
    state: State,
    weights: Weights,
    backwards: bool,
    batch_sizes: Sequence[int],
) -> tuple[Tensor, State]:
    gates = mq.linear(input, weights.ih, weights.bias_ih).unbind(0)
    outputs = []
    for step_gates in reversed(gates) if backwards else gates:
        state = cell(step_gates, state, weights)
        outputs.append(state[0])
    return mq.stack(outputs[::-1] if backwards else outputs), state


def _over_packed(
    cell: Cell,
    input: Tensor,
    state: State,
    weights: Weights,
    backwards: bool,
    batch_sizes: Sequence[int],
) -> tuple[Tensor, State]:
    gates = mq.linear(input, weights.ih, weights.bias_ih).split(list(batch_sizes))
    if backwards:
        return _packed_backwards(cell, gates, state, weights, batch_sizes)
    outputs = []
    ended: list[State] = []  # the last states of sequences that are over, the shortest first
    for step_gates, size in zip(gates, batch_sizes):
        running = state[0].size(0)
        if size < running:
            ended.append(tuple(member[size:] for member in state))
            state = tuple(member[:size] for member in state)
        state = cell(step_gates, state, weights)
        outputs.append(state[0])
    ended.append(state)
    last = tuple(mq.cat(members) for members in zip(*reversed(ended)))
    return mq.cat(outputs), last


def _packed_backwards(
    cell: Cell,
    gates: Sequence[Tensor],
    start: State,
    weights: Weights,
    batch_sizes: Sequence[int],
) -> tuple[Tensor, State]:
    """From the last step, which only the longest sequences have; the others join as they start."""
    running = batch_sizes[-1]
    state = tuple(member[:running] for member in start)
    outputs = []
    for step_gates, size in zip(reversed(gates), reversed(batch_sizes)):
        if size > running:
            joining = (member[running:size] for member in start)
            state = tuple(mq.cat([member, new]) for member, new in zip(state, joining))
            running = size
        state = cell(step_gates, state, weights)
        outputs.append(state[0])
    return mq.cat(outputs[::-1]), state
