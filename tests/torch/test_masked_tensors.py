"""Masked tensors: what is masked out counts nowhere, in results and in gradients."""

import warnings
from collections.abc import Iterator

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.torch.masked_tensors import (
    MaskedTensor,
    as_masked_tensor,
    is_masked_tensor,
    masked_tensor,
)

DATA = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
MASK = [[True, False, True], [False, True, False]]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The PyTorch API of MaskedTensors")
        yield


def _masked(**options: bool) -> MaskedTensor:
    return masked_tensor(mq.tensor(DATA), mq.tensor(MASK), **options)


def test_elementwise_operators_keep_the_mask() -> None:
    found = (_masked() * 2).neg()
    assert is_masked_tensor(found)
    assert found.to_tensor(0.0).tolist() == [[-2, 0, -6], [0, -10, 0]]


@pytest.mark.parametrize(
    ("name", "of_all", "of_rows"),
    [
        ("sum", 9, [4, 5]),
        ("mean", 3, [2, 5]),
        ("prod", 15, [3, 5]),
        ("amax", 5, [3, 5]),
        ("argmin", 0, [0, 1]),
    ],
)
def test_reductions_are_of_what_counts(name: str, of_all: float, of_rows: list[float]) -> None:
    function = getattr(mq, name)
    assert function(_masked()).to_tensor(0).item() == of_all
    assert function(_masked(), 1).to_tensor(0).tolist() == of_rows
    assert getattr(_masked(), name)().get_mask().item()


def test_gradients_are_masked() -> None:
    masked = _masked(requires_grad=True)
    mq.mean(masked, 1).sum().backward()
    assert is_masked_tensor(masked.grad)
    assert masked.grad.to_tensor(0.0).tolist() == [[0.5, 0, 0.5], [0, 1, 0]]


def test_a_masked_tensor_of_a_graph_gives_its_gradient_to_the_data() -> None:
    data = mq.tensor(DATA, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        as_masked_tensor(data, mq.tensor(MASK)).sum().backward()
    assert data.grad.to_tensor(0.0).tolist() == [[1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_sparse_layouts_hold_what_counts(layout: str) -> None:
    sparse = getattr(_masked(), layout)()
    assert sparse.get_data()._nnz() == 3
    assert sparse.sum().to_tensor(0).item() == 9
    assert sparse.sin().to_dense().to_tensor(0.0).shape == (2, 3)


def test_views_go_to_data_and_mask() -> None:
    assert mq.cat([_masked(), _masked()])[2].get_mask().tolist() == MASK[0]
    assert _masked().transpose(0, 1).to_tensor(0.0)[2].tolist() == [3, 0]


def test_softmax_is_over_what_counts() -> None:
    found = mq.softmax(_masked(), 1).to_tensor(0.0)
    assert found.sum(1).tolist() == pytest.approx([1, 1])
    assert found[0, 1] == 0


def test_two_masks_are_refused() -> None:
    other = masked_tensor(mq.tensor(DATA), ~mq.tensor(MASK))
    with pytest.raises(ValueError, match="masks must match"):
        _masked() + other


@pytest.mark.parametrize(
    ("data", "mask", "message"),
    [
        (1, mq.tensor(True), "data must be a Tensor"),
        (mq.ones(2), mq.ones(2), "mask must have dtype bool"),
        (mq.ones(2), mq.ones(3) > 0, r"data.size\(\) must equal mask.size\(\)"),
        (mq.ones(2, dtype=mq.bfloat16), mq.ones(2) > 0, "bfloat16 is not supported"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(
    data: object, mask: mq.Tensor, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        masked_tensor(data, mask)


def test_it_prints_what_counts() -> None:
    text = repr(_masked()[0])
    assert text == "MaskedTensor(\n  [  1.0000,       --,   3.0000]\n)"
    assert repr(masked_tensor(mq.tensor(3), mq.tensor(False))) == "MaskedTensor(--, False)"


def test_operators_of_each_family_are_listed() -> None:
    from maquette.torch.masked_tensors import binary, unary  # of this test alone

    assert mq.ops.aten.sin in unary.NATIVE_UNARY_FNS
    assert mq.ops.aten.add_ in binary.NATIVE_INPLACE_BINARY_FNS


def test_masked_running_sums_of_integers_keep_their_dtype() -> None:
    kept = torch.tensor([True, False])
    assert torch.masked.cumsum(torch.ones(2, dtype=torch.int32), 0, mask=kept).dtype is torch.int32
    with pytest.raises(NotImplementedError, match="identity of amax on"):
        torch.masked.amax(torch.ones(2, dtype=torch.bool), 0, mask=kept)
