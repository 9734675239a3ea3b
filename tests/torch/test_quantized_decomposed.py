"""`torch.ops.quantized_decomposed`: numbers of few bits by plain operators."""

from typing import Any

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.fx import make_fx
from maquette.torch.ao.quantization.fx import _decomposed  # type: ignore[import-not-found]

Q = torch.ops.quantized_decomposed
X = torch.tensor([-3.0, -0.26, 0.0, 0.25, 0.75, 1.5, 100.0])
W = torch.arange(6.0).reshape(2, 3) - 2.4
SCALES, ZEROS = torch.tensor([0.5, 0.25]), torch.tensor([1, -1])
I8 = torch.int8


@pytest.mark.parametrize(
    ("dtype", "least", "most", "expected"),
    [  # what PyTorch 2.13 gives
        (torch.int8, -128, 127, [-5, 0, 1, 1, 3, 4, 127]),
        (torch.uint8, 0, 255, [0, 0, 1, 1, 3, 4, 201]),
        (torch.int16, -8, 7, [-5, 0, 1, 1, 3, 4, 7]),
        (torch.uint16, 0, 65535, [0, 0, 1, 1, 3, 4, 201]),
        (torch.float8_e4m3fn, -448, 448, [-5.0, 0.0, 1.0, 1.0, 3.0, 4.0, 208.0]),
    ],
)
def test_quantize_per_tensor(dtype: Any, least: int, most: int, expected: list[float]) -> None:
    half, one = torch.tensor([0.5]), torch.tensor(1)
    limits = torch.tensor(least), torch.tensor(most)
    for found in (
        Q.quantize_per_tensor(X, 0.5, 1, least, most, dtype),
        Q.quantize_per_tensor(X.bfloat16(), 0.5, 1, least, most, dtype),
        Q.quantize_per_tensor.tensor(X, half, one, least, most, dtype),
        Q.quantize_per_tensor.tensor2(X, half, one, *limits, dtype),
    ):
        assert found.dtype is dtype
        assert found.tolist() == expected


def test_what_is_not_to_be_quantized_is_refused() -> None:
    with pytest.raises(AssertionError, match="quant_min out of bounds"):
        Q.quantize_per_tensor(X, 0.5, 1, -129, 127, I8)
    with pytest.raises(AssertionError, match="float32, got"):
        Q.quantize_per_tensor(X.double(), 0.5, 1, -128, 127, I8)
    with pytest.raises(ValueError, match="Unsupported dtype"):
        Q.quantize_per_tensor(X, 0.5, 1, 0, 3, torch.int64)
    with pytest.raises(AssertionError, match="one element"):
        Q.quantize_per_tensor.tensor(X, SCALES, ZEROS, -128, 127, I8)
    with pytest.raises(AssertionError, match="must include 0"):
        Q.choose_qparams(X, 5, -5, 1.0, I8)
    with pytest.raises(RuntimeError, match="NaNs"):
        Q.quantize_per_channel_group(W * float("nan"), W[:, :1], W[:, :1], -8, 7, I8, 3)


def test_numbers_stand_for_what_was_quantized() -> None:
    q = Q.quantize_per_tensor(X[:6], 0.25, 3, -128, 127, I8)
    assert Q.dequantize_per_tensor(q, 0.25, 3, -128, 127, I8).tolist() == [
        -3.0, -0.25, 0.0, 0.25, 0.75, 1.5,
    ]  # fmt: skip
    found = Q.dequantize_per_tensor(q, 0.25, 3, -128, 127, I8, out_dtype=torch.bfloat16)
    assert found.dtype is torch.bfloat16
    with pytest.raises(AssertionError, match="but got torch"):
        Q.dequantize_per_tensor(q, 0.25, 3, -128, 127, torch.uint8)


