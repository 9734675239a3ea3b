"""Tangents of another precision than their primal's."""

import pytest

import maquette.torch as torch
from maquette.torch.autograd import forward_ad


@pytest.mark.parametrize("kind", [torch.float16, torch.float64])
def test_a_tangent_may_have_another_precision(kind: torch.dtype) -> None:
    primal, tangent = torch.tensor([2.0, 3.0]), torch.ones(2, dtype=kind)
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(forward_ad.make_dual(primal, tangent) ** 2).tangent
    assert found is not None
    assert found.tolist() == [4.0, 6.0]


def test_an_integer_tangent_is_refused() -> None:
    with forward_ad.dual_level(), pytest.raises(ValueError, match="floating point or complex"):
        forward_ad.make_dual(torch.ones(2), torch.ones(2, dtype=torch.int64))


def test_a_complex_tangent_of_a_real_primal_is_refused() -> None:
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="to be real as its primal"):
        forward_ad.make_dual(torch.ones(2), torch.ones(2, dtype=torch.complex64))
