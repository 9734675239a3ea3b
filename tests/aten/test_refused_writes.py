"""A refused call leaves every tensor as it was: outputs, targets, running statistics, lists."""

from collections.abc import Callable

import pytest

import maquette as mq


@pytest.mark.parametrize(
    "call",
    [
        lambda out: mq.gather(mq.ones(1, 1), 1, mq.tensor([[0, 2]]), out=out),
        lambda out: mq.index_select(mq.ones(2), 0, mq.tensor([5]), out=out),
        lambda out: mq.multinomial(mq.zeros(3), 2, out=out),
        lambda out: mq.fmod(mq.tensor([1, 2]), mq.tensor(0), out=out),
    ],
)
def test_T36_an_output_is_not_resized_by_a_call_that_its_elements_refuse(
    call: Callable[..., object],
) -> None:
    kind = mq.float32 if "ones" in call.__code__.co_names else mq.int64
    out = mq.empty(0, dtype=kind)
    with pytest.raises((RuntimeError, IndexError)):
        call(out)
    assert out.shape == (0,)


def test_a_list_is_copied_whole_or_not_at_all() -> None:
    targets = [mq.zeros(2), mq.zeros(())]
    with pytest.raises(RuntimeError, match="broadcast shape"):
        mq._foreach_copy_(targets, [mq.ones(2), mq.ones(3)])
    assert targets[0].tolist() == [0, 0]


def test_nanmean_refuses_an_output_of_whole_numbers_before_it_writes() -> None:
    out = mq.full((2,), 7)
    with pytest.raises(RuntimeError, match="result type Float can't be cast"):
        mq.nanmean(mq.ones(3, 2), [0], out=out)
    assert out.tolist() == [7, 7]


def test_T34_several_outputs_are_checked_before_the_first_is_written() -> None:
    sign, logabsdet = mq.full((), 7.0), mq.zeros((), dtype=mq.complex64)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        mq.ops.aten.linalg_slogdet.out(mq.eye(2), sign=sign, logabsdet=logabsdet)
    assert sign.item() == 7


def test_T34_copies_of_parts_are_checked_before_the_first_is_written() -> None:
    outs = [mq.full((1,), 7.0), mq.zeros(2, dtype=mq.int64)]
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        mq.ops.aten.split_with_sizes_copy.out(mq.ones(3), [1, 2], out=outs)
    assert outs[0].item() == 7


def test_T41_instance_norm_moves_both_statistics_or_none() -> None:
    mean, var = mq.zeros(2), mq.ones(1).expand(2)
    with pytest.raises(RuntimeError, match="single memory location"):
        mq.instance_norm(mq.rand(1, 2, 4), None, None, mean, var, True, 0.5, 1e-5, False)
    assert mean.tolist() == [0, 0]


@pytest.mark.parametrize("name", ["cat", "hstack", "vstack", "dstack", "column_stack"])
def test_T41_tensors_are_not_joined_over_themselves(name: str) -> None:
    memory = mq.arange(12.0)
    parts, out = [memory[:4].view(2, 2)] * 2, memory[2:10]
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        getattr(mq, name)(parts, out=out)


def test_T34_tensors_are_joined_into_an_output_of_their_category() -> None:
    with pytest.raises(TypeError, match="can't be cast to the desired output type Int"):
        mq.hstack([mq.ones(2)], out=mq.empty(2, dtype=mq.int32))


@pytest.mark.parametrize("recorded", [False, True])
def test_T42_foreach_refuses_to_write_magnitudes_into_complex_numbers(recorded) -> None:
    members = [mq.ones(2, dtype=mq.complex64, requires_grad=recorded) * 1]
    with pytest.raises(RuntimeError, match="In-place abs is not supported for complex"):
        mq.ops.aten._foreach_abs_(members)
