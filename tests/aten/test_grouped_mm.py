"""Products of groups: each against the products of its parts."""

import pytest

import maquette as mq
from maquette.fake import FakeTensorMode

ENDS = [2, 2, 6]


def spans():
    return [slice(a, b) for a, b in zip([0, *ENDS], ENDS, strict=False)]


def forms():
    rows, experts = mq.randn(6, 16), mq.randn(3, 16, 8)
    columns, batch = mq.randn(16, 8), mq.randn(3, 4, 16)
    inner, other = mq.randn(4, 8), mq.randn(8, 12)
    ends = mq.tensor(ENDS, dtype=mq.int32)
    yield rows, experts, ends, mq.cat([rows[s] @ experts[g] for g, s in enumerate(spans())])
    ends = mq.tensor([2, 2, 8], dtype=mq.int32)
    cuts = [slice(0, 2), slice(2, 2), slice(2, 8)]
    yield batch, columns, ends, mq.cat([batch[g] @ columns[:, s] for g, s in enumerate(cuts)], 1)
    yield inner, other, ends, mq.stack([inner[:, s] @ other[s] for s in cuts])
    yield batch, experts, None, batch @ experts


def test_every_form_is_the_products_of_its_groups():
    for a, b, ends, expected in forms():
        found = mq.nn.functional.grouped_mm(a, b, offs=ends)
        assert mq.allclose(found, expected, atol=1e-5)


def test_gradients_of_every_form_are_those_of_its_parts():
    for a, b, ends, expected in forms():
        a.requires_grad_()
        b.requires_grad_()
        given = mq.randn(expected.shape)
        out = mq._grouped_mm(a, b, ends)
        mine = mq.autograd.grad(out, (a, b), given)
        assert [g.shape for g in mine] == [a.shape, b.shape]
        step = 1e-2 * mq.randn(a.shape)
        moved = (mq._grouped_mm(a + step, b, ends) - out).mul(given).sum()
        assert mq.allclose(moved, (mine[0] * step).sum(), atol=1e-3)


def test_the_last_dimension_is_laid_out_in_steps_of_16_bytes():
    with FakeTensorMode():
        ends = mq.empty(3, dtype=mq.int32)
        out = mq._grouped_mm(mq.empty(6, 16), mq.empty(3, 10, 16).mT, ends)
    assert out.shape == (6, 10)
    assert out.stride() == (12, 1)


@pytest.mark.parametrize(
    ("a", "b", "ends", "words"),
    [
        ((6, 16), (3, 16, 8), None, "Have to provide offsets"),
        ((6, 16), (2, 16, 8), 3, "matrix batch sizes have to match"),
        ((6, 12), (3, 16, 8), 3, "contraction dimension"),
        ((6, 6), (3, 6, 8), 3, "multiple of 16 bytes"),
    ],
)
def test_what_does_not_fit_is_refused(a, b, ends, words):
    offs = None if ends is None else mq.zeros(ends, dtype=mq.int32)
    with pytest.raises(RuntimeError, match=words):
        mq._grouped_mm(mq.randn(a), mq.randn(b), offs)
