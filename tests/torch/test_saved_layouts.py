"""Sparse and nested tensors in files: as they were, by the names that PyTorch reads, checked."""

import copy
import io
import pickle

import pytest

import maquette.torch as torch
from maquette.torch.saving import layouts

MATRIX = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
SPARSE = {
    "coo": MATRIX.to_sparse(),
    "csr": MATRIX.to_sparse_csr(),
    "csc": MATRIX.to_sparse_csc(),
    "bsr": MATRIX.to_sparse_bsr((1, 2)),
    "bsc": MATRIX.to_sparse_bsc((2, 1)),
}


def rows(layout: torch.layout) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=layout)


def again(value: object) -> object:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("name", SPARSE)
def test_T56_a_sparse_tensor_is_saved_and_read(name: str) -> None:
    read = again({"x": SPARSE[name]})["x"]
    assert read.layout == SPARSE[name].layout
    assert torch.equal(read.to_dense(), MATRIX)


def test_T56_a_tensor_that_is_not_coalesced_comes_back_so() -> None:
    twice = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2))
    read = again(twice)
    assert not read.is_coalesced()
    assert read._values().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_T56_a_nested_tensor_is_saved_and_read(layout: torch.layout) -> None:
    read = again(rows(layout))
    assert read.layout == layout
    assert [row.tolist() for row in read.unbind()] == [[[1.0] * 3] * 2, [[1.0] * 3]]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_T56_a_jagged_tensor_is_copied_with_its_rows(copied) -> None:
    made = copied(rows(torch.jagged).requires_grad_())
    assert made.requires_grad
    assert [tuple(row.shape) for row in made.unbind()] == [(2, 3), (1, 3)]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (SPARSE["coo"], b"torch._utils\n_rebuild_sparse_tensor"),
        (rows(torch.strided), b"torch._utils\n_rebuild_nested_tensor"),
        (rows(torch.jagged), b"torch.nested._internal.nested_tensor\n_rebuild_njt"),
    ],
)
def test_T56_files_have_the_names_that_pytorch_reads(value: torch.Tensor, name: bytes) -> None:
    file = io.BytesIO()
    torch.save(value, file)
    assert name in file.getvalue()


def test_T56_attributes_of_a_tensor_are_under_pytorchs_name() -> None:
    x = torch.ones(2)
    x.note = "kept"
    file = io.BytesIO()
    torch.save(x, file)
    assert b"torch._tensor\n_rebuild_from_type_v2" in file.getvalue()
    assert again(x).note == "kept"


@pytest.mark.parametrize(
    "data",
    [
        (torch.tensor([[0, 5]]), torch.ones(2), torch.Size([2]), False),
        (torch.tensor([[0, 1], [0, 1]]), torch.ones(3), torch.Size([2, 2]), False),
    ],
)
def test_T56_indices_outside_of_a_sparse_tensor_are_refused(data: tuple) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        layouts._rebuild_sparse_tensor(torch.sparse_coo, data)


def test_T56_rows_outside_of_the_buffer_are_refused() -> None:
    with pytest.raises(RuntimeError, match="reaches beyond the buffer of 3 elements"):
        layouts._rebuild_nested_tensor(
            torch.ones(3), torch.tensor([[4]]), torch.tensor([[1]]), torch.tensor([0])
        )
    with pytest.raises(RuntimeError, match="must lie within 3 values"):
        layouts._rebuild_njt({"values": torch.ones(3), "offsets": torch.tensor([0, 2, 7])})


def test_T56_rows_are_loaded_to_meta() -> None:
    """Where each row ends is not known there, nor checked."""
    rows = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged)
    file = io.BytesIO()
    torch.save(rows, file)
    file.seek(0)
    made = torch.load(file, map_location="meta")
    assert made.device == made.offsets().device == torch.device("meta")
    assert made.values().shape == (3, 3)
