"""Elementwise results: broadcasting, strides, memory that overlaps; real and fake."""

from collections.abc import Callable

import pytest

import maquette as mq
from maquette import Tensor

Ints = tuple[int, ...]


def laid(size: Ints, stride: Ints, dtype: mq.dtype = mq.float32) -> Tensor:
    return mq.zeros(256, dtype=dtype).as_strided(size, stride)


def assert_strides(make: Callable[..., Tensor], expected: Ints, *operands: Tensor) -> None:
    """The strides of a result, eager, fake and meta alike."""
    assert make(*operands).stride() == expected
    mode = mq.FakeTensorMode()
    assert make(*[mode.from_tensor(t) for t in operands]).stride() == expected


def add(a: Tensor, b: Tensor) -> Tensor:
    return a + b


def plus_one(a: Tensor) -> Tensor:
    return a + 1


def test_T36_broadcasting() -> None:
    assert (mq.zeros(3, 1) + mq.zeros(0)).shape == (3, 0)
    with pytest.raises(RuntimeError, match=r"0.*2.*dim"):
        mq.zeros(0) + mq.zeros(2)


def test_T36_the_target_of_a_write_never_stretches() -> None:
    with pytest.raises(RuntimeError, match=r"\[\].*\[1\]"):
        mq.zeros(()).add_(mq.zeros(1))


def test_T36_expand_keeps_sizes_at_minus_one() -> None:
    assert mq.zeros(3, 1).expand(-1, 4).shape == (3, 4)
    with pytest.raises(RuntimeError, match="-1"):
        mq.zeros(3).expand(-1, 3)


def test_T36_an_out_of_another_shape_is_resized_with_a_warning() -> None:
    out = mq.zeros(3)
    with pytest.warns(UserWarning, match="resized"):
        mq.add(mq.ones(2, 2), 1, out=out)
    assert out.tolist() == [[2.0, 2.0]] * 2


def test_T36_an_out_that_is_an_input_is_not_resized() -> None:
    a = mq.ones(())
    with pytest.raises(RuntimeError, match=r"shape \[\] doesn't match the broadcast shape \[2\]"):
        mq.add(mq.ones(2), a, out=a)
    assert a.shape == ()


def test_T36_an_empty_out_is_resized_silently() -> None:
    assert mq.add(mq.ones(2), 1, out=mq.empty(0)).tolist() == [2.0, 2.0]


def test_T36_an_out_of_the_right_shape_keeps_its_strides() -> None:
    out = mq.zeros(3, 2).t()
    assert mq.add(mq.ones(2, 3), 1, out=out).stride() == (1, 2)


def test_T36_out_and_grad_do_not_go_together() -> None:
    with pytest.raises(RuntimeError, match=r"add.*out"):
        mq.add(mq.ones(2, requires_grad=True), 1, out=mq.zeros(2))


def test_T37_a_number_spoils_the_fast_path() -> None:
    y = laid((2, 3, 1, 1), (3, 1, 3, 3))
    assert_strides(lambda a: -a, (3, 1, 1, 1), y)
    assert_strides(lambda a: a + a, (3, 1, 1, 1), y)
    assert_strides(plus_one, (3, 1, 3, 3), y)


@pytest.mark.parametrize(
    "a, b, expected, swapped",
    [
        (laid((2, 3, 3), (3, 0, 1)), laid((2, 3, 3), (3, 1, 6)), (9, 1, 3), (3, 1, 6)),
        (laid((4, 3), (1, 4)), laid((4, 3), (3, 1)), (1, 4), (3, 1)),
    ],
)
def test_T38_the_first_operand_decides(a: Tensor, b: Tensor, expected: Ints, swapped: Ints) -> None:
    assert_strides(add, expected, a, b)
    assert_strides(add, swapped, b, a)


def test_T38_equal_strides_order_by_size() -> None:
    assert_strides(plus_one, (1, 2), laid((2, 3), (1, 1)))
    assert_strides(plus_one, (2, 1), laid((3, 2), (1, 1)))


