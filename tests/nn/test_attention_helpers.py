"""The helpers of attention that programs with a multi-head layer of their own import."""

import pytest

import maquette.torch as torch
import maquette.torch.nn.functional as F


def test_a_boolean_mask_becomes_zeros_and_minus_infinity() -> None:
    mask = F._canonical_mask(torch.tensor([True, False]), "mask", None, "", torch.float64)
    assert mask.tolist() == [float("-inf"), 0.0]
    assert mask.dtype is torch.float64


def test_masks_of_two_kinds_are_warned_of_unless_that_is_not_checked() -> None:
    mask, other = torch.tensor([True, False]), torch.zeros(2)
    with pytest.warns(UserWarning, match="mismatched padding and attn_mask"):
        F._canonical_mask(mask, "padding", F._none_or_dtype(other), "attn_mask", torch.float32)
    F._canonical_mask(mask, "padding", other.dtype, "attn_mask", torch.float32, check_other=False)


def test_the_dtype_of_something_else_is_refused() -> None:
    with pytest.raises(RuntimeError, match="takes a Tensor or None, and was given a str"):
        F._none_or_dtype("float32")


@pytest.mark.parametrize("same", [3, 2, 1])
def test_packed_and_separate_projections_agree(same: int) -> None:
    x, y, z = torch.randn(3, 5, 2, 4)
    q, k, v = {3: (x, x, x), 2: (x, y, y), 1: (x, y, z)}[same]
    w, b = torch.randn(12, 4), torch.randn(12)
    packed = F._in_projection_packed(q, k, v, w, b)
    separate = F._in_projection(q, k, v, *w.chunk(3), *b.chunk(3))
    for one, other in zip(packed, separate, strict=True):
        torch.testing.assert_close(one, other)


def test_a_bias_of_another_width_is_refused_by_name() -> None:
    x, w = torch.randn(5, 2, 4), torch.randn(4, 4)
    with pytest.raises(AssertionError, match="expecting key bias shape"):
        F._in_projection(x, x, x, w, w, w, None, torch.randn(3))


def test_shapes_of_attention_tell_whether_there_is_a_batch() -> None:
    x = torch.randn(5, 2, 4)
    assert F._mha_shape_check(x, x, x, None, None, 2)
    assert not F._mha_shape_check(x[0], x[0], x[0], None, None, 2)


def test_functional_asks_of_overriding_as_overrides_does() -> None:
    assert F.has_torch_function is torch.overrides.has_torch_function
    assert not F.has_torch_function_variadic(torch.ones(1), 2)


def test_kinds_of_attention_are_numbered_but_no_numbers() -> None:
    kind = torch.nn.attention.SDPBackend.FLASH_ATTENTION
    assert int(kind) == 1
    assert kind != 1
    assert not isinstance(kind, int)
