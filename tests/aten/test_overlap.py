"""Operators that read in another order than they write may not write over what they read (T41)."""

from __future__ import annotations

import contextlib

import pytest

import maquette as mq

aten = mq.ops.aten
CLOSED = "refer to a single memory location"


def at(*positions: int) -> mq.Tensor:
    return mq.tensor(positions)


X = [3.0, 1.0, 2.0]
CALLS = {
    "kthvalue": lambda x, out: aten.kthvalue.values(x, 2, values=out, indices=mq.empty(0).long()),
    "gather": lambda x, out: aten.gather.out(x, 0, at(2, 1, 0), out=out),
    "take_along_dim": lambda x, out: aten.take_along_dim.out(x, at(2, 1, 0), 0, out=out),
    "index_add": lambda x, out: aten.index_add.out(mq.ones(3), 0, at(0, 1, 2), x, out=out),
    "index_copy": lambda x, out: aten.index_copy.out(mq.ones(3), 0, at(0, 1, 2), x, out=out),
    "index_reduce": lambda x, out: aten.index_reduce.out(
        mq.ones(3), 0, at(0, 1, 2), x, "prod", out=out
    ),
    "linalg_cross": lambda x, out: aten.linalg_cross.out(x, mq.ones(3), out=out),
    "cross": lambda x, out: aten.cross.out(mq.ones(3), x, out=out),
}


@pytest.mark.parametrize("fake", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_T41_an_operand_is_not_overwritten(name: str, fake: bool) -> None:
    x = mq.tensor(X)
    with mq.FakeTensorMode() if fake else contextlib.nullcontext() as mode:
        x = mode.from_tensor(x) if fake else x
        with pytest.raises(RuntimeError, match=CLOSED):
            CALLS[name](x, x)
    if not fake:
        assert x.tolist() == X


@pytest.mark.parametrize("name", CALLS)
def test_a_separate_target_is_written(name: str) -> None:
    out = mq.full(() if name == "kthvalue" else (3,), 9.0)
    CALLS[name](mq.tensor(X), out)
    assert not (out == 9).any()


def test_T41_each_of_several_targets_is_checked() -> None:
    x = mq.tensor([3, 1, 2])
    with pytest.raises(RuntimeError, match=CLOSED):
        aten.kthvalue.values(x, 2, values=mq.empty(0).long(), indices=x)


def test_T41_members_of_lists_may_not_read_what_they_partly_write() -> None:
    memory = mq.arange(4.0)
    for write in (aten._foreach_mul_.List, aten._foreach_copy_):
        with pytest.raises(RuntimeError, match=CLOSED):
            write([mq.ones(3), memory[:3]], [mq.ones(3), memory[1:]])
    with pytest.raises(RuntimeError, match=CLOSED):
        aten._foreach_add_.Tensor([memory[:2]], memory[1:3])
    aten._foreach_mul_.List([memory[:2], memory[2:]], [memory[:2], memory[:2]])
    assert memory.tolist() == [0, 1, 0, 3]
