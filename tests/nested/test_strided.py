"""Nested tensors of the strided layout: made, computed with, differentiated, refused."""

from __future__ import annotations

import copy
import pickle

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.fake.described.describe import MetaTensorDescriber
from maquette.fake.described.meta_converter import MetaConverter
from maquette.fake.exceptions import UnsupportedFakeTensorException, UnsupportedOperatorException
from maquette.nested import StridedNestedTensor, as_nested_tensor, nested_tensor, to_padded_tensor
from maquette.torch.autograd.gradcheck import gradcheck, gradgradcheck

A = mq.arange(6.0).reshape(2, 3)
B = mq.arange(3.0).reshape(1, 3) + 10
RAGGED = [A, mq.arange(4.0).reshape(1, 4)]


def regular() -> StridedNestedTensor:
    """Rows that agree in their last dimension."""
    return nested_tensor([A, B])


def equal_rows(found: mq.Tensor, expected: list[mq.Tensor]) -> bool:
    rows = found.unbind()
    return len(rows) == len(expected) and all(mq.equal(a, b) for a, b in zip(rows, expected))


# --- what it is -------------------------------------------------------------------------------


def test_it_has_rows_of_any_sizes() -> None:
    t = nested_tensor(RAGGED)
    assert (t.is_nested, t.layout, t.dim(), t.numel(), t.size(0)) == (True, mq.strided, 3, 10, 2)
    assert t._nested_tensor_size().tolist() == [[2, 3], [1, 4]]
    assert t._nested_tensor_strides().tolist() == [[3, 1], [4, 1]]
    assert t._nested_tensor_storage_offsets().tolist() == [0, 6]
    assert equal_rows(t, RAGGED)


@pytest.mark.parametrize("ask", [lambda t: t.size(), lambda t: t.shape, lambda t: t.stride()])
def test_as_a_whole_it_has_neither_sizes_nor_strides(ask) -> None:
    with pytest.raises(RuntimeError, match="NestedTensorImpl doesn't support"):
        ask(nested_tensor(RAGGED))


def test_a_size_in_which_rows_differ_is_refused() -> None:
    assert regular().size(-1) == 3
    with pytest.raises(RuntimeError, match=r"dimension 1 is irregular .*\[2, 1\]"):
        regular().size(1)


def test_printing() -> None:
    expected = "nested_tensor([\n  tensor([[1, 2]]),\n  tensor([[4]])\n])"
    assert repr(nested_tensor([mq.tensor([[1, 2]]), mq.tensor([[4]])])) == expected
    assert repr(nested_tensor([])) == "nested_tensor([\n\n])"


@pytest.mark.parametrize(
    ("parts", "kind", "words"),
    [
        (mq.ones(2), TypeError, "Only lists"),
        ([mq.ones(2), mq.ones(2, 1)], RuntimeError, "Found dimension 2 for Tensor at index 1"),
        ([mq.ones(2), mq.ones(2, device="meta")], RuntimeError, "not on the expected device cpu"),
    ],
)
def test_lists_that_do_not_fit_are_refused(parts, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        nested_tensor(parts)


def test_rows_take_the_first_dtype_or_the_one_given() -> None:
    assert nested_tensor([A, B.double()]).dtype is mq.float32
    assert nested_tensor([[1, 2], [3]], dtype=mq.int32).unbind()[1].dtype is mq.int32


def test_copies() -> None:
    t = regular()
    for other in (copy.deepcopy(t), pickle.loads(pickle.dumps(t)), t.clone()):
        assert equal_rows(other, [A, B])
        assert other.data_ptr() != t.data_ptr()


# --- operators --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda t: t.relu(),
        lambda t: t * 2 + 1,
        lambda t: t + t,
        lambda t: -t / t.clone().add_(1),
        lambda t: t.masked_fill(t > 2, 0.0),
        lambda t: mq.nn.functional.gelu(t),
        lambda t: t.softmax(-1),
        lambda t: t.sum(-1, keepdim=True),
        lambda t: t.to(mq.float64),
        lambda t: mq.nn.functional.linear(t, mq.arange(6.0).reshape(2, 3), mq.ones(2)),
        lambda t: mq.nn.functional.layer_norm(t, (3,), mq.ones(3), mq.ones(3)),
        lambda t: t.transpose(-1, -2),
        lambda t: t.unsqueeze(-2).squeeze(-2),
        lambda t: t.matmul(t.transpose(-1, -2)),
        lambda t: t.chunk(3, -1)[1],
        lambda t: t.split_with_sizes([1, 2], -1)[1],
        lambda t: t.transpose(-1, -2).contiguous(),
        lambda t: t.transpose(-1, -2) * 3,
    ],
)
def test_an_operator_is_that_on_each_row(f) -> None:
    t, rows = nested_tensor([A.reshape(1, 2, 3), B.reshape(1, 1, 3)]), []
    for row in (A, B):
        rows.append(f(nested_tensor([row])).unbind()[0])
    assert equal_rows(f(regular()), rows)
    assert t.numel() == 9


