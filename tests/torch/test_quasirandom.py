"""Sobol's points."""

import pytest

import maquette.torch as torch
from maquette.torch.quasirandom import SobolEngine


def test_the_points_are_pytorchs() -> None:
    """Finding 49."""
    points = SobolEngine(3).draw(4).tolist()
    assert points == [[0.0] * 3, [0.5] * 3, [0.75, 0.25, 0.25], [0.25, 0.75, 0.75]]


def test_scrambled_points_are_pytorchs_for_a_seed() -> None:
    """Finding 49: the shift and the matrix come from PyTorch's stream of random numbers."""
    engine = SobolEngine(2, scramble=True, seed=1)
    assert engine.shift.tolist() == [287468019, 388430972]
    expected = torch.tensor([[0.26772547, 0.36175454], [0.84343994, 0.99180824]])
    torch.testing.assert_close(engine.draw(2), expected)
    assert repr(engine) == "SobolEngine(dimension=2, scramble=True, seed=1)"


def test_points_are_left_out_and_begun_anew() -> None:
    """Finding 49."""
    engine = SobolEngine(1)
    assert engine.fast_forward(1).draw().item() == 0.5
    assert engine.reset().draw_base2(1).tolist() == [[0.0], [0.5]]
    with pytest.raises(ValueError, match="to be a power of 2"):
        engine.draw_base2(2)
    with pytest.raises(ValueError, match="range of dimensionality"):
        SobolEngine(0)
