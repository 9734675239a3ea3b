"""Jagged nested tensors: made by torch's private functions, reduced, resized and taken apart."""

from __future__ import annotations

import pytest

import maquette.torch as torch
from maquette.torch.families import jagged

VALUES = torch.arange(10.0).reshape(5, 2)


def nested() -> torch.Tensor:
    return torch.nested.nested_tensor_from_jagged(VALUES, torch.tensor([0, 2, 5]))


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_M58_a_dense_tensor_is_viewed_as_rows(layout: torch.layout) -> None:
    dense = torch.zeros(2, 3, 2)
    made = torch.nested.as_nested_tensor(dense, layout=layout)
    assert made._base is dense
    dense[0, 0, 0] = 7.0
    assert made.unbind()[0][0, 0] == 7.0


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_M58_gradients_flow_to_the_dense_tensor(layout: torch.layout) -> None:
    dense = torch.ones(2, 3, 2, requires_grad=True)
    made = torch.nested.as_nested_tensor(dense, layout=layout)
    sum(row.sum() for row in (made * 2).unbind()).backward()
    assert torch.equal(dense.grad, torch.full((2, 3, 2), 2.0))


def test_M58_a_vector_is_no_tensor_of_rows() -> None:
    with pytest.raises(RuntimeError, match="Expected tensor argument to have dim"):
        torch.nested.as_nested_tensor(torch.ones(3), layout=torch.jagged)


def test_M58_rows_over_the_same_offsets_can_be_added() -> None:
    a, offsets = jagged.jagged_from_list([torch.ones(2, 2), torch.ones(3, 2)], None)
    b, same = jagged.jagged_from_list([torch.ones(2, 2), torch.ones(3, 2)], offsets)
    assert same is offsets
    assert (a + b).values().tolist() == [[2.0, 2.0]] * 5


def test_M59_windows_without_gaps_are_contiguous() -> None:
    dense = torch.arange(12.0).reshape(3, 4)
    starts, lengths = torch.tensor([1, 0, 0]), torch.tensor([3, 4, 2])
    made = torch.nested.narrow(dense, 1, starts, lengths, layout=torch.jagged)
    assert made.is_contiguous()
    assert [row.tolist() for row in made.unbind()] == [[1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("argmax", [[1, 1], [2, 2]]), ("argmin", [[0, 0], [0, 0]]), ("prod", [[0, 3], [192, 315]]),
     ("all", [[False, True], [True, True]])],
)  # fmt: skip
def test_M60_each_row_is_reduced(name: str, expected: list) -> None:
    assert getattr(nested(), name)(dim=1).tolist() == expected


def test_M60_the_largest_of_each_row_and_where_it_is() -> None:
    values, indices = nested().max(dim=1)
    assert (values.tolist(), indices.tolist()) == ([[2, 3], [8, 9]], [[1, 1], [2, 2]])
    assert nested().max(dim=2).values.values().tolist() == [1, 3, 5, 7, 9]


def test_M60_dense_dimensions_are_expanded_and_split() -> None:
    wide = nested().unsqueeze(2).expand(2, -1, 3, 2)
    assert wide.values().shape == (5, 3, 2)
    parts = nested().split([1, 1], -1)
    assert [part.values().tolist() for part in parts] == [
        VALUES[:, :1].tolist(),
        VALUES[:, 1:].tolist(),
    ]


def test_M60_the_batch_is_chunked() -> None:
    first, second = nested().chunk(2, 0)
    assert (first.values().tolist(), second.offsets().tolist()) == ([[0, 1], [2, 3]], [0, 3])


def test_M60_elements_are_put_by_row_and_position() -> None:
    t = torch.nested.nested_tensor_from_jagged(torch.zeros(5, 2), torch.tensor([0, 2, 5]))
    t.index_put_((torch.tensor([0, 1]), torch.tensor([1, 2])), torch.tensor([[8.0], [9.0]]))
    assert t.values()[:, 0].tolist() == [0, 8, 0, 0, 9]


def test_M60_attention_before_a_dense_dimension_is_that_of_the_values() -> None:
    q = torch.nested.nested_tensor_from_jagged(torch.randn(5, 4, 8), torch.tensor([0, 2, 5]))
    found = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    dense = torch.nn.functional.scaled_dot_product_attention(*[q.values()] * 3)
    torch.testing.assert_close(found.values(), dense)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: t @ t.transpose(1, 2), "two ragged dimensions"),
        (lambda t: t.tolist(), "tolist.. is not supported for tensor subclasses"),
        (lambda t: torch.ops.aten.size.default(t), "directly calling torch.ops.aten.size"),
        (lambda t: t.expand(3, -1, 2), "the batch and the ragged dimension must stay"),
    ],
)
def test_M60_what_no_nested_tensor_can_be_is_refused(call, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call(nested())


def test_M58_rows_beyond_the_values_are_refused() -> None:
    t = jagged.NestedTensor(VALUES, torch.tensor([0, 2, 5]), lengths=torch.tensor([2, 9]))
    with pytest.raises(RuntimeError, match="offsets and lengths do not match"):
        t.unbind()
