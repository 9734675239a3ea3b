"""Recurrent networks as loops of operators: tanh and relu cells, LSTM, GRU, over time and layers.

The operators (`aten::lstm.input` and so on) are definitions by these steps; PyTorch, too,
decomposes them so unless a vendor's library takes all of a network. Where nobody watches them, the
steps of a layer are one operator (`unwatched_steps.py`). The input's products are
taken for all time steps at once, then a step at a time. A packed batch is told by its
`batch_sizes`, how many sequences reach each time step, and laid out one step after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from maquette.aten.common.fresh_writes import zeros_beside
from maquette.aten.common.operators import aten
from maquette.aten.nn.recurrent.lstm_layer import LSTM, takes
from maquette.aten.nn.recurrent.unwatched_steps import recurrent_steps, unwatched
from maquette.autograd.grad_mode import is_grad_enabled
from maquette.core.errors import check
from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey
from maquette.library.page import OperatorPage, define, describe
from maquette.tensor.tensor import Tensor

State = tuple[Tensor, ...]  # (h,) or, for an LSTM, (h, c); each (batch, size)


class Weights(NamedTuple):
    """One layer in one direction: weight_ih (gates * hidden, input), and so on."""

    ih: Tensor
    hh: Tensor
    bias_ih: Tensor | None = None
    bias_hh: Tensor | None = None
    hr: Tensor | None = None  # an LSTM's projection (proj, hidden)


# What computes the input's part of the gates: in a step alone after the state's part, as PyTorch.
Gates = Callable[[], Tensor]
# From the input's part of the gates, the last state and the weights to the new state, whose first
# member is the output.
Cell = Callable[[Gates, State, Weights], State]

_BATCHED = K.functionality_bits(DispatchKey.FuncTorchBatched)

# --- one step: in place, where PyTorch's is ------------------------------------------


def _tanh_step(gates: Gates, state: State, weights: Weights) -> State:
    """h' = tanh(gates + W h)."""
    return (aten.tanh(_summed(state[0], weights, gates)),)


def _relu_step(gates: Gates, state: State, weights: Weights) -> State:
    """h' = relu(gates + W h)."""
    return (aten.relu(_summed(state[0], weights, gates)),)


def _lstm_step(gates: Gates, state: State, weights: Weights) -> State:
    """Hochreiter and Schmidhuber 1997, with a forget gate; gates in the order i, f, g, o."""
    h, c = state
    i, f, g, o = aten.unsafe_chunk(_summed(h, weights, gates), 4, 1)
    i, f, g, o = i.sigmoid_(), f.sigmoid_(), g.tanh_(), o.sigmoid_()
    c = (f * c).add_(i * g)
    h = o * c.tanh()
    return (h if weights.hr is None else aten.linear(h, weights.hr)), c


def _gru_step(gates: Gates, state: State, weights: Weights) -> State:
    """Cho et al. 2014, with the reset gate after the product; gates in the order r, z, n."""
    (h,) = state
    input_r, input_z, input_n = aten.unsafe_chunk(gates(), 3, 1)
    hidden_r, hidden_z, hidden_n = aten.unsafe_chunk(_hidden(h, weights), 3, 1)
    r = _onto(hidden_r, "add", input_r).sigmoid_()
    z = _onto(hidden_z, "add", input_z).sigmoid_()
    n = input_n.add(_onto(hidden_n, "mul", r)).tanh_()
    return ((h - n).mul_(z).add_(n),)


_NAMES: dict[Cell, str] = {
    _gru_step: "gru",
    _lstm_step: "lstm",
    _tanh_step: "tanh",
    _relu_step: "relu",
}


def _known(gates: Tensor) -> Gates:
    return lambda: gates


def _hidden(h: Tensor, weights: Weights) -> Tensor:
    return aten.linear(h, weights.hh, weights.bias_hh)


def _summed(h: Tensor, weights: Weights, gates: Gates) -> Tensor:
    hidden = _hidden(h, weights)
    return _onto(hidden, "add", gates())


def _onto(fresh: Tensor, name: str, other: Tensor) -> Tensor:
    """``fresh`` and another by an operator, in place but in a batch that only one may have."""
    result: Tensor = getattr(fresh, name if other._keys & _BATCHED else name + "_")(other)
    return result


