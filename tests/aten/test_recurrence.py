"""The recurrent operators: networks are loops of their cells, in whatever arrangement."""

from __future__ import annotations

import pytest

import maquette as mq
from maquette import nn
from maquette.dispatch.modes import TorchDispatchMode

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


class Recording(TorchDispatchMode):
    """Notes the operators that it sees, without those of derivatives' own views."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.name().removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


def trained(kind, *, packed, bidirectional, biases=True, batch_first=False):
    """Outputs, first and second derivatives of a network of two layers."""
    mq.manual_seed(0)
    options = {"bias": biases, "bidirectional": bidirectional, "batch_first": batch_first}
    kind, _, projected = kind.partition(" ")
    options |= {"proj_size": 2} if projected else {}
    model = getattr(nn, kind)(3, 4, 2, dtype=mq.float64, **options)
    x = mq.randn(5, 3, 3, dtype=mq.float64, requires_grad=True)
    given = nn.utils.rnn.pack_padded_sequence(x, mq.tensor([5, 5, 2])) if packed else x
    output, last = model(given)
    output = output.data if packed else output
    last = mq.cat(last, 2) if isinstance(last, tuple) else last
    leaves = [x, *model.parameters()]
    loss = (output * output).sum() + (last * last * last).sum()
    first = mq.autograd.grad(loss, leaves, create_graph=True)
    plain = mq.autograd.grad((output * output).sum() + last.sum(), leaves, retain_graph=True)
    second = mq.autograd.grad(sum((g * g).sum() for g in first), leaves)
    return [output, last, *plain, *first, *second]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["GRU", "RNN", "LSTM", "LSTM projected"])
def test_what_nobody_watches_gives_the_results_of_the_steps(kind, packed, bidirectional):
    found = trained(kind, packed=packed, bidirectional=bidirectional)
    with Recording() as mode:
        expected = trained(kind, packed=packed, bidirectional=bidirectional)
    assert not any("recurrent_steps" in name for name in mode.seen)
    for one, other in zip(found, expected, strict=True):
        assert mq.allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["GRU", "RNN", "LSTM"])
def test_without_biases_the_batch_first_it_is_the_loop_where_nobody_watches(kind):
    options = {"packed": False, "bidirectional": False, "biases": False, "batch_first": True}
    found = trained(kind, **options)
    with Recording():
        expected = trained(kind, **options)
    assert all(map(mq.allclose, found, expected))


STEPS_SEEN = {
    "GRU": "unsafe_split.Tensor t addmm unsafe_split.Tensor add_.Tensor sigmoid_ add_.Tensor "
    "sigmoid_ mul_.Tensor add.Tensor tanh_ sub.Tensor mul_.Tensor add_.Tensor",
    "RNN": "t addmm add_.Tensor tanh",
}


@pytest.mark.parametrize("kind", STEPS_SEEN)
def test_a_mode_sees_the_operators_that_pytorch_runs(kind):
    model, x = getattr(nn, kind)(3, 4), mq.randn(2, 5, 3)
    with Recording() as mode, mq.no_grad():
        model(x)
    step = STEPS_SEEN[kind].split()
    before = "zeros unbind.int view t addmm view unbind.int".split()
    assert mode.seen == [*before, *step, *step, "stack", "stack"]


@pytest.mark.filterwarnings("ignore:.*overridden")
def test_a_kernel_that_a_library_registers_runs_in_the_steps():
    calls = []

    def tanh(x):
        calls.append(x)
        return x.new_zeros(x.shape)

    with mq.library._scoped_library("aten", "IMPL") as library:
        library.impl("tanh", tanh, "CPU")
        nn.RNN(3, 4)(mq.randn(5, 2, 3))
    assert len(calls) == 5


def test_hooks_of_saved_tensors_see_those_of_the_steps():
    model, x, packs = nn.GRU(3, 4), mq.randn(5, 2, 3), []
    with mq.autograd.graph.saved_tensors_hooks(lambda t: packs.append(t) or t, lambda t: t):
        model(x)
    assert len(packs) > 5 * 8


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_the_gradient_of_an_empty_batch_is_empty(kind):
    model, x = kind(3, 4), mq.ones(5, 0, 3, requires_grad=True)
    model(x)[0].sum().backward()
    assert x.grad.shape == x.shape
    assert mq.equal(model.weight_ih_l0.grad, mq.zeros_like(model.weight_ih_l0))
