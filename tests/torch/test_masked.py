"""`torch.masked`: a reduction of what a mask keeps is the plain one of those elements."""

import math

import pytest

import maquette.torch as torch
from maquette.torch.families import masked


def example() -> tuple[torch.Tensor, torch.Tensor]:
    """Values, and a mask that keeps 2 and 3."""
    return torch.tensor([5.0, 2.0, 3.0]), torch.tensor([False, True, True])


@pytest.mark.parametrize(
    "name, expected",
    [
        ("sum", 5.0),
        ("prod", 6.0),
        ("amax", 3.0),
        ("amin", 2.0),
        ("mean", 2.5),
        ("var", 0.5),
        ("std", math.sqrt(0.5)),
        ("norm", math.sqrt(13)),
        ("logsumexp", math.log(math.exp(2) + math.exp(3))),
        ("argmin", 1),
        ("argmax", 2),
    ],
)
def test_reductions_see_what_is_kept(name: str, expected: float) -> None:
    values, mask = example()
    assert getattr(masked, name)(values, mask=mask).item() == pytest.approx(expected)


def test_without_a_mask_all_is_kept() -> None:
    values, _ = example()
    assert masked.sum(values).item() == 10.0


def test_nothing_kept_gives_what_nothing_gives() -> None:
    values, mask = example()
    none = torch.zeros_like(mask)
    assert masked.sum(values, mask=none).item() == 0.0
    assert masked.amax(values, mask=none).item() == -math.inf
    assert math.isnan(masked.mean(values, mask=none).item())


def test_softmax_is_zero_where_the_mask_is_false() -> None:
    values, mask = example()
    soft = masked.softmax(values, 0, mask=mask)
    assert soft[0].item() == 0.0
    assert soft.sum().item() == pytest.approx(1.0)


def test_scans_and_normalizing_skip_what_is_masked() -> None:
    values, mask = example()
    assert masked.cumsum(values, 0, mask=mask).tolist() == [0.0, 2.0, 5.0]
    assert masked.normalize(values, 1.0, 0, mask=mask).tolist() == pytest.approx([0.0, 0.4, 0.6])


def test_masks_are_broadcast_but_have_no_more_dimensions() -> None:
    values, mask = example()
    both = torch.stack([values, values])
    assert masked.sum(both, 1, keepdim=True, mask=mask).tolist() == [[5.0], [5.0]]
    with pytest.raises(IndexError, match="broadcastable mask"):
        masked.sum(values, mask=torch.stack([mask, mask]))


def test_a_dimension_is_given_once() -> None:
    with pytest.raises(RuntimeError, match="appears multiple times"):
        masked.sum(torch.ones(2, 2), (0, -2))


def test_gradients_flow_to_what_is_kept() -> None:
    values, mask = example()
    values.requires_grad_()
    masked.sum(values, mask=mask).backward()
    assert values.grad.tolist() == [0.0, 1.0, 1.0]


def test_identities_of_reductions_are_told_by_name() -> None:
    identity, x = masked._reduction_identity, torch.ones(2)
    assert [identity(n, x).item() for n in ("sum", "prod", "amax")] == [0, 1, -math.inf]
    assert identity("amin", x.to(torch.int8)).item() == 127
    assert identity("mean", x) is None


def test_complex_numbers_have_a_masked_logsumexp() -> None:
    x, mask = torch.tensor([1 + 1j, 5.0]), torch.tensor([True, False])
    assert masked.logsumexp(x, 0, mask=mask).item() == pytest.approx(1 + 1j)
    assert masked._input_mask(x, mask=mask).tolist() == [True, False]
