"""Causal masks that are not written out."""

import pytest

import maquette as mq
import maquette.nn.functional as F
from maquette.nn.attention.bias import CausalBias, causal_lower_right, causal_upper_left
from maquette.torch.testing import assert_close


@pytest.mark.parametrize("make", [causal_upper_left, causal_lower_right])
def test_attention_is_that_of_the_mask_written_out(make: object) -> None:
    q, k, v = (mq.randn(1, 2, n, 4) for n in (3, 5, 5))
    bias = make(3, 5)
    expected = F.scaled_dot_product_attention(q, k, v, bias._materialize())
    assert_close(F.scaled_dot_product_attention(q, k, v, attn_mask=bias), expected)


def test_the_diagonals_begin_and_end_in_the_corners() -> None:
    assert causal_upper_left(2, 3)._materialize().tolist() == [
        [True, False, False],
        [True, True, False],
    ]
    assert causal_lower_right(2, 3)._materialize()[1].all()


def test_it_goes_without_is_causal() -> None:
    q = mq.ones(1, 1, 2, 2)
    with pytest.raises(ValueError, match="should not be used with causal=True"):
        F.scaled_dot_product_attention(q, q, q, causal_upper_left(2, 2), is_causal=True)


def test_rows_without_a_key_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="will produce NaNs"):
        assert isinstance(causal_lower_right(3, 2), CausalBias)
