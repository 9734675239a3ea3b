"""Window functions against NumPy's, which are symmetric."""

from __future__ import annotations

import numpy as np
import pytest

import maquette as mq

NUMPY = {
    "hann": np.hanning,
    "hamming": np.hamming,
    "bartlett": np.bartlett,
    "blackman": np.blackman,
    "kaiser": lambda n: np.kaiser(n, 12.0),
}
every = pytest.mark.parametrize("name", NUMPY)


def window(name: str, *arguments: object, **options: object) -> mq.Tensor:
    made = getattr(mq, f"{name}_window")(*arguments, **options)
    assert isinstance(made, mq.Tensor)
    return made


@pytest.mark.parametrize("length", [1, 2, 5, 8])
@every
def test_a_symmetric_window_is_numpys(name: str, length: int) -> None:
    found = window(name, length, False, dtype=mq.float64)
    np.testing.assert_allclose(found.numpy(), NUMPY[name](length), atol=1e-12)


@every
def test_a_window_is_periodic_unless_told(name: str) -> None:
    longer = window(name, 7, periodic=False, dtype=mq.float64)
    assert mq.equal(window(name, 6, dtype=mq.float64), longer[:-1])
    assert mq.equal(window(name, 6, True, dtype=mq.float64), longer[:-1])


@every
def test_short_windows_are_ones(name: str) -> None:
    assert window(name, 0).shape == (0,)
    assert window(name, 1).tolist() == [1.0]


def test_parameters_of_windows() -> None:
    assert mq.allclose(mq.hamming_window(6, True, 0.5), mq.hamming_window(6, True, 0.5, 0.46))
    assert mq.allclose(mq.hamming_window(6, True, 0.5, 0.5), mq.hann_window(6))
    expected = np.kaiser(6, 3.0)
    found = mq.kaiser_window(6, False, 3.0, dtype=mq.float64)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


@every
def test_windows_refuse(name: str) -> None:
    with pytest.raises(RuntimeError, match="non-negative window_length"):
        window(name, -1)
    with pytest.raises(RuntimeError, match="floating point dtypes, got: Long"):
        window(name, 4, dtype=mq.int64)


@every
def test_a_window_goes_where_it_is_sent(name: str) -> None:
    made = window(name, 4, device="meta", dtype=mq.bfloat16, requires_grad=True)
    assert made.is_meta
    assert (made.dtype, made.requires_grad) == (mq.bfloat16, True)
