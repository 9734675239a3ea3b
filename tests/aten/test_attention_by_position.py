"""The operators of attention over [batch, length, heads, width], which libraries call."""

from collections.abc import Callable
from typing import Any

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import Tensor
from maquette.torch.utils.flop_counter import FlopCounterMode

aten = mq.ops.aten
Seen = Tensor | None


def expected(q: Tensor, k: Tensor, v: Tensor, seen: Seen = None, bias: Seen = None) -> Tensor:
    scores = torch.einsum("bmhe,bnhe->bhmn", q, k) * q.shape[-1] ** -0.5
    scores = scores if bias is None else scores + bias
    scores = scores if seen is None else scores.masked_fill(~seen, float("-inf"))
    return torch.einsum("bhmn,bnhe->bmhe", scores.softmax(-1).nan_to_num(), v)


def behind(m: int, n: int, *, at_the_end: bool) -> Tensor:
    """How far behind its query's own place each key is."""
    rows: Tensor = mq.arange(m)[:, None] + (n - m if at_the_end else 0)
    return mq.arange(n) - rows


def made(*shape: int) -> Tensor:
    return mq.randn(*shape, requires_grad=True)


def agree(found: Tensor, wanted: Tensor, inputs: list[Tensor]) -> None:
    torch.testing.assert_close(found, wanted)
    grad = mq.randn_like(found)
    grads = [torch.autograd.grad(out, inputs, grad) for out in (found, wanted)]
    torch.testing.assert_close(*grads)


SEEN: dict[tuple[int, int | None], Tensor | None] = {
    (0, None): None,
    (1, None): behind(4, 6, at_the_end=False) <= 0,
    (2, None): behind(4, 6, at_the_end=True) <= 0,
    (1, 2): (behind(4, 6, at_the_end=False) <= 0) & (behind(4, 6, at_the_end=False) > -2),
    (2, 3): (behind(4, 6, at_the_end=True) <= 0) & (behind(4, 6, at_the_end=True) > -3),
}


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(("kind", "window"), SEEN)
def test_efficient_attention(kind: int, window: int | None, with_bias: bool) -> None:
    q, k, v = made(2, 4, 3, 8), made(2, 6, 3, 8), made(2, 6, 3, 5)
    bias = made(1, 3, 4, 6) if with_bias else None
    out, sums, _, _, *longest = aten._efficient_attention_forward(
        q, k, v, bias, None, None, None, None, 0.0, kind, True, window_size=window
    )
    assert (sums.shape, longest) == ((2, 3, 32), [4, 6])
    inputs = [q, k, v] if bias is None else [q, k, v, bias]
    agree(out, expected(q, k, v, SEEN[kind, window], bias), inputs)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_sequences_in_one_tensor_attend_to_themselves(kind: int) -> None:
    q, k, v = made(1, 7, 3, 8), made(1, 9, 3, 8), made(1, 9, 3, 8)
    ends = mq.tensor([0, 3, 7], dtype=mq.int32), mq.tensor([0, 5, 9], dtype=mq.int32)
    out, sums, *_ = aten._efficient_attention_forward(q, k, v, None, *ends, 4, 5, 0.0, kind, True)
    assert sums.shape == (2, 3, 32)
    parts = []
    for rows, columns in ((slice(0, 3), slice(0, 5)), (slice(3, 7), slice(5, 9))):
        m, n = rows.stop - rows.start, columns.stop - columns.start
        seen = behind(m, n, at_the_end=kind == 2) <= 0 if kind else None
        parts.append(expected(q[:, rows], k[:, columns], v[:, columns], seen))
    agree(out, mq.cat(parts, 1), [q, k, v])


@pytest.mark.parametrize(
    ("causal", "left", "right"),
    [(False, None, None), (True, None, None), (False, 1, 2), (True, 2, 0)],
)
def test_flash_attention(causal: bool, left: int | None, right: int | None) -> None:
    q, k, v = made(2, 4, 3, 8), made(2, 6, 3, 8), made(2, 6, 3, 8)
    out, sums, seed, offset, mask = aten._flash_attention_forward(
        q, k, v, None, None, 4, 6, 0.0, causal, False,
        window_size_left=left, window_size_right=right,
    )  # fmt: skip
    assert (sums.shape, seed.dtype, offset.shape, mask.shape) == ((2, 3, 4), mq.uint64, (), (0,))
    places = behind(4, 6, at_the_end=True)
    seen = places <= (0 if causal else 10 if right is None else right)
    seen = seen if left is None else seen & (places >= -left)
    agree(out, expected(q, k, v, seen), [q, k, v])


def refused(fake: bool, *args: Any, error: type[Exception], match: str, **kwargs: Any) -> None:
    mode = mq.FakeTensorMode()
    given = [mode.from_tensor(a) if fake and isinstance(a, Tensor) else a for a in args]
    with pytest.raises(error, match=match):
        aten._efficient_attention_forward(*given, **kwargs)


@pytest.mark.parametrize("fake", [False, True])
def test_fakes_refuse_what_tensors_do(fake: bool) -> None:
    q, ends = mq.randn(2, 4, 3, 8), mq.tensor([0, 4])
    none = (None,) * 4
    refused(fake, q, q, q[:, :3], None, *none, 0.0, 0, error=RuntimeError, match="of one length")
    refused(fake, q, q, q, None, *none, 0.0, 3, error=RuntimeError, match="0, 1 or 2, got 3")
    refused(
        fake,
        q,
        q,
        q,
        None,
        *none,
        0.0,
        0,
        window_size=2,
        error=RuntimeError,
        match="needs a causal",
    )
    refused(
        fake, q, q, q, None, ends, ends, 4, 4, 0.0, 0, error=RuntimeError, match="the batch is 1"
    )


def test_the_shapes_are_pytorchs_with_and_without_sums() -> None:
    q, k, v = (mq.empty(2, n, 3, w, device="meta") for n, w in ((5, 8), (7, 8), (7, 16)))
    given = (q, k, v, None, None, None, None, None, 0.0, 0)
    out, sums, *_ = aten._efficient_attention_forward(*given)
    assert (out.shape, out.stride(), sums.shape) == ((2, 5, 3, 16), (240, 48, 16, 1), (2, 3, 0))


def flops(call: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        call()
    total: int = counter.get_total_flops()
    return total


def test_the_counter_counts_them() -> None:
    with mq.FakeTensorMode():
        q, k = mq.empty(2, 4, 3, 8), mq.empty(2, 6, 3, 8)
        none = (None,) * 5
        dense = 2 * 2 * 3 * 4 * 6 * (8 + 8)
        assert flops(lambda: aten._efficient_attention_forward(q, k, k, *none, 0.0, 0)) == dense
        flash = (None, None, 4, 6, 0.0, False, False)
        assert flops(lambda: aten._flash_attention_forward(q, k, k, *flash)) == dense
        many, ends = mq.empty(1, 7, 3, 8), mq.empty(3, dtype=mq.int32)
        given = (many, many, many, None, ends, ends, 4, 4, 0.0, 0)
        counted = flops(lambda: aten._efficient_attention_forward(*given))
        assert counted == 2 * 2 * 3 * 4 * 4 * (8 + 8)  # as if both were of the longest
