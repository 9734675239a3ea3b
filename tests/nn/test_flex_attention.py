"""`flex_attention`: scores and masks as functions of positions, and which blocks they touch."""

import math

import pytest

import maquette as mq
from maquette.nn.attention.flex_attention import (
    AuxRequest,
    _identity,
    _mask_mod_signature,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    or_masks,
)
from maquette.nn.functional import scaled_dot_product_attention


def _qkv(heads=2, length=6):
    mq.manual_seed(0)
    return [mq.randn(2, heads, length, 4) for _ in range(3)]


def causal(b, h, q, kv):
    return q >= kv


def test_without_functions_it_is_plain_attention():
    q, k, v = _qkv()
    assert mq.allclose(flex_attention(q, k, v), scaled_dot_product_attention(q, k, v), atol=1e-6)


def test_a_mask_function_hides_keys():
    q, k, v = _qkv()
    mask = create_block_mask(causal, None, None, 6, 6, BLOCK_SIZE=2)
    plain = scaled_dot_product_attention(q, k, v, is_causal=True)
    assert mq.allclose(flex_attention(q, k, v, block_mask=mask), plain, atol=1e-6)


def test_a_score_function_is_given_positions():
    q, k, v = _qkv()
    found = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (h + 1) * (j - i))
    places = mq.arange(6)
    bias = (mq.arange(2)[:, None, None] + 1) * (places[None, None] - places[None, :, None])
    plain = scaled_dot_product_attention(q, k, v, attn_mask=bias.float())
    assert mq.allclose(found, plain, atol=1e-5)


def test_functions_may_index_tensors_by_position():
    document = mq.tensor([0, 0, 1, 1, 1, 2])
    same = create_mask(lambda b, h, i, j: document[i] == document[j], None, None, 6, 6)
    assert same[0, 0].tolist() == (document[:, None] == document).tolist()


def test_a_row_without_keys_gives_zeros():
    q, k, v = _qkv()
    mask = create_block_mask(lambda b, h, i, j: i > 2, None, None, 6, 6)
    found, lse = flex_attention(q, k, v, block_mask=mask, return_lse=True)
    assert found[:, :, :3].abs().max().item() == 0.0
    assert lse[0, 0, 0].item() == -math.inf


def test_blocks_are_full_or_seen_in_part():
    mask = create_block_mask(causal, None, None, 6, 6, BLOCK_SIZE=2)
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 1]]]
    assert mask.full_kv_num_blocks.tolist() == [[[0, 1, 2]]]
    assert mask.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert mask.shape == (1, 1, 6, 6)
    assert round(mask.sparsity(), 2) == 33.33


def test_masks_are_joined():
    near = lambda b, h, q, kv: q - kv < 2  # noqa: E731
    both = create_mask(and_masks(causal, near), None, None, 4, 4)[0, 0]
    either = create_mask(or_masks(causal, near), None, None, 4, 4)[0, 0]
    assert int(both.sum()) == 7
    assert bool(either.all())


def test_gradients_flow_through_scores():
    q, k, v = (t.requires_grad_() for t in _qkv())
    flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * 2).sum().backward()
    other = [t.detach().requires_grad_() for t in (q, k, v)]
    scaled_dot_product_attention(*other, scale=1.0).sum().backward()
    assert mq.allclose(q.grad, other[0].grad, atol=1e-5)


def test_heads_may_be_shared():
    q, k, v = _qkv(heads=4)
    found = flex_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    plain = scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    assert mq.allclose(found, plain, atol=1e-6)


def test_what_is_asked_for_beside_the_result_is_given():
    q, k, v = _qkv()
    _, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True, max_scores=True))
    scores = (q @ k.mT) / 2
    assert mq.allclose(aux.lse, scores.logsumexp(-1), atol=1e-5)
    assert mq.allclose(aux.max_scores, scores.amax(-1), atol=1e-6)


def test_bad_calls_are_refused():
    q, k, v = _qkv()
    with pytest.raises(ValueError, match="must be 4D tensors; query is"):
        flex_attention(q[0], k, v)
    with pytest.raises(ValueError, match="enable_gqa=True"):
        flex_attention(q, k[:, :1], v[:, :1])
    with pytest.raises(ValueError, match="q_len=6"):
        flex_attention(q, k, v, block_mask=create_block_mask(causal, None, None, 8, 8))


def test_a_function_of_scores_may_leave_them_as_they_are():
    q = mq.arange(8.0).view(1, 1, 4, 2)
    assert mq.equal(flex_attention(q, q, q, score_mod=_identity), flex_attention(q, q, q))
    assert len(_mask_mod_signature.__args__) == 5
