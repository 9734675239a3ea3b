"""`nn.utils.prune` (finding 51)."""

import pytest

import maquette.torch as torch
from maquette.torch import nn
from maquette.torch.nn.utils import prune


@pytest.fixture
def layer() -> nn.Linear:
    made = nn.Linear(3, 2)
    with torch.no_grad():
        made.weight.copy_(torch.tensor([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]]))
    return made


def test_the_least_entries_are_pruned(layer: nn.Linear) -> None:
    """Finding 51."""
    prune.l1_unstructured(layer, "weight", amount=2)
    assert layer.weight.tolist() == [[0.0, 0.0, 3.0], [-4.0, 5.0, -6.0]]
    assert [name for name, _ in layer.named_parameters()] == ["bias", "weight_orig"]
    assert [name for name, _ in layer.named_buffers()] == ["weight_mask"]


def test_each_next_method_chooses_among_what_is_left(layer: nn.Linear) -> None:
    """Finding 51."""
    prune.l1_unstructured(layer, "weight", amount=1)
    prune.l1_unstructured(layer, "weight", amount=0.4)
    assert int(layer.weight_mask.sum()) == 3
    assert len(layer._forward_pre_hooks) == 1


def test_whole_slices_are_pruned(layer: nn.Linear) -> None:
    """Finding 51."""
    prune.ln_structured(layer, "weight", amount=1, n=2, dim=0)
    assert layer.weight.tolist() == [[0.0, 0.0, 0.0], [-4.0, 5.0, -6.0]]


def test_gradients_reach_what_is_left(layer: nn.Linear) -> None:
    """Finding 51."""
    prune.custom_from_mask(layer, "weight", torch.tensor([[1, 0, 0], [0, 0, 1]]))
    layer(torch.ones(3)).sum().backward()
    assert layer.weight_orig.grad.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]


def test_removing_keeps_the_pruned_values(layer: nn.Linear) -> None:
    """Finding 51."""
    prune.random_unstructured(layer, "weight", amount=0.5)
    values = layer.weight.tolist()
    assert prune.is_pruned(layer)
    prune.remove(layer, "weight")
    assert layer.weight.tolist() == values
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    assert not prune.is_pruned(layer)
    with pytest.raises(ValueError, match="has to be pruned before"):
        prune.remove(layer, "weight")


def test_several_parameters_are_pruned_as_one() -> None:
    """Finding 51."""
    a, b = nn.Linear(2, 1, bias=False), nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        a.weight.copy_(torch.tensor([[1.0, 2.0]]))
        b.weight.copy_(torch.tensor([[3.0, 4.0]]))
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=3)
    assert (a.weight.tolist(), b.weight.tolist()) == ([[0.0, 0.0]], [[0.0, 4.0]])


@pytest.mark.parametrize(
    ("amount", "error"), [(1.5, ValueError), (-1, ValueError), ("1", TypeError)]
)
def test_amounts_are_checked(layer: nn.Linear, amount: object, error: type[Exception]) -> None:
    """Finding 51."""
    with pytest.raises(error, match="amount"):
        prune.l1_unstructured(layer, "weight", amount=amount)
    assert not prune.is_pruned(layer)
