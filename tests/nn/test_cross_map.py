"""`CrossMapLRN2d` by the loop over channels that it stands for (finding 49)."""

import pytest

import maquette as mq
from maquette import nn


def windows(channels, size):
    """The sums of squares that PyTorch takes, channel by channel."""
    reach = int((size - 1) / 2 + 1)
    squares = [{c} for c in range(channels)]
    found = [set(range(min(reach, channels)))]
    for c in range(1, channels):
        now = set(found[-1])
        now |= squares[c + reach - 1] if c + reach - 1 < channels else set()
        found.append(now - squares[c - reach] if c > reach else now)
    return found


@pytest.mark.parametrize("size", [2, 3, 5, 9])
def test_values_are_divided_by_their_neighbours(size):
    x = mq.randn(2, 6, 1, 1, dtype=mq.float64)
    found = nn.CrossMapLRN2d(size, alpha=0.5, beta=0.7, k=2.0)(x)
    sums = mq.stack([(x[:, sorted(w)] ** 2).sum(1) for w in windows(6, size)], 1)
    assert mq.allclose(found, x * (2.0 + 0.5 / size * sums) ** -0.7)


def test_gradients_are_those_of_old_models():
    x = mq.ones(1, 3, 1, 1, dtype=mq.float64, requires_grad=True)
    nn.CrossMapLRN2d(3, alpha=3.0, beta=1.0, k=0.0)(x).sum().backward()
    # Channels c sum the ratios of c - 2 to c; each output is one over the squares it counts.
    ratios = [1 / n**2 for n in (2, 3, 3)]
    wanted = [1 / n - 2 * sum(ratios[max(0, c - 2) : c + 1]) for c, n in enumerate((2, 3, 3))]
    assert mq.allclose(x.grad.flatten(), mq.tensor(wanted, dtype=mq.float64))


def test_other_ranks_are_refused():
    with pytest.raises(ValueError, match="Expected input to be 4D, got 3D"):
        nn.CrossMapLRN2d(3)(mq.ones(2, 2, 2))