def test_the_range_is_filled() -> None:
    scale, zero = Q.choose_qparams(X, -128, 127, 1e-8, I8)
    assert (scale.dtype, zero.dtype, zero.tolist()) == (torch.float64, torch.int64, [-121])
    assert scale.tolist() == pytest.approx([103 / 255])
    scale, zero = Q.choose_qparams_symmetric(X, 0, 255, 1e-8, torch.uint8)
    assert (scale.tolist(), zero.tolist()) == (pytest.approx([100 / 127.5]), [128])
    scale, zero = Q.choose_qparams_per_token_asymmetric(W, I8)
    assert scale.flatten().tolist() == pytest.approx([2.4 / 255, 2.6 / 255])
    assert zero.tolist() == [[127], [-128]]
    scale, zero = Q.choose_qparams_per_token(W, I8)
    assert scale.flatten().tolist() == pytest.approx([2.4 / 127, 2.6 / 127])
    assert zero.tolist() == [[0.0], [0.0]]


def test_channels_tokens_and_groups() -> None:
    expected = [[-4, -2, 0], [1, 5, 9]]
    columns = SCALES[:, None], ZEROS[:, None]
    by_channel = Q.quantize_per_channel(W, SCALES, ZEROS, 0, -128, 127, I8)
    by_token = Q.quantize_per_token(W, *columns, -128, 127, I8)
    by_group = Q.quantize_per_channel_group(W, *columns, -128, 127, I8, 128)
    assert by_channel.tolist() == by_token.tolist() == by_group.tolist() == expected
    back = [[-2.5, -1.5, -0.5], [0.5, 1.5, 2.5]]
    for found in (
        Q.dequantize_per_channel(by_channel, SCALES, ZEROS, 0, -128, 127, I8),
        Q.dequantize_per_token(by_token, *columns, -128, 127, I8, torch.float32),
        Q.dequantize_per_channel_group(by_group, *columns, -128, 127, I8, 3, torch.float32),
    ):
        assert found.tolist() == back
    without = Q.dequantize_per_channel(by_channel, SCALES, None, 0, -128, 127, I8)
    assert without.tolist() == [[-2.0, -1.0, 0.0], [0.25, 1.25, 2.25]]


def test_the_gradient_passes_where_the_range_holds_the_number() -> None:
    w = W.clone().requires_grad_()
    found = Q.fake_quant_per_channel(w, SCALES, ZEROS, 0, -4, 3)
    assert found.tolist() == [[-2.5, -1.5, -0.5], [0.5, 1.0, 1.0]]
    found.backward(torch.full((2, 3), 2.0))
    assert w.grad.tolist() == [[2.0, 2.0, 2.0], [2.0, 0.0, 0.0]]


def test_fakes_and_graphs_have_the_operators() -> None:
    with torch._subclasses.FakeTensorMode() as mode:
        x, one = mode.from_tensor(X), mode.from_tensor(torch.tensor(1))
        found = Q.quantize_per_tensor.tensor2(x, one, one, one, one, I8)
        assert (found.dtype, found.shape) == (I8, X.shape)
        assert Q.choose_qparams(x, -8, 7, 1e-5, I8)[0].dtype is torch.float64
    graph = make_fx(lambda a: Q.quantize_per_tensor(a, 0.5, 0, -8, 7, I8))(X)
    assert "quantized_decomposed.quantize_per_tensor.default" in graph.code


def test_the_module_has_the_functions() -> None:
    assert _decomposed.quantize_per_tensor(X, 0.5, 1, -8, 7, I8).dtype is I8
    assert Q.convert_element_type.no_fuse(X, torch.float64).dtype is mq.float64


def test_the_scale_of_a_token_is_differentiated() -> None:
    """As PyTorch has it: a least element of 0 shares its gradient with the range's 0."""
    x = torch.tensor([[0.0, 1.0, 2.0], [-1.0, 0.0, 2.0]], requires_grad=True)
    scale, zero = Q._choose_qparams_per_token_asymmetric_impl(x, I8)
    scale.sum().backward()
    assert zero.tolist() == [[-128], [-43]]
    assert x.grad is not None
    assert (x.grad * 255).tolist() == [[-0.5, 0.0, 1.0], [-1.0, 0.0, 1.0]]


def test_torchao_asks_whether_each_token_has_a_scale() -> None:
    _decomposed._per_token_quant_qparam_dim_check(W, SCALES, ZEROS)
    with pytest.raises(AssertionError, match="num_tokens: 2 zero_points"):
        _decomposed._per_token_quant_qparam_dim_check(W, SCALES, ZEROS[:1])
