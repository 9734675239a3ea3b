"""Operators that libraries ask for by an older or a private name."""

import pytest

import maquette as mq

aten = mq.ops.aten


def test_a_pinned_copy_says_so_and_so_does_its_storage():
    x = mq.ones(2, requires_grad=True)
    pinned = aten._pin_memory(x)
    assert pinned.is_pinned()
    assert pinned.untyped_storage().is_pinned()
    assert not x.is_pinned()
    assert x.detach().untyped_storage().pin_memory().is_pinned()
    pinned.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_a_shape_as_a_tensor():
    assert aten._shape_as_tensor(mq.ones(2, 3)).tolist() == [2, 3]
    assert aten._shape_as_tensor(mq.ones(())).shape == (0,)


@pytest.mark.parametrize(("name", "dtype"), [("Long", mq.int64), ("Half", mq.float16)])
def test_casts_by_name(name, dtype):
    assert getattr(aten, f"_cast_{name}")(mq.ones(2)).dtype is dtype


def test_rows_from_one_form_to_the_other():
    rows, columns = mq.tensor([0, 0, 2, 2, 2]), mq.tensor([1, 2, 0, 1, 2])
    begins = aten._convert_indices_from_coo_to_csr(rows, 4)
    assert begins.tolist() == [0, 2, 2, 5, 5]
    found = aten._convert_indices_from_csr_to_coo(begins, columns, out_int32=True)
    assert found.tolist() == [rows.tolist(), columns.tolist()]
    assert found.dtype is mq.int32
    turned = aten._convert_indices_from_csr_to_coo(begins, columns, transpose=True)
    assert turned[0].tolist() == columns.tolist()


def test_a_convolution_with_switches_of_kernels_is_the_convolution():
    x, w = mq.randn(1, 2, 5, 5), mq.randn(3, 2, 3, 3, requires_grad=True)
    form = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    out = aten._convolution(x, w, None, *form, False, False, True, True)
    assert mq.equal(out, aten.convolution(x, w, None, *form))
    assert out.requires_grad
    assert mq.equal(out, aten._convolution.deprecated(x, w, None, *form, False, False, True))


def test_logarithms_of_powers_of_ten_are_whole():
    powers = mq.tensor([10.0**n for n in range(-9, 10)])
    assert powers.log10().tolist() == list(range(-9, 10))