# --- layers --------------------------------------------------------------------------


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
    # Asked once, as autocast gives later layers an input of another dtype than their weights.
    whole = cell is _lstm_step and batch_sizes is None and takes(input, weights[0], state)
    starts = _starts(state, whole)
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            given = input, starts(place), weights[place], direction == 1
            if whole:
                output, last = _by_layer(*given)
            elif batch_sizes is None:
                output, last = _over_time(cell, *given)
            else:
                output, last = _over_packed(cell, *given, batch_sizes)
            outputs.append(output)
            lasts.append(last)
        input = outputs[0] if directions == 1 else aten.cat(outputs, -1)
        if dropout and layer < layers - 1:
            input = aten.dropout(input, dropout, True)
    return input, tuple(aten.stack(members) for members in zip(*lasts, strict=True))


def _starts(state: State, whole: bool) -> Callable[[int], State]:
    """What gives each layer's first state: from all at once, but where layers are operators."""
    if whole:
        return lambda place: tuple([member[place] for member in state])
    each = [member.unbind(0) for member in state]
    return lambda place: tuple([members[place] for members in each])


def _over_time(
    cell: Cell,
    input: Tensor,
    state: State,
    weights: Weights,
    backwards: bool,
) -> tuple[Tensor, State]:
    gates = aten.linear(input, weights.ih, weights.bias_ih)
    if unwatched((gates, weights.hh, weights.bias_hh, weights.hr, *state)):
        sizes = [input.meta.shape[1]] * input.meta.shape[0]
        output, last = _at_once(cell, gates.flatten(0, 1), state, weights, backwards, sizes)
        return output.unflatten(0, gates.meta.shape[:2]), last
    outputs = []
    slices = gates.unbind(0)
    for step_gates in reversed(slices) if backwards else slices:
        state = cell(_known(step_gates), state, weights)
        outputs.append(state[0])
    return aten.stack(outputs[::-1] if backwards else outputs), state


def _by_layer(
    input: Tensor, state: State, weights: Weights, backwards: bool
) -> tuple[Tensor, State]:
    """An LSTM layer as the one operator that PyTorch has for it on cpu."""
    ih, hh, *biases, _ = weights
    given = [zeros_beside(hh, (hh.meta.shape[0],)) if b is None else b for b in biases]
    size, layers = hh.meta.shape[1], 1
    settings = (LSTM, size, layers, biases[0] is not None, False, False, is_grad_enabled())
    output, *last, _ = aten.mkldnn_rnn_layer(
        input, ih, hh, *given, *state, backwards, (), *settings
    )
    return output, tuple(last)


def _at_once(
    cell: Cell,
    gates: Tensor,
    state: State,
    weights: Weights,
    backwards: bool,
    batch_sizes: Sequence[int],
) -> tuple[Tensor, State]:
    """All steps as one operator, where nobody sees more of them than what comes out."""
    start = state[0] if len(state) == 1 else aten.cat(state, 1)
    states, last, _ = recurrent_steps(
        gates,
        *(weights.hh, weights.bias_hh, weights.hr, start),
        *(list(batch_sizes), _NAMES[cell], backwards),
    )
    if len(state) == 1:
        return states, (last,)
    size = state[0].meta.shape[1]
    members = last.narrow(1, 0, size), last.narrow(1, size, last.meta.shape[1] - size)
    return states.narrow(1, 0, size).contiguous(), members


def _over_packed(
    cell: Cell,
    input: Tensor,
    state: State,
    weights: Weights,
    backwards: bool,
    batch_sizes: Sequence[int],
) -> tuple[Tensor, State]:
    gates = aten.linear(input, weights.ih, weights.bias_ih)
    if unwatched((gates, weights.hh, weights.bias_hh, weights.hr, *state)):
        return _at_once(cell, gates, state, weights, backwards, batch_sizes)
    if backwards:
        return _packed_backwards(cell, gates, state, weights, batch_sizes)
    outputs = []
    ended: list[State] = []  # the last states of sequences that are over, the shortest first
    first = 0
    for size in batch_sizes:
        step_gates = gates.narrow(0, first, size)
        first += size
        running = state[0].size(0)
        if size < running:
            ended.append(_narrowed(state, size, running - size))
            state = _narrowed(state, 0, size)
        state = cell(_known(step_gates), state, weights)
        outputs.append(state[0])
    ended.append(state)
    last = tuple(aten.cat(members) for members in zip(*reversed(ended), strict=True))
    return aten.cat(outputs), last


def _narrowed(state: State, first: int, size: int) -> State:
    """The states of some sequences; of an LSTM's two the cell comes first, as PyTorch's does."""
    return tuple([member.narrow(0, first, size) for member in reversed(state)][::-1])


