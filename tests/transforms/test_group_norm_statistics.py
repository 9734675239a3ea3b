"""The statistics that group_norm returns move with its input."""

import maquette as mq
from maquette.transforms import jvp


def test_mean_and_deviation_of_group_norm_have_tangents():
    x = (mq.arange(18.0, dtype=mq.float64) ** 1.5 % 7).reshape(1, 6, 3)
    t = mq.arange(18.0, dtype=mq.float64).reshape(1, 6, 3) % 5

    def statistics(x):
        return mq.ops.aten.native_group_norm.default(x, None, None, 1, 6, 3, 2, 0.5)[1:]

    _, moved = jvp(statistics, (x,), (t,))
    above, below = statistics(x + 1e-6 * t), statistics(x - 1e-6 * t)
    for tangent, a, b in zip(moved, above, below, strict=True):
        assert mq.allclose(tangent, (a - b) / 2e-6, atol=1e-6)
