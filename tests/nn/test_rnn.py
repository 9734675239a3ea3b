"""Recurrent layers: each against its cell in a loop, packed batches against single sequences."""

import pytest

import maquette as mq
from maquette import nn
from maquette.amp.autocast_mode import autocast
from maquette.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)

LAYERS = [(nn.RNN, nn.RNNCell), (nn.LSTM, nn.LSTMCell), (nn.GRU, nn.GRUCell)]


def values(*shape, step=0.37):
    """Deterministic numbers around zero."""
    count = 1
    for size in shape:
        count *= size
    return mq.sin(mq.arange(count, dtype=mq.float64) * step).reshape(shape)


def filled(module):
    """A module in float64 whose parameters are all different and always the same."""
    module.double()
    with mq.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(values(*p.shape, step=0.11 + 0.07 * i) / 2)
    return module


def cell_of(layer, cell_class, suffix="_l0"):
    """A cell with the weights of one direction of one layer."""
    size = getattr(layer, f"weight_ih{suffix}").shape[1]
    cell = cell_class(size, layer.hidden_size).double()
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(cell, name).data = getattr(layer, f"{name}{suffix}").data
    return cell


def looped(cell, steps):
    """The cell's outputs over steps (time, batch, size)."""
    state, outputs = None, []
    for step in steps:
        state = cell(step, state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    return mq.stack(outputs)


def hidden(state):
    """h of a state."""
    return state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize("layer_class, cell_class", LAYERS)
def test_a_layer_is_its_cell_in_a_loop(layer_class, cell_class):
    layer, x = filled(layer_class(3, 4)), values(5, 2, 3)
    out, state = layer(x)
    assert mq.allclose(out, looped(cell_of(layer, cell_class), x))
    assert mq.equal(hidden(state)[0], out[-1])


@pytest.mark.parametrize("layer_class, cell_class", LAYERS)
def test_the_second_direction_reads_backwards(layer_class, cell_class):
    layer, x = filled(layer_class(3, 4, bidirectional=True)), values(5, 2, 3)
    out, state = layer(x)
    backwards = looped(cell_of(layer, cell_class, "_l0_reverse"), x.flip(0)).flip(0)
    assert mq.allclose(out[..., 4:], backwards)
    assert mq.equal(hidden(state)[1], out[0, :, 4:])


@pytest.mark.parametrize("layer_class, cell_class", LAYERS)
def test_a_second_layer_reads_the_outputs_of_the_first(layer_class, cell_class):
    layer, x = filled(layer_class(3, 4, num_layers=2)), values(5, 2, 3)
    first = looped(cell_of(layer, cell_class), x)
    assert mq.allclose(layer(x)[0], looped(cell_of(layer, cell_class, "_l1"), first))


def test_relu_is_the_other_nonlinearity():
    layer = filled(nn.RNN(3, 4, nonlinearity="relu"))
    cell = filled(nn.RNNCell(3, 4, nonlinearity="relu"))
    assert (layer(values(5, 2, 3))[0] >= 0).all()
    assert mq.allclose(layer(values(1, 2, 3))[0][0], cell(values(2, 3)))
    with pytest.raises(ValueError, match="sigmoid"):
        nn.RNN(3, 4, nonlinearity="sigmoid")


@pytest.mark.parametrize("layer_class, _", LAYERS)
def test_batch_first_and_no_batch_are_other_arrangements(layer_class, _):
    layer, x = filled(layer_class(3, 4)), values(5, 2, 3)
    out, _ = layer(x)
    layer.batch_first = True
    assert mq.equal(layer(x.transpose(0, 1))[0].transpose(0, 1), out)
    single, state = layer(x[:, 1])
    assert mq.allclose(single, out[:, 1])
    assert hidden(state).shape == (1, 4)


def test_a_projection_makes_the_outputs_smaller():
    layer = filled(nn.LSTM(3, 4, num_layers=2, proj_size=2))
    out, (h, c) = layer(values(5, 2, 3))
    assert (out.shape, h.shape, c.shape) == ((5, 2, 2), (2, 2, 2), (2, 2, 4))
    assert layer.weight_hr_l0.shape == (2, 4)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layer_class, _", LAYERS)
def test_packed_sequences_are_each_what_they_are_alone(layer_class, _, bidirectional):
    layer = filled(layer_class(3, 4, num_layers=2, bidirectional=bidirectional))
    sequences = [values(n, 3, step=0.2 + n) for n in (2, 5, 3)]
    out, state = layer(pack_sequence(sequences, enforce_sorted=False))
    for i, (got, sequence) in enumerate(zip(unpack_sequence(out), sequences)):
        alone, last = layer(sequence)
        assert mq.allclose(got, alone)
        assert mq.allclose(hidden(state)[:, i], hidden(last))


def test_padding_and_packing_are_undone():
    sequences = [values(n, 3) for n in (5, 3, 1)]
    padded = pad_sequence(sequences, batch_first=True)
    packed = pack_padded_sequence(padded, [5, 3, 1], batch_first=True)
    back, lengths = pad_packed_sequence(packed, batch_first=True)
    assert packed.batch_sizes.tolist() == [3, 2, 2, 1, 1]
    assert mq.equal(back, padded)
    assert lengths.tolist() == [5, 3, 1]
    longer, _ = pad_packed_sequence(packed, total_length=7, padding_value=-1.0)
    assert (longer[5:] == -1).all()


@pytest.mark.parametrize("lengths", [[3, 5], [5, 0], [5], [6, 1]])
def test_lengths_that_do_not_fit_are_refused(lengths):
    with pytest.raises(RuntimeError, match="ength"):
        pack_padded_sequence(values(5, 2, 3), lengths)


def test_packed_sequences_move_and_cast():
    packed = pack_sequence([values(2, 3), values(1, 3)])
    assert packed.float().data.dtype == mq.float32
    assert packed.double() is packed
    assert isinstance(packed.half(), PackedSequence)
    assert packed.half().sizes() == [2, 1]


def test_packed_lengths_that_are_numbers_need_no_data():
    with mq.FakeTensorMode():
        packed = pack_padded_sequence(mq.empty(5, 2, 3), [5, 2])
        out, _ = nn.LSTM(3, 4)(packed)
        padded, _ = pad_packed_sequence(out)
    assert padded.shape == (5, 2, 4)


@pytest.mark.parametrize("layer_class, _", LAYERS)
def test_gradients_reach_every_weight(layer_class, _):
    layer = filled(layer_class(3, 4, num_layers=2, bidirectional=True))
    out, _ = layer(values(5, 2, 3))
    out.square().sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in layer.parameters())