def test_views_share_memory() -> None:
    t = regular()
    t[0].fill_(7.0)
    t.transpose(1, 2)[1].fill_(8.0)
    t[1, 0, 2] = 9.0
    assert equal_rows(t, [mq.full((2, 3), 7.0), mq.tensor([[8.0, 8.0, 9.0]])])
    assert t.unbind()[0]._base is t


def test_view_keeps_or_infers_sizes() -> None:
    t = regular()
    assert t.view(2, -1, 3, 1)._nested_tensor_size().tolist() == [[2, 3, 1], [1, 3, 1]]
    with pytest.raises(RuntimeError, match="cannot change or infer the implicit batch dimension"):
        t.view(-1, 2, 3)
    with pytest.raises(RuntimeError, match="is invalid for input of size 6"):
        t.view(2, -1)


def test_padding() -> None:
    padded = to_padded_tensor(nested_tensor(RAGGED), -1.0)
    assert padded.tolist() == [
        [[0.0, 1.0, 2.0, -1.0], [3.0, 4.0, 5.0, -1.0]],
        [[0.0, 1.0, 2.0, 3.0], [-1.0] * 4],
    ]
    assert to_padded_tensor(nested_tensor(RAGGED), 0.0, (3, 2, 5)).shape == (3, 2, 5)
    with pytest.raises(RuntimeError, match="Truncation is not supported"):
        to_padded_tensor(nested_tensor(RAGGED), 0.0, (2, 2, 3))


def test_rows_from_padded_and_from_a_mask() -> None:
    t = nested_tensor([A, B])
    again = torch._nested_from_padded_and_nested_example(to_padded_tensor(t, 0.0), t)
    assert equal_rows(again, [A, B])
    mask = mq.tensor([[True, True], [True, False]])
    found = torch._nested_tensor_from_mask(to_padded_tensor(t, 0.0), mask)
    assert equal_rows(found, [A, B])
    with pytest.raises(RuntimeError, match="left-aligned"):
        torch._nested_tensor_from_mask(to_padded_tensor(t, 0.0), mask.flip(1))


def test_attention_is_within_each_row() -> None:
    rows = [mq.randn(2, n, 4) for n in (3, 1)]
    t = nested_tensor(rows)
    attend = mq.nn.functional.scaled_dot_product_attention
    found = attend(t, t, t).unbind()
    assert all(mq.allclose(a, attend(r, r, r)) for a, r in zip(found, rows))


@pytest.mark.parametrize(
    ("f", "kind", "words"),
    [
        (lambda t: t + A, RuntimeError, "Expected both self and other to be nested"),
        (lambda t: t + nested_tensor([A]), RuntimeError, "add does not support broadcasting"),
        (lambda t: t.transpose(1, 2).relu(), RuntimeError, "must be contiguous to get buffer"),
        (lambda t: t.sum(1, keepdim=True), RuntimeError, "reduced across the last dimension"),
        (lambda t: t.sum(-1), RuntimeError, "always requires keepdim=True"),
        (lambda t: t.transpose(0, 1), RuntimeError, "dimension 0 cannot be transposed"),
        (lambda t: t.chunk(2, -1), RuntimeError, "3 % 2 != 0"),
        (lambda t: t[2], IndexError, "index 2 is out of bounds for dimension 0 with size 2"),
        (lambda t: t[:, 1:], NotImplementedError, "indexed by numbers and whole ranges"),
        (lambda t: t.sort(), NotImplementedError, "aten::sort .*layout strided.*unbind"),
        (lambda t: t.matmul(t), RuntimeError, "0-th nested matrices .*2x3 and 2x3"),
        (lambda t: mq.nn.functional.linear(t, mq.ones(2, 4)), RuntimeError, "last_dim = 3"),
        (lambda t: t.numpy(), RuntimeError, "unbind"),
    ],
)
def test_what_does_not_fit_is_refused(f, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        f(regular())


def test_two_layouts_do_not_mix() -> None:
    jagged = nested_tensor([A, B], layout=mq.jagged)
    with pytest.raises(RuntimeError, match="one layout"):
        regular() + jagged
    with pytest.raises(RuntimeError, match="Converting between nested tensor layouts"):
        as_nested_tensor(jagged, layout=mq.strided)


# --- autograd ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda t: t * t,
        lambda t: t.softmax(-1),
        lambda t: t.transpose(1, 2).transpose(1, 2) * 2,
        lambda t: t.transpose(1, 2).matmul(t),
        lambda t: mq.nn.functional.linear(t, mq.arange(6.0, dtype=mq.float64).reshape(2, 3)),
        lambda t: t.sum(-1, keepdim=True),
        lambda t: t.chunk(3, -1)[0].contiguous(),
        lambda t: t.view(2, -1, 3, 1).squeeze(3) + t,
        lambda t: (t + 1) * t[0].sum() + t,
    ],
)
def test_gradients_and_second_ones(f) -> None:
    def function(a: mq.Tensor, b: mq.Tensor) -> mq.Tensor:
        return to_padded_tensor(f(as_nested_tensor([a, b])), 0.0)

    given = [row.double().detach().requires_grad_() for row in (A / 7, B / 9)]
    assert gradcheck(function, given)
    assert gradgradcheck(function, given)


