"""What programs' own layers, lists and loaders call of PyTorch's by private names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import maquette.torch as torch
from maquette.torch import nn


def test_a_list_says_the_name_of_a_place() -> None:
    assert nn.ModuleList([nn.ReLU(), nn.Tanh()])._get_abs_string_index(-1) == "1"
    assert nn.ParameterList([torch.ones(1)])._get_abs_string_index(0) == "0"


def test_a_place_beyond_a_list_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="index 2 is out of range"):
        nn.ModuleList([nn.ReLU()])._get_abs_string_index(2)


def test_a_chain_gives_an_item_by_its_place() -> None:
    chain = nn.Sequential(nn.ReLU(), nn.Tanh())
    assert chain._get_item_by_idx(chain._modules, -1) == "1"
    with pytest.raises(IndexError, match="out of range of 2 items"):
        chain._get_item_by_idx(chain._modules, 2)


def test_a_table_fills_its_padding_row() -> None:
    table = nn.Embedding(3, 2, padding_idx=1)
    nn.init.ones_(table.weight)
    table._fill_padding_idx_with_zero()
    assert table.weight.sum(1).tolist() == [2, 0, 2]


def test_a_transformer_starts_as_its_class_says() -> None:
    class Own(nn.Transformer):
        def _reset_parameters(self) -> None:
            for parameter in self.parameters():
                nn.init.zeros_(parameter)

    assert all(not p.any() for p in Own(4, 2, 1, 1, 8).parameters())


def test_a_layer_of_ones_own_normalizes() -> None:
    layer, x = nn.InstanceNorm1d(2), torch.rand(2, 5)
    assert torch.equal(layer._handle_no_batch_input(x), layer(x))
    assert torch.equal(layer._apply_instance_norm(x[None]), layer(x[None]))


def test_a_loader_iterates_as_its_class_says() -> None:
    class Own(torch.utils.data.DataLoader[Any]):
        def _get_iterator(self) -> Iterator[Any]:
            return iter([1, 2])

    assert list(Own([0])) == [1, 2]


def test_a_class_with_its_own_call_goes_on_with_the_modules() -> None:
    class Own(nn.ReLU):
        def __call__(self, x: torch.Tensor) -> Any:
            return self._call_impl(x) + 1

    seen = []
    layer = Own()
    layer.register_forward_hook(lambda *given: seen.append(given))
    assert layer(torch.tensor([-1.0, 2.0])).tolist() == [1, 3]
    assert len(seen) == 1


def test_blocks_of_transformer_layers_need_not_be_told_what_is_causal() -> None:
    encoder = nn.TransformerEncoderLayer(4, 2, 8).eval()
    decoder = nn.TransformerDecoderLayer(4, 2, 8).eval()
    x, masks = torch.ones(3, 1, 4), {"attn_mask": None, "key_padding_mask": None}
    found = [encoder._sa_block(x, **masks), decoder._sa_block(x, **masks)]
    found.append(decoder._mha_block(x, mem=x, **masks))
    assert [t.shape for t in found] == [x.shape] * 3