def test_wrong_sizes_are_refused():
    layer = nn.LSTM(3, 4)
    with pytest.raises(RuntimeError, match="Expected 3, got 2"):
        layer(mq.ones(5, 2, 2))
    with pytest.raises(RuntimeError, match=r"Expected hidden\[1\] size \(1, 2, 4\)"):
        layer(mq.ones(5, 2, 3), (mq.zeros(1, 2, 4), mq.zeros(1, 2, 5)))
    with pytest.raises(ValueError, match="1D"):
        layer(mq.ones(3))
    with pytest.raises(RuntimeError, match="inconsistent hidden_size"):
        nn.GRUCell(3, 4)(mq.ones(2, 3), mq.zeros(2, 5))


def test_dropout_wants_several_layers():
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        nn.LSTM(3, 4, dropout=0.5)
    layer = filled(nn.LSTM(3, 4, num_layers=2, dropout=1.0))
    x = values(5, 2, 3)
    assert mq.allclose(layer(x)[0], layer(x * 2)[0])  # nothing of the first layer arrives
    layer.eval()
    assert not mq.allclose(layer(x)[0], layer(x * 2)[0])


def test_layers_print_what_is_not_the_default():
    assert repr(nn.LSTM(3, 4)) == "LSTM(3, 4)"
    assert repr(nn.GRU(3, 4, 2, batch_first=True)) == "GRU(3, 4, num_layers=2, batch_first=True)"
    assert repr(nn.RNNCell(3, 4, bias=False)) == "RNNCell(3, 4, bias=False)"