def test_a_nested_leaf_gets_a_nested_gradient() -> None:
    t = nested_tensor([A, B], requires_grad=True)
    (t * 3)[0].sum().backward()
    assert equal_rows(t.grad, [mq.full((2, 3), 3.0), mq.zeros(1, 3)])
    t.unbind()[1].sum().backward()
    assert equal_rows(t.grad, [mq.full((2, 3), 3.0), mq.ones(1, 3)])


# --- fakes and metas --------------------------------------------------------------------------


def test_M56_it_is_not_converted() -> None:
    with pytest.raises(UnsupportedFakeTensorException, match="strided nested tensors"):
        mq.FakeTensorMode().from_tensor(regular())
    assert MetaConverter()(regular()) is NotImplemented


def test_M6_its_description_has_no_storage() -> None:
    described = MetaTensorDescriber().describe_tensor(regular())
    assert (described.is_nested, described.storage, described.stride) == (True, None, None)


def test_F62_none_is_made_of_fakes() -> None:
    with mq.FakeTensorMode(), pytest.raises(UnsupportedOperatorException, match="_nested_tensor"):
        nested_tensor([mq.ones(2), mq.ones(3)])


def test_rows_and_what_is_beyond_them_are_indexed_as_views():
    nt = nested_tensor([mq.arange(6.0).view(2, 3), mq.arange(3.0).view(1, 3)])
    assert [row.tolist() for row in nt[..., 0].unbind()] == [[0.0, 3.0], [0.0]]
    assert [row.tolist() for row in nt[:, 0].unbind()] == [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]
    assert [row.tolist() for row in nt[1:].unbind()] == [[[0.0, 1.0, 2.0]]]
    for view in (nt[...], nt[:], nt[..., 0], nt[1:], nt[0, ..., 1:]):
        assert view._base is nt or view._base is nt._buffer or view.data_ptr() == nt.data_ptr() + 4
    nt[1:][0].mul_(2.0)
    assert nt[1].tolist() == [[0.0, 2.0, 4.0]]


@pytest.mark.parametrize("index", [None, (slice(None), slice(0, 1)), slice(None, None, 2), True])
def test_what_strided_rows_are_not_indexed_by_is_refused_by_name(index):
    nt = nested_tensor([mq.ones(2, 3), mq.ones(1, 3)])
    with pytest.raises(NotImplementedError, match="indexed by numbers and whole ranges"):
        nt[index]


def test_a_range_of_rows_that_lie_apart_is_refused():
    nt = nested_tensor([mq.ones(2, 3), mq.ones(1, 3)])
    with pytest.raises(RuntimeError, match="only contiguous nested tensors"):
        nt.transpose(1, 2).narrow(0, 0, 1)


def test_each_row_is_multiplied_by_one_dense_matrix():
    rows, weight = [mq.randn(3, 4, 5), mq.randn(2, 4, 5)], mq.randn(5, 6, requires_grad=True)
    products = mq.matmul(nested_tensor(rows), weight)
    for product, row in zip(products.unbind(), rows, strict=True):
        assert mq.allclose(product, row @ weight)
    sum(row.sum() for row in products.unbind()).backward()
    assert mq.allclose(weight.grad, sum(row.sum((0, 1)) for row in rows)[:, None].expand(5, 6))


def test_rows_without_any_element_are_not_padded():
    with pytest.raises(RuntimeError, match="at least one constituent tensor"):
        mq.nested.to_padded_tensor(nested_tensor([mq.ones(1, 0), mq.ones(0, 0)]), 0.0)
