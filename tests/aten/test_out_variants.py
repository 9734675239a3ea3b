"""What ``out=`` and in-place forms do with an output of another dtype, shape or layout."""

from __future__ import annotations

import pytest

import maquette as mq

aten = mq.ops.aten


def test_a_wider_output_takes_the_rounded_values_of_16_bit_operands() -> None:
    x = mq.tensor([-1.7998046875, 0.3, 2.0], dtype=mq.float16)
    found = aten.exp.out(x, out=mq.zeros(3, dtype=mq.float64))
    assert found.tolist() == aten.exp.default(x).double().tolist()


def test_a_wider_output_takes_the_rounded_value_of_a_0_dim_operand() -> None:
    x = mq.tensor(0.7, dtype=mq.bfloat16)
    found = aten.sin.out(x, out=mq.zeros(()))
    assert found.item() == aten.sin.default(x).item()


def test_an_expanded_output_without_elements_may_be_written() -> None:
    empty = mq.as_strided(mq.zeros(0), (6, 0), (0, 1))
    assert aten.cos_.default(empty) is empty


@pytest.mark.parametrize("name", ["all", "any"])
def test_truth_goes_into_bool_or_uint8_whatever_the_operand(name: str) -> None:
    op = getattr(aten, name).out
    for operand in (mq.uint8, mq.float32):
        for target in (mq.uint8, mq.bool):
            found = op(mq.ones(2, 3, dtype=operand), 0, out=mq.zeros(3, dtype=target))
            assert found.dtype is target
            assert found.tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["all", "any"])
def test_truth_goes_into_no_other_dtype(name: str) -> None:
    with pytest.raises(RuntimeError, match="only supports bool tensor for result, got: Int"):
        getattr(aten, name).out(mq.ones(2, 3), 0, out=mq.zeros(3, dtype=mq.int32))


@pytest.mark.parametrize("shape", [(), (1, 1)])
def test_linspace_keeps_an_output_of_as_many_elements(shape: tuple[int, ...]) -> None:
    found = aten.linspace.out(-2.0, 3.0, 1, out=mq.zeros(shape))
    assert found.shape == shape
    assert found.reshape(1).tolist() == [-2.0]


def test_linspace_fills_an_output_of_another_shape_in_order() -> None:
    found = aten.linspace.out(0, 3, 4, out=mq.zeros(2, 2))
    assert found.tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_polygamma_refuses_to_write_fractions_into_integers() -> None:
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        aten.polygamma_.default(mq.tensor([1, 2]), 1)


@pytest.mark.parametrize("name", ["fft_irfft", "fft_hfft", "fft_irfft2", "fft_hfftn"])
def test_real_transforms_refuse_a_complex_output(name: str) -> None:
    with pytest.raises(RuntimeError, match="expects a floating point output tensor"):
        getattr(aten, name).out(mq.ones(4, 4), out=mq.zeros(4, 6, dtype=mq.complex64))