def test_packed_batches_are_cast_to_every_dtype():
    packed = pack_sequence([mq.tensor([1.5, 2.5]), mq.tensor([3.5])])
    kinds = ["long", "int", "short", "char", "byte", "half", "float", "double"]
    found = [str(getattr(packed, kind)().data.dtype).rpartition(".")[2] for kind in kinds]
    assert found == "int64 int32 int16 int8 uint8 float16 float32 float64".split()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pack_padded_sequence(mq.ones(0, 0), []), "Cannot pack empty tensors"),
        (lambda: pack_padded_sequence(mq.ones(2, 1), mq.tensor([[2]])), "1D CPU int64 tensor"),
        (lambda: pad_sequence(3), "Expected iterable for input sequences"),
        (lambda: pad_sequence([]), "empty list of sequences"),
        (lambda: pad_sequence([mq.ones(1)], padding_side="up"), "one of left or right"),
    ],
)
def test_what_cannot_be_packed_is_refused_in_pytorchs_words(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


def test_sizes_that_are_no_positive_integers_are_refused():
    with pytest.raises(ValueError, match="input_size must be greater than zero"):
        nn.GRU(0, 4)
    with pytest.raises(TypeError, match="bias should be of type bool, got: int"):
        nn.GRU(3, 4, bias=1)
    with pytest.raises(TypeError, match="hidden_size should be of type int, got: float"):
        nn.LSTM(3, 4.0)


def test_an_input_of_another_dtype_is_refused_but_in_autocast():
    model, x = nn.GRU(3, 4), mq.ones(2, 1, 3, dtype=mq.float16)
    with pytest.raises(ValueError, match=r"RNN input dtype \(torch.float16\) does not match"):
        model(x)
    with autocast("cpu"):
        assert model(x)[0].shape == (2, 1, 4)


def test_flat_weights_may_be_others_than_the_attributes():
    lstm = nn.LSTM(2, 3)
    wanted = lstm(mq.ones(1, 2))[0] * 0
    lstm._flat_weights = [w * 0 for w in lstm._flat_weights]
    assert lstm(mq.ones(1, 2))[0].equal(wanted)
    assert len(list(lstm.parameters())) == 4
    lstm.weight_ih_l0 = nn.Parameter(mq.ones(12, 2))
    assert lstm._flat_weights[0] is lstm.weight_ih_l0
    assert lstm.float()._flat_weights[1] is lstm.weight_hh_l0


def test_a_cell_says_which_state_has_another_number_of_dimensions():
    x, state, wrong = mq.zeros(3, 4), mq.zeros(3, 5), mq.zeros(1, 3, 5)
    with pytest.raises(ValueError, match=r"LSTMCell: Expected hx\[1\] to be 1D or 2D, got 3D"):
        nn.LSTMCell(4, 5)(x, (state, wrong))
    with pytest.raises(ValueError, match="GRUCell: Expected hidden to be 1D or 2D, got 3D"):
        nn.GRUCell(4, 5)(x, wrong)


def test_sequences_of_a_batch_have_memory_of_their_own():
    padded = mq.arange(12.0).reshape(3, 2, 2)
    first, second = unpad_sequence(padded, mq.tensor([3, 1]))
    assert first.stride() == second.stride() == (2, 1)
    first.fill_(-1)
    assert mq.equal(padded, mq.arange(12.0).reshape(3, 2, 2))
    with pytest.raises(ValueError, match="zip"):
        unpad_sequence(padded, mq.tensor([3]))
