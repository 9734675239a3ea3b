"""`_grouped_mm` and `_masked_softmax` against the products and the softmax they are made of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import maquette as mq
from maquette.nn import functional as F

ENDS = mq.tensor([2, 5, 8], dtype=mq.int32)
PARTS = [slice(0, 2), slice(2, 5), slice(5, 8)]
ROWS, BATCH = mq.randn(8, 4), mq.randn(3, 4, 12)
CASES = {
    "rows": (ROWS, BATCH, ENDS, lambda a, b: mq.cat([a[p] @ b[i] for i, p in enumerate(PARTS)])),
    "columns": (
        mq.randn(3, 5, 4),
        mq.randn(4, 8),
        ENDS,
        lambda a, b: mq.cat([a[i] @ b[:, p] for i, p in enumerate(PARTS)], 1),
    ),
    "summed": (
        mq.randn(4, 8),
        mq.randn(8, 4),
        ENDS,
        lambda a, b: mq.stack([a[:, p] @ b[p] for p in PARTS]),
    ),
    "batches": (mq.randn(3, 8, 4), BATCH, None, mq.bmm),
}


@pytest.mark.parametrize("case", CASES)
def test_groups_are_multiplied_one_by_one(case: str) -> None:
    """Finding 49."""
    a, b, ends, wanted = CASES[case]
    assert mq.allclose(F.grouped_mm(a, b, offs=ends), wanted(a, b), atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_groups_are_those_of_their_products(case: str) -> None:
    a, b, ends, wanted = CASES[case]
    leaves = [t.clone().requires_grad_() for t in (a, b)]
    result = wanted(*leaves)
    grad = mq.randn(result.shape)
    expected = mq.autograd.grad(result, leaves, grad)
    found = mq.autograd.grad(F.grouped_mm(*leaves, offs=ends), leaves, grad)
    assert all(mq.allclose(f, e, atol=1e-5) for f, e in zip(found, expected))


def test_rows_of_a_result_begin_at_16_bytes() -> None:
    a, b = mq.ones(8, 8, dtype=mq.bfloat16), mq.ones(3, 4, 8, dtype=mq.bfloat16).mT
    assert F.grouped_mm(a, b, offs=ENDS).stride() == (8, 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: F.grouped_mm(ROWS, BATCH), "Have to provide offsets"),
        (lambda: F.grouped_mm(ROWS, BATCH, offs=ENDS[:2]), "batch sizes have to match"),
        (lambda: F.grouped_mm(ROWS, BATCH, offs=ENDS.long()), "int32"),
        (lambda: F.grouped_mm(ROWS.double(), BATCH, offs=ENDS), "Expected mat_a to be"),
        (lambda: F.grouped_mm(mq.ones(8, 3), mq.ones(3, 3, 4), offs=ENDS), "multiple of 16"),
    ],
)
def test_groups_that_do_not_fit_are_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call()


X = mq.randn(2, 3, 4, 4)
MASKS = {0: mq.ones(4, 4).triu(1) > 0, 1: mq.tensor([[False, True, False, False]] * 2)}
MASKS[2] = mq.rand(2, 3, 4, 4) > 2


@pytest.mark.parametrize("kind", MASKS)
def test_what_a_mask_leaves_is_softmaxed(kind: int) -> None:
    """Finding 49."""
    whole = MASKS[kind][:, None, None] if kind == 1 else MASKS[kind]
    wanted = X.masked_fill(whole, -float("inf")).softmax(-1)
    assert mq.allclose(mq._masked_softmax(X, MASKS[kind], -1, kind), wanted)


def test_the_gradient_of_what_is_left_out_is_zero() -> None:
    x, mask = X.clone().requires_grad_(), MASKS[0].expand(X.shape)
    result, grad = mq._masked_softmax(x, mask, 3, 2), mq.randn(X.shape)
    (wanted,) = mq.autograd.grad(x.masked_fill(mask, -float("inf")).softmax(-1), x, grad)
    (found,) = mq.autograd.grad(result, x, grad)
    assert mq.allclose(found, wanted, atol=1e-6)


def test_masks_of_another_shape_or_type_are_refused() -> None:
    with pytest.raises(RuntimeError, match="mask_type == 1 mask shape should be"):
        mq._masked_softmax(X, MASKS[0], -1, 1)
    with pytest.raises(RuntimeError, match="boolean"):
        mq._masked_softmax(X, X, -1, 2)
