"""`torch.masked` on sparse tensors, and the masks of inputs and results."""

import math

import pytest

import maquette.torch as torch
from maquette.torch.families import masked


def example() -> tuple[torch.Tensor, torch.Tensor]:
    """A matrix, and a mask that keeps 1, a zero, and 3."""
    values = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    return values, torch.tensor([[True, True, False], [False, True, False]])


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_reductions_of_coo_are_those_of_dense_where_something_is_kept(
    name: str, keepdim: bool, dim: int | None
) -> None:
    values, mask = example()
    reduce = getattr(masked, name)
    kept = masked._output_mask(reduce, values, dim, keepdim=keepdim, mask=mask)
    found = reduce(values.to_sparse(), dim, keepdim=keepdim, mask=mask)
    expected = reduce(values, dim, keepdim=keepdim, mask=mask)
    assert found.is_sparse
    assert torch.equal(found.to_dense()[kept], expected[kept])


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_reductions_of_csr_are_those_of_dense(name: str, dim: int | None) -> None:
    values, mask = example()
    reduce = getattr(masked, name)
    kept = masked._output_mask(reduce, values, dim, keepdim=True, mask=mask)
    found = reduce(values.to_sparse_csr(), dim, keepdim=True, mask=mask)
    expected = reduce(values, dim, keepdim=True, mask=mask)
    assert found.layout is torch.sparse_csr
    assert torch.equal(found.to_dense()[kept], expected[kept])


def test_a_sparse_mask_is_one_of_a_dense_input_too() -> None:
    values, mask = example()
    assert masked.sum(values, mask=mask.to_sparse()).item() == 4.0
    assert masked.sum(values, mask=mask.to_sparse_csr()).item() == 4.0


def test_sparse_reductions_of_nothing_are_their_identity() -> None:
    values, mask = example()
    nothing = torch.zeros_like(mask)
    assert masked.amax(values.to_sparse(), mask=nothing).to_dense().item() == -math.inf
    assert masked.sum(values.to_sparse(), mask=nothing).to_dense().item() == 0.0


def test_what_is_not_specified_is_zero_so_all_but_sums_want_a_mask() -> None:
    values = example()[0].to_sparse()
    assert masked.sum(values).to_dense().item() == 6.0
    with pytest.raises(ValueError, match="masked prod expects explicit mask for sparse_coo"):
        masked.prod(values)
    with pytest.raises(ValueError, match="masked mean expects strided or sparse_csr"):
        masked.mean(values, mask=values.bool())


def test_reductions_of_csr_keep_their_dimensions() -> None:
    values, mask = example()
    with pytest.raises(RuntimeError, match="keepdim=False is unsupported"):
        masked.sum(values.to_sparse_csr(), 0, mask=mask)


def test_a_scalar_is_reduced_too() -> None:
    one = torch.tensor(2.0).to_sparse()
    assert masked.sum(one, 0, mask=torch.tensor(True)).to_dense().item() == 2.0


def test_where_holds_what_the_mask_keeps_and_no_more() -> None:
    values, mask = example()
    kept = masked._where(mask.to_sparse(), values.to_sparse(), torch.tensor(9.0))
    assert kept.indices().tolist() == [[0, 0, 1], [0, 1, 1]]
    assert kept.values().tolist() == [1.0, 0.0, 3.0]


def test_where_fills_the_dense_dimensions() -> None:
    values, mask = example()
    kept = masked._where(mask.to_sparse(1), values.to_sparse(1), torch.tensor(9.0))
    assert kept.values().tolist() == [[1.0, 0.0, 9.0], [9.0, 3.0, 9.0]]


def test_the_mask_of_an_input_has_its_layout_and_there_is_one() -> None:
    values, mask = example()
    assert masked._input_mask(values.to_sparse(), mask=mask[0]).layout is torch.sparse_coo
    assert masked._input_mask(values.to_sparse_csr(), mask=mask).layout is torch.sparse_csr
    with pytest.raises(ValueError, match="requires explicit mask"):
        masked._input_mask(values)


def test_the_mask_of_a_result_is_that_of_its_input_but_for_reductions() -> None:
    values, mask = example()
    assert masked._output_mask(masked.norm, values, 2.0, 1, mask=mask).tolist() == [True, True]
    assert torch.equal(masked._output_mask(masked.softmax, values, 1, mask=mask), mask)
    with pytest.raises(ValueError, match="expected masked operation"):
        masked._output_mask(torch.sin, values, mask=mask)
