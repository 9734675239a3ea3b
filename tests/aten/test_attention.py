"""Attention: the operator taken, its layouts, values, gradients and costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gradcheck import check_gradients
from op_log import operators_of

import maquette as mq
from maquette.aten.nn.attention import attention_kernels
from maquette.fake import FakeTensor

random = np.random.default_rng(6)
sdpa = mq.ops.aten.scaled_dot_product_attention
flash_cpu = mq.ops.aten._scaled_dot_product_flash_attention_for_cpu
Q, K, V = (random.standard_normal((2, 4, n, 8)) for n in (3, 5, 5))


def tensors(*arrays: np.ndarray) -> list[mq.Tensor]:
    return [mq.from_numpy(a.copy()) for a in arrays]


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: object = 0.0) -> np.ndarray:
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + bias
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


def test_attention_is_softmax_of_products() -> None:
    np.testing.assert_allclose(sdpa(*tensors(Q, K, V)).numpy(), reference(Q, K, V))


def test_attention_of_few_rows_at_a_time_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_kernels, "_SCORES_AT_ONCE", 1)
    result = sdpa(*tensors(Q, K, V), is_causal=True)
    hidden = np.where(np.tri(3, 5) > 0, 0.0, -np.inf)
    np.testing.assert_allclose(result.numpy(), reference(Q, K, V, hidden))


def test_rows_that_see_nothing_are_zero() -> None:
    mask = np.ones((3, 5), bool)
    mask[1] = False
    out, sums = flash_cpu(*tensors(Q, K, V), attn_mask=mq.where(mq.from_numpy(mask), 0.0, -np.inf))
    assert (out.numpy()[:, :, 1] == 0).all()
    assert (sums.numpy()[:, :, 1] == 0).all()


def test_flash_attention_differentiates() -> None:
    bias = mq.from_numpy(random.standard_normal((3, 5)))
    check_gradients(lambda q, k, v: sdpa(q, k, v), Q, K, V)
    check_gradients(lambda q, k, v: sdpa(q, k, v, bias), Q, K, V)
    check_gradients(lambda q, k, v: sdpa(q, k, v, None, 0.0, True, scale=0.3), Q, K, V)


def test_shared_heads_differentiate() -> None:
    k, v = K[:, :2].copy(), V[:, :2].copy()
    check_gradients(lambda q, k, v: sdpa(q, k, v, enable_gqa=True), Q, k, v)
    expected = reference(Q, k.repeat(2, 1), v.repeat(2, 1))
    np.testing.assert_allclose(sdpa(*tensors(Q, k, v), enable_gqa=True).numpy(), expected)


def test_attention_by_products_differentiates() -> None:
    check_gradients(lambda q, k, v: sdpa(q, k, v), Q[0], K[0], V[0])
    bias = random.standard_normal((3, 5))
    check_gradients(lambda q, k, v, b: sdpa(q, k, v, b), Q, K, V, bias)


def test_the_cpu_takes_its_fused_operator() -> None:
    parts = tensors(Q, K, V)
    assert operators_of(lambda: sdpa(*parts)) == ["_scaled_dot_product_flash_attention_for_cpu"]


@pytest.mark.parametrize(
    "change",
    [
        lambda q, k, v: sdpa(q[0], k[0], v[0]),
        lambda q, k, v: sdpa(q, k, v[..., :7].contiguous()),
        lambda q, k, v: sdpa(q, k, v, mq.zeros(4, 3, 5, dtype=mq.float64)),
        lambda q, k, v: sdpa(q, k, v, mq.zeros(3, 5, dtype=mq.float64).requires_grad_()),
        lambda q, k, v: sdpa(q, k[:1], v[:1]),
    ],
)
def test_the_cpu_falls_back_to_products(change: object) -> None:
    parts = tensors(Q, K, V)
    names = operators_of(lambda: change(*parts))  # type: ignore[operator]  # a function
    assert "_safe_softmax" in names
    assert "bmm" in names


def test_flash_on_the_cpu_saves_a_number_a_row_by_position() -> None:
    out, sums = flash_cpu(
        *tensors(Q.astype(np.float32), K.astype(np.float32), V.astype(np.float32))
    )
    assert out.stride() == (96, 24, 8, 1)
    assert sums.dtype is mq.float32
    assert sums.shape == (2, 4, 3)
    assert sums.stride() == (12, 1, 4)


def test_attention_of_nothing_is_zero() -> None:
    q, k, v = tensors(Q, K[:, :, :0], V[:, :, :0])
    assert (sdpa(q, k, v).numpy() == 0).all()


def test_attention_names_mixed_dtypes() -> None:
    q, k, v = tensors(Q, K, V.astype(np.float32))
    with pytest.raises(RuntimeError, match="same dtype, but got query"):
        sdpa(q, k, v)


def fake_inputs(dtype: mq.dtype, width: int = 64, heads: int = 4) -> list[FakeTensor]:
    with mq.FakeTensorMode():
        q = mq.empty(2, 4, 30, width, dtype=dtype, device="cuda")
        return [q, *(mq.empty(2, heads, 30, width, dtype=dtype, device="cuda") for _ in "kv")]


def cuda_operators(parts: list[FakeTensor], **options: object) -> list[str]:
    return operators_of(lambda: sdpa(*parts, **options))


def test_cuda_takes_flash_for_halves_without_a_mask() -> None:
    assert cuda_operators(fake_inputs(mq.bfloat16)) == ["_scaled_dot_product_flash_attention"]
    shared = cuda_operators(fake_inputs(mq.float16, heads=2), enable_gqa=True)
    assert shared == ["_scaled_dot_product_flash_attention"]


def test_cuda_pads_widths_for_flash() -> None:
    names = cuda_operators(fake_inputs(mq.bfloat16, width=60))
    assert names.count("constant_pad_nd") == 3
    assert names[-1] == "slice"


def test_cuda_takes_the_efficient_operator_for_float32() -> None:
    assert cuda_operators(fake_inputs(mq.float32)) == ["_scaled_dot_product_efficient_attention"]


def test_cuda_spreads_a_mask_for_the_efficient_operator() -> None:
    parts = fake_inputs(mq.bfloat16)
    with parts[0].fake_mode:
        mask = mq.empty(30, 30, dtype=mq.bfloat16, device="cuda")
    names = cuda_operators(parts, attn_mask=mask)
    assert names == [
        "constant_pad_nd",
        "slice",
        "expand",
        "_scaled_dot_product_efficient_attention",
    ]


@pytest.mark.parametrize("dtype", [mq.bfloat16, mq.float32])
def test_fused_operators_differentiate_in_fake_inputs(dtype: mq.dtype) -> None:
    parts = [t.requires_grad_() for t in fake_inputs(dtype)]
    sdpa(*parts).sum().backward()
    assert [t.grad.shape for t in parts] == [t.shape for t in parts]


def test_cuda_falls_back_to_products_for_float64() -> None:
    assert "_safe_softmax" in cuda_operators(fake_inputs(mq.float64))


def test_the_efficient_operator_saves_sums_only_for_gradients() -> None:
    q, k, v = fake_inputs(mq.float32)
    run = mq.ops.aten._scaled_dot_product_efficient_attention
    assert run(q, k, v, None, True)[1].shape == (2, 4, 32)
    assert run(q, k, v, None, False)[1].shape == (2, 4, 0)


def test_kernels_of_the_accelerators_agree_with_the_cpus() -> None:
    q, k, v = tensors(Q, K, V)
    expected = flash_cpu(q, k, v)[0].numpy()
    by_flash = mq.ops.aten._scaled_dot_product_flash_attention(q, k, v)[0]
    by_efficient = mq.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, False)[0]
    np.testing.assert_allclose(by_flash.numpy(), expected)
    np.testing.assert_allclose(by_efficient.numpy(), expected)


def test_the_efficient_operator_differentiates_its_bias() -> None:
    run = mq.ops.aten._scaled_dot_product_efficient_attention
    bias = random.standard_normal((2, 4, 3, 5))
    check_gradients(lambda q, k, v, b: run(q, k, v, b, True)[0], Q, K, V, bias, tolerance=1e-4)


def test_flops_count_what_a_mask_hides() -> None:
    rule = flash_cpu.default.facts.cost
    metas = [t.meta for t in tensors(Q, K, V)]
    assert rule(*metas).flops == 2 * (2 * 4 * 3 * 5) * (8 + 8)
    backward = mq.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    assert backward.facts.cost(metas[0], *metas).flops == 2 * (2 * 4 * 3 * 5) * (3 * 8 + 2 * 8)


# --- the choice is an operator ----------------------------------------------------------------

SDPA = mq.nn.functional.scaled_dot_product_attention
choice = mq.ops.aten._fused_sdp_choice.default


def test_each_device_answers_which_kernel_attention_takes() -> None:
    q = mq.zeros(2, 4, 8, 16)
    assert choice(q, q, q) == 1
    assert choice(q, q, q, dropout_p=0.1) == 0
    assert choice(*[q.to("meta")] * 3) == 0  # a device that registers nothing


@pytest.mark.filterwarnings("ignore:.*is overridden by:UserWarning")
def test_a_device_can_register_another_choice() -> None:
    q = mq.zeros(2, 4, 8, 16)
    with mq.library._scoped_library("aten", "IMPL") as lib:
        lib.impl("_fused_sdp_choice", lambda *args, **kwargs: 0, "CPU")
        assert "bmm" in operators_of(lambda: SDPA(q, q, q))
    assert "flash" in str(operators_of(lambda: SDPA(q, q, q)))


def test_only_what_a_block_allows_is_chosen() -> None:
    from maquette.nn.attention import SDPBackend, sdpa_kernel

    q = mq.zeros(2, 4, 8, 16)
    with sdpa_kernel(SDPBackend.MATH):
        assert "flash" not in str(operators_of(lambda: SDPA(q, q, q)))
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        with pytest.raises(RuntimeError, match="No viable backend"):
            SDPA(q, q, q)
    assert choice(q, q, q) == 1


def test_a_block_may_prefer_the_efficient_operator() -> None:
    from maquette.nn.attention import SDPBackend, sdpa_kernel

    with mq.FakeTensorMode():
        q = mq.zeros(2, 4, 8, 16, dtype=mq.float16, device="cuda")
        names = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION]
        with sdpa_kernel(names, set_priority=True):
            assert "efficient" in str(operators_of(lambda: SDPA(q, q, q)))
        with sdpa_kernel(names):
            assert "flash" in str(operators_of(lambda: SDPA(q, q, q)))


def _native_operands(key_is_query: bool) -> list[mq.Tensor]:
    query = mq.randn(2, 3, 8, dtype=mq.float64)
    others = [query] * 2 if key_is_query else [mq.randn(2, 3, 8, dtype=mq.float64) for _ in "kv"]
    shapes = ((24, 8), (24,), (8, 8), (8,))
    return [query, *others, *(mq.randn(*s, dtype=mq.float64) for s in shapes)]


@pytest.mark.parametrize("key_is_query", [True, False])
def test_attention_of_heads_in_one_operator_is_the_modules(key_is_query: bool) -> None:
    query, key, value, *weights = _native_operands(key_is_query)
    module = mq.nn.MultiheadAttention(8, 2, batch_first=True, dtype=mq.float64)
    module.in_proj_weight.data, module.in_proj_bias.data = weights[:2]
    module.out_proj.weight.data, module.out_proj.bias.data = weights[2:]
    mask = mq.tensor([[False, False, True], [False, False, False]])
    found, seen = mq.ops.aten._native_multi_head_attention(
        query, key, value, 8, 2, *weights, mask, True, False, 1
    )
    expected, weighed = module(query, key, value, key_padding_mask=mask, average_attn_weights=False)
    assert mq.allclose(found, expected)
    assert mq.allclose(seen, weighed)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"embed_dim": 6}, "passed-in embed_dim 6 didn't match last dim of query 8"),
        ({"num_head": 3}, "must divide evenly by `num_heads`"),
        ({"mask": mq.ones(2, 3, dtype=mq.bool)}, "Mask Type should be defined"),
        ({"key": mq.ones(2, 4, 8)}, "expected `query`/`key`/`value` shapes to match"),
        ({"proj_bias": mq.ones(3)}, "expected `proj_bias`"),
    ],
)
def test_attention_of_heads_says_what_does_not_fit(change: dict[str, object], words: str) -> None:
    names = ("query", "key", "value", "qkv_weight", "qkv_bias", "proj_weight", "proj_bias")
    given = dict(zip(names, _native_operands(True), strict=True), embed_dim=8, num_head=2)
    with pytest.raises(RuntimeError, match=words):
        mq.ops.aten._native_multi_head_attention(**(given | change))
