"""Leaky ReLU with random slopes."""

from __future__ import annotations

import numpy as np
import pytest

import maquette as mq
from maquette.api import functions as F


def test_rrelu_draws_slopes_between_its_bounds() -> None:
    found = F.rrelu(mq.full((100,), -1.0), 0.1, 0.3, True).numpy()
    assert ((found >= -0.3) & (found <= -0.1)).all()
    assert found.std() > 0


def test_rrelu_gradient_is_the_slope_drawn() -> None:
    x = mq.tensor([-2.0, 3.0, -4.0], requires_grad=True)
    y = F.rrelu(x, 0.1, 0.3, True)
    y.sum().backward()
    np.testing.assert_allclose((x.detach() * x.grad).numpy(), y.detach().numpy(), rtol=1e-6)


def test_rrelu_takes_the_middle_slope_outside_training() -> None:
    assert F.rrelu(mq.tensor([-1.0]), 0.2, 0.4).item() == pytest.approx(-0.3)


def test_rrelu_refuses_bounds_out_of_order() -> None:
    with pytest.raises(RuntimeError, match="Lower bound should be less than or equal to"):
        F.rrelu(mq.ones(2), 0.3, 0.1)
