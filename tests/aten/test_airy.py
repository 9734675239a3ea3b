"""Where PyTorch's numbers are not the mathematics': Airy's function, exp of narrow matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import airy

import maquette as mq


def tensor(array: object) -> mq.Tensor:
    return mq.from_numpy(np.array(array))


@pytest.mark.parametrize("kind", [mq.float16, mq.bfloat16])
def test_matrix_exp_of_narrow_floats_is_nan_where_pytorchs_is_no_number(kind: mq.dtype) -> None:
    x = mq.stack([mq.zeros(2, 2), mq.ones(2, 2)]).to(kind)
    zero, one = mq.linalg_matrix_exp(x).to(mq.float32).numpy()
    np.testing.assert_array_equal(zero, np.eye(2))
    assert np.isnan(one).all()


def test_matrix_exp_of_one_narrow_number_is_its_exponential() -> None:
    x = mq.tensor([[0.5]], dtype=mq.float16)
    assert mq.linalg_matrix_exp(x).item() == np.exp(0.5).astype(np.float16)


def test_airy_solves_its_equation() -> None:
    x = np.linspace(-8, 4, 40)
    x = x[(x < -4) | (x > -1.9)]  # between, PyTorch's is off
    h = 1e-3
    ai = [mq.special_airy_ai(tensor(x + d)).numpy() for d in (-h, 0, h)]
    np.testing.assert_allclose((ai[0] - 2 * ai[1] + ai[2]) / h**2, x * ai[1], atol=2e-5)


def test_airy_is_off_as_pytorchs_is_where_it_begins_to_oscillate() -> None:
    found = mq.special_airy_ai(mq.tensor(-2.5, dtype=mq.float64)).item()
    assert 2e-7 < abs(found - airy(-2.5)[0]) < 3e-7


@pytest.mark.parametrize("x", [-999.0, -1001.0])
def test_airy_by_two_terms_continues_airy_by_its_series(x: float) -> None:
    found = mq.special_airy_ai(mq.tensor(x, dtype=mq.float64)).item()
    np.testing.assert_allclose(found, airy(x)[0], rtol=1e-9)


def test_airy_vanishes_far_to_the_right_and_is_unknown_at_both_ends() -> None:
    assert mq.special_airy_ai(mq.tensor([104.0, 1e10])).tolist() == [0, 0]
    assert np.isnan(mq.special_airy_ai(mq.tensor([np.inf, -np.inf, np.nan])).numpy()).all()


def test_airy_takes_no_narrow_floats() -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Half'"):
        mq.special_airy_ai(mq.ones(2, dtype=mq.float16))


def test_reflected_division_has_its_older_name() -> None:
    x = tensor([0.5, 2.0])
    np.testing.assert_array_equal(x.__rdiv__(2.0), 2.0 / x)
