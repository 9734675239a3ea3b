"""vmap refuses examples of too few dimensions: its batch is not taken for one of theirs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import func

F = torch.nn.functional

CALLS: list[tuple[Callable[[mq.Tensor], mq.Tensor], tuple[int, ...]]] = [
    (mq.view_as_complex, (2,)),
    (lambda x: F.pixel_shuffle(x, 2), (4, 3, 3)),
    (lambda x: F.pixel_unshuffle(x, 2), (2, 4, 4)),
    (lambda x: F.pad(x, (1, 1, 1, 1)), (2, 3)),
    (lambda x: F.unfold(x, 2), (2, 4, 4)),
    (lambda x: F.avg_pool2d(x, 1), (2, 3, 3)),
    (lambda x: F.max_pool2d(x, 1), (2, 3, 3)),
    (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), (2, 4, 4)),
    (F.pdist, (3, 2)),
    (lambda x: mq.renorm(x, 2, 0, 1.0), (3, 2)),
]


@pytest.mark.parametrize("call, sizes", CALLS)
def test_examples_of_too_few_dimensions_are_refused_as_alone(
    call: Callable[[mq.Tensor], mq.Tensor], sizes: tuple[int, ...]
) -> None:
    batch = mq.ones(sizes)
    with pytest.raises((RuntimeError, IndexError)) as alone:
        call(batch[0])
    with pytest.raises(type(alone.value)) as batched:
        func.vmap(call)(batch)
    assert str(batched.value).split("dim")[0] == str(alone.value).split("dim")[0]
