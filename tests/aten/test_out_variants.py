"""What ``out=`` and in-place forms do with an output of another dtype, shape or layout."""

from __future__ import annotations

from collections.abc import Callable

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


@pytest.mark.parametrize("name", ["ceil", "bitwise_not", "tril", "conj_physical", "softplus"])
def test_operators_that_do_not_convert_refuse_an_output_of_another_dtype(name: str) -> None:
    kind = mq.int32 if name == "bitwise_not" else mq.float32
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        getattr(aten, name).out(mq.ones(2, 2, dtype=kind), out=mq.zeros(2, 2, dtype=mq.float64))


def test_copies_of_views_refuse_an_output_of_another_dtype() -> None:
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        aten.t_copy.out(mq.ones(2, 3), out=mq.zeros(3, 2, dtype=mq.float64))


@pytest.mark.parametrize("power", [0, 1])
def test_a_matrix_power_that_is_a_copy_may_be_converted(power: int) -> None:
    found = aten.linalg_matrix_power.out(mq.ones(1, 1), power, out=mq.zeros(1, 1, dtype=mq.float64))
    assert found.tolist() == [[1.0]]


def test_a_matrix_power_that_is_a_product_may_not_be_converted() -> None:
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        aten.linalg_matrix_power.out(mq.ones(1, 1), 2, out=mq.zeros(1, 1, dtype=mq.float64))


def test_cat_refuses_to_write_over_what_it_reads() -> None:
    x = mq.ones(4, 6)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        aten.cat.out([mq.zeros(0), x], 0, out=x)


def test_cat_refuses_an_empty_output_that_it_reads_and_would_resize() -> None:
    empty = mq.zeros(0)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        aten.cat.out([empty, mq.ones(4, 6)], 0, out=empty)


@pytest.mark.parametrize("name", ["cumsum_", "cumprod_"])
def test_a_running_sum_in_place_keeps_the_dtype_of_its_tensor(name: str) -> None:
    op = getattr(aten, name).default
    assert op(mq.tensor([1, 2], dtype=mq.int32), 0, dtype=mq.int32).dtype is mq.int32
    with pytest.raises(RuntimeError, match="Bad in-place call"):
        op(mq.tensor([1, 2], dtype=mq.int32), 0, dtype=mq.int64)


@pytest.mark.parametrize("name", ["isposinf", "isneginf", "signbit"])
def test_questions_of_signs_are_answered_into_bool_outputs_only(name: str) -> None:
    ask, x = getattr(mq, name), mq.tensor([-float("inf"), 1.0])
    assert ask(x, out=mq.empty(2, dtype=mq.bool)).dtype is mq.bool
    with pytest.raises(RuntimeError, match=f"{name} does not support non-boolean outputs"):
        ask(x, out=mq.empty(2, dtype=mq.int64))


@pytest.mark.parametrize("result", [mq.float32, mq.int64])
def test_positions_and_masks_select_into_an_output(result: mq.dtype) -> None:
    x = mq.arange(6, dtype=result).reshape(2, 3)
    for at in (mq.tensor([0, 2]), mq.tensor([True, False, True])):
        found = aten.index.Tensor_out(x, [None, at], out=mq.empty(0, dtype=result))
        assert found.tolist() == [[0, 2], [3, 5]]


def test_positions_that_repeat_are_written_to_an_output() -> None:
    out = mq.empty(0, dtype=mq.int64)
    aten.repeat_interleave.Tensor_out(mq.tensor([1, 2, 0, 3]), output_size=6, out=out)
    assert out.tolist() == [0, 1, 1, 3, 3, 3]


def _wanting() -> mq.Tensor:
    return mq.ones(3, 3, requires_grad=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda out: mq.add(_wanting(), 1, out=out),
        lambda out: mq.matmul(_wanting(), mq.ones(3, 3), out=out),
        lambda out: mq.masked_select(_wanting(), mq.tensor(True), out=out),
        lambda out: mq.normal(_wanting(), 1.0, out=out),
        lambda out: mq.hstack([_wanting(), mq.ones(3, 3)], out=out),
        lambda out: mq.full((3, 3), 1.0, out=out.requires_grad_()),
        lambda out: mq.arange(9, out=out.requires_grad_()),
        lambda out: mq.linspace(0, 1, 9, out=out.requires_grad_()),
    ],
)
def test_an_output_takes_no_history(call: Callable[[mq.Tensor], object]) -> None:
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        call(mq.empty(3, 3))


def test_an_output_of_bools_or_positions_has_no_history_to_take() -> None:
    x = _wanting()
    assert mq.eq(x, x, out=mq.empty(3, 3, dtype=mq.bool)).all()
    assert mq.nonzero(x, out=mq.empty(0, dtype=mq.int64)).shape == (9, 2)
    with mq.no_grad():
        assert mq.matmul(x, x, out=mq.empty(3, 3)).sum() == 27


def test_outputs_of_seldom_forms_are_taken_at_the_first_call() -> None:
    x = mq.tensor([[2.0, 1.0], [0.0, 3.0]])
    found = mq.argsort(x, stable=True, out=mq.empty(0, dtype=mq.int64))
    assert found.tolist() == [[1, 0], [0, 1]]
    sign, size = mq.slogdet(x, out=(mq.empty(0), mq.empty(0)))
    assert (sign.item(), round(size.exp().item(), 4)) == (1.0, 6.0)
    assert mq.slice_scatter(x, x[1:], 0, 0, 1, out=mq.empty(2, 2)).tolist() == [[0, 3], [0, 3]]