def _packed_backwards(
    cell: Cell,
    gates: Tensor,
    start: State,
    weights: Weights,
    batch_sizes: Sequence[int],
) -> tuple[Tensor, State]:
    """From the last step, which only the longest sequences have; the others join as they start."""
    running = batch_sizes[-1]
    state = _narrowed(start, 0, running)
    outputs = []
    end = sum(batch_sizes)
    for size in reversed(batch_sizes):
        if size > running:
            joining = _narrowed(start, running, size - running)
            state = tuple(
                aten.cat([member, new]) for member, new in zip(state, joining, strict=True)
            )
            running = size
        step_gates = gates.narrow(0, end - size, size)
        end -= size
        state = cell(_known(step_gates), state, weights)
        outputs.append(state[0])
    return aten.cat(outputs[::-1]), state


# --- networks ------------------------------------------------------------------------

Members = Tensor | Sequence[Tensor]
_PARAMETERS = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train"


def _network(name: str, cell: Cell, state: str, results: str) -> None:
    """The operators of one kind of network, for a whole batch and for a packed one."""
    whole = define(
        f"aten::{name}.input(Tensor input, {state} hx, {_PARAMETERS}, bool bidirectional, "
        f"bool batch_first) -> {results}"
    )
    packed = define(
        f"aten::{name}.data(Tensor data, Tensor batch_sizes, {state} hx, {_PARAMETERS}, "
        f"bool bidirectional) -> {results}"
    )

    @whole.composite
    def whole_composite(
        input: Tensor,
        hx: Members,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> State:
        _check_ndim("input", input, 3)
        start = _start(name, hx)
        directions = 2 if bidirectional else 1
        weights = _weights(name, params, has_biases, start, num_layers * directions)
        steps = input.transpose(0, 1) if batch_first else input
        whole_layers = cell is _lstm_step and bool(weights) and takes(steps, weights[0], start)
        if whole_layers:
            steps = steps.contiguous()
        check(
            steps.meta.shape[0] > 0, lambda: "Expected sequence length to be larger than 0 in RNN"
        )
        output, last = recur(
            cell,
            steps,
            start,
            weights,
            directions=directions,
            dropout=dropout if train else 0.0,
        )
        if batch_first:
            # All steps at once have kept their outputs, which they share: no write to these.
            again = whole_layers or output._keys & _BATCHED or output._base is not None
            output = output.transpose(0, 1) if again else output.transpose_(0, 1)
        return (output, *last)

    @packed.composite
    def packed_composite(
        data: Tensor,
        batch_sizes: Tensor,
        hx: Members,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
    ) -> State:
        _check_ndim("data", data, 2)
        start = _start(name, hx)
        directions = 2 if bidirectional else 1
        output, last = recur(
            cell,
            data,
            start,
            _weights(name, params, has_biases, start, num_layers * directions),
            directions=directions,
            dropout=dropout if train else 0.0,
            batch_sizes=batch_sizes.tolist(),
        )
        return (output, *last)


def _check_ndim(what: str, given: Tensor, ndim: int) -> None:
    check(
        given.meta.ndim == ndim,
        lambda: f"expected {what} to have {ndim} dimensions, got {given.meta}",
    )


def _start(name: str, hx: Members) -> State:
    if isinstance(hx, Tensor):
        return (hx,)
    check(len(hx) == 2, lambda: f"{name} expects two hidden states")
    return tuple(hx)


def _weights(
    name: str, params: Sequence[Tensor], has_biases: bool, start: State, count: int
) -> list[Weights]:
    """The parameters by layer and direction; an LSTM projects where its h and c differ in size."""
    for i, member in enumerate(start):
        _check_ndim(f"hidden{i}", member, 3)
    projects = len(start) == 2 and start[0].meta.shape[-1] != start[1].meta.shape[-1]
    each = (4 if has_biases else 2) + projects
    check(
        len(params) == count * each,
        lambda: (
            f"{name}: expected {each} weights for each of {count} layers and directions, "
            f"got {len(params)} in all"
        ),
    )
    # An LSTM ignores states that it has no layers for, as PyTorch's does; the others refuse them.
    lasts = [member.meta.shape[0] for member in start]
    check(
        min(lasts) >= count if len(start) == 2 else lasts == [count],
        lambda: (
            f"{name}: expected a hidden state for each of {count} layers and directions, got "
            f"{[list(member.meta.shape) for member in start]}"
        ),
    )
    listed = []
    for first in range(0, len(params), each):
        ih, hh, *rest = params[first : first + each]
        hr = rest.pop() if projects else None
        bias_ih, bias_hh = rest or (None, None)
        listed.append(Weights(ih, hh, bias_ih, bias_hh, hr))
    return listed


_network("rnn_tanh", _tanh_step, "Tensor", "(Tensor, Tensor)")
describe(
    "rnn_tanh",
    "A recurrent network with `tanh` over a sequence [T, N, in]: the outputs and the last state.",
)
_network("rnn_relu", _relu_step, "Tensor", "(Tensor, Tensor)")
describe(
    "rnn_relu",
    "A recurrent network with `relu` over a sequence [T, N, in]: the outputs and the last state.",
)
_network("gru", _gru_step, "Tensor", "(Tensor, Tensor)")
describe(
    "gru",
    "Gated recurrent units over a sequence [T, N, in]: the outputs [T, N, hidden] and the "
    "last state.",
)
_network("lstm", _lstm_step, "Tensor[]", "(Tensor, Tensor, Tensor)")
describe(
    "lstm",
    "Long short-term memory over a sequence [T, N, in]: the outputs, the last state and the "
    "last cell.",
)

CELLS: dict[str, Cell] = {
    "RNN_TANH": _tanh_step,
    "RNN_RELU": _relu_step,
    "LSTM": _lstm_step,
    "GRU": _gru_step,
}

# --- cells ---------------------------------------------------------------------------


def _cell(name: str, cell: Cell, gates: int, state: str, result: str) -> OperatorPage:
    """The operator of one step, from the input itself, (batch, input)."""
    page = define(
        f"aten::{name}(Tensor input, {state} hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
        f"Tensor? b_hh=None) -> {result}"
    )

    @page.composite
    def cell_composite(
        input: Tensor,
        hx: Members,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None,
        b_hh: Tensor | None,
    ) -> Tensor | State:
        start = _start(name, hx)
        _check_cell(input, start, w_ih, w_hh, gates)
        # Other cells are as fast by their operators, which are fewer or whose state is two.
        if cell is _gru_step and unwatched((input, *start, w_ih, w_hh, b_ih, b_hh)):
            inputs, weights = aten.linear(input, w_ih, b_ih), Weights(w_ih, w_hh, b_ih, b_hh)
            return _at_once(cell, inputs, start, weights, False, input.meta.shape[:1])[0]
        found = cell(lambda: aten.linear(input, w_ih, b_ih), start, Weights(w_ih, w_hh, b_ih, b_hh))
        return found[0] if len(found) == 1 else found

    return page


def _check_cell(input: Tensor, start: State, w_ih: Tensor, w_hh: Tensor, gates: int) -> None:
    hiddens = {f"hidden{i}": member for i, member in enumerate(start)}
    for what, given in {"input": input, **hiddens, "w_ih": w_ih, "w_hh": w_hh}.items():
        _check_ndim(what, given, 2)
    batch, size = input.meta.shape
    check(
        size == w_ih.meta.shape[1],
        lambda: f"input has inconsistent input_size: got {size} expected {w_ih.meta.shape[1]}",
    )
    hidden = w_hh.meta.shape[0] // gates
    for i, member in enumerate(start):
        rows, width = member.meta.shape
        check(
            rows == batch,
            lambda i=i, rows=rows: (
                f"Input batch size {batch} doesn't match hidden{i} batch size {rows}"
            ),
        )
        check(
            width == hidden,
            lambda i=i, width=width: (
                f"hidden{i} has inconsistent hidden_size: got {width}, expected {hidden}"
            ),
        )


rnn_tanh_cell = _cell("rnn_tanh_cell", _tanh_step, 1, "Tensor", "Tensor")
rnn_tanh_cell.describe("One step of a recurrent network with `tanh`: the next state [N, hidden].")
rnn_tanh_cell.autocast(cuda="lower")
rnn_relu_cell = _cell("rnn_relu_cell", _relu_step, 1, "Tensor", "Tensor")
rnn_relu_cell.describe("One step of a recurrent network with `relu`: the next state [N, hidden].")
rnn_relu_cell.autocast(cuda="lower")
gru_cell = _cell("gru_cell", _gru_step, 3, "Tensor", "Tensor")
gru_cell.describe(
    "One step of a gated recurrent unit: [N, in] and the state [N, hidden] give the next state."
)
gru_cell.autocast(cuda="lower")
lstm_cell = _cell("lstm_cell", _lstm_step, 4, "Tensor[]", "(Tensor, Tensor)")
lstm_cell.describe(
    "One step of long short-term memory: the next hidden state and cell, [N, hidden] each."
)
lstm_cell.autocast(cuda="lower")