@pytest.mark.parametrize(
    "a, b, expected",
    [
        (laid((4, 5), (0, 1)), laid((4, 5), (1, 4)), (1, 4)),
        (laid((4, 3), (1, 4)), mq.zeros(3), (1, 4)),
        (mq.zeros(3), laid((4, 3), (1, 4)), (1, 4)),
        (laid((2, 3, 4, 5), (60, 1, 15, 3)), mq.zeros(2, 3, 4, 5), (60, 1, 15, 3)),
        (mq.zeros(2, 3, 4, 5), laid((2, 3, 4, 5), (60, 1, 15, 3)), (60, 20, 5, 1)),
        (laid((2, 4, 3), (0, 1, 4), mq.int32), mq.zeros(2, 4, 3), (12, 1, 4)),
    ],
)
def test_T39_two_operands(a: Tensor, b: Tensor, expected: Ints) -> None:
    assert_strides(add, expected, a, b)


def test_T39_no_elements() -> None:
    x = laid((3, 0, 2), (1, 3, 3))
    assert_strides(plus_one, (1, 3, 0), x)
    assert_strides(lambda a: -a, (2, 2, 1), x)


CONTIGUOUS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(0, keepdim=True),
    "argmax": lambda x: x.argmax(0, keepdim=True),
    "cumsum": lambda x: x.cumsum(0),
    "softmax": lambda x: x.softmax(0),
    "gather": lambda x: x.gather(0, mq.zeros(4, 2, 3, dtype=mq.int64)),
    "index_select": lambda x: x.index_select(0, mq.tensor([0, 1])),
    "roll": lambda x: x.roll(1, 0),
    "tril": lambda x: x.tril(),
    "bmm": lambda x: x.bmm(x.mT),
    "stack": lambda x: mq.stack([x, x]),
    "repeat": lambda x: x.repeat(1, 1, 1),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
}
ORDERED: dict[str, Callable[[Tensor], Tensor]] = {
    "sort": lambda x: x.sort(0)[0],
    "flip": lambda x: x.flip(0),
    "where": lambda x: mq.where(x > 0, x, x),
    "gelu": lambda x: mq.nn.functional.gelu(x),
    "dropout": lambda x: mq.nn.functional.dropout(x),
    "zeros_like": lambda x: mq.zeros_like(x),
}


@pytest.mark.parametrize("make", CONTIGUOUS.values(), ids=CONTIGUOUS)
def test_T40_results_in_index_order(make: Callable[[Tensor], Tensor]) -> None:
    made = make(mq.zeros(3, 2, 4).permute(2, 1, 0))
    assert made.is_contiguous()


@pytest.mark.parametrize("make", ORDERED.values(), ids=ORDERED)
def test_T40_results_in_the_order_of_the_input(make: Callable[[Tensor], Tensor]) -> None:
    x = laid((4, 2, 3), (1, 12, 4))
    assert make(x).stride() == (1, 12, 4)


def test_T40_strides_of_cumsum_and_sort() -> None:
    x = laid((4, 2, 3), (1, 12, 4))
    assert_strides(lambda a: a.cumsum(0), (6, 3, 1), x)
    assert_strides(lambda a: a.sort(0)[0], (1, 12, 4), x)


def test_T40_cat_of_channels_last_is_channels_last() -> None:
    x = mq.empty(2, 3, 4, 5, memory_format=mq.channels_last)
    assert mq.cat([x, x]).is_contiguous(memory_format=mq.channels_last)


def test_T41_a_write_to_one_place_through_many_indices_is_refused() -> None:
    with pytest.raises(RuntimeError, match="single memory location"):
        mq.zeros(1).expand(3).add_(1)


def test_T41_fills_may_write_to_one_place() -> None:
    x = mq.zeros(1)
    x.expand(3).fill_(2)
    assert x.item() == 2
    x.expand(3).zero_()
    assert x.item() == 0


def test_T41_partial_overlap_is_refused() -> None:
    a = mq.zeros(4)
    with pytest.raises(RuntimeError, match="clone"):
        a[1:].add_(a[:-1])


def test_T41_an_out_of_partial_overlap_is_refused() -> None:
    a = mq.zeros(4)
    with pytest.raises(RuntimeError, match="clone"):
        mq.add(a[:-1], 1, out=a[1:])


def test_T41_full_and_undecided_overlaps_pass() -> None:
    a = mq.zeros(4)
    mq.add(a, 1, out=a)
    a.add_(a)
    assert a.tolist() == [2.0] * 4
    mq.zeros(4).as_strided((3, 2), (1, 1)).add_(1)
