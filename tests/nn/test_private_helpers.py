"""PyTorch's private helpers of `nn`, which public model files import."""

import pytest

import maquette.torch as torch
from maquette.nn.modules import transformer, utils
from maquette.nn.modules.module import _addindent


def test_layers_are_found_in_pytorchs_files() -> None:
    modules = torch.nn.modules
    assert modules.loss.TripletMarginLoss is torch.nn.TripletMarginLoss
    assert modules.pooling.MaxUnpool2d is torch.nn.MaxUnpool2d
    assert modules.normalization.CrossMapLRN2d is torch.nn.CrossMapLRN2d


def test_paddings_are_reversed_and_repeated() -> None:
    assert utils._reverse_repeat_tuple((1, 2, 3), 2) == (3, 3, 2, 2, 1, 1)


def test_sizes_that_are_none_are_the_defaults() -> None:
    assert utils._list_with_default([None, 7], [2, 3, 4, 5]) == [4, 7]
    assert utils._list_with_default(7, [2, 3]) == 7
    with pytest.raises(ValueError, match="at least 3"):
        utils._list_with_default([None, 7], [4, 5])


def test_lines_but_the_first_are_moved_in() -> None:
    assert _addindent("a\nb\nc", 2) == "a\n  b\n  c"


def test_clones_share_nothing() -> None:
    layer = torch.nn.Linear(2, 2)
    first, second = transformer._get_clones(layer, 2)
    assert first.weight is not second.weight
    assert torch.equal(first.weight, layer.weight)


def test_masks_are_known_as_causal() -> None:
    mask = transformer._generate_square_subsequent_mask(3)
    assert transformer._detect_is_causal_mask(mask)
    assert not transformer._detect_is_causal_mask(torch.zeros(3, 3))
    assert not transformer._detect_is_causal_mask(mask, size=4)
    assert transformer._detect_is_causal_mask(None, is_causal=True)


@pytest.mark.parametrize(
    ("shape", "batch_first", "length"),
    [((3, 4), False, 3), ((3, 2, 4), False, 3), ((2, 3, 4), True, 3), ((3, 4), True, 3)],
)
def test_lengths_of_sequences(shape: tuple[int, ...], batch_first: bool, length: int) -> None:
    assert transformer._get_seq_len(torch.ones(shape), batch_first) == length
