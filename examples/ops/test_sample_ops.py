"""The package's own tests, as its authors run them: ``pytest examples/ops``."""

import pytest
import sample_ops

from maquette.testing import opchecks

OPERATORS = [
    sample_ops.rms_norm,
    sample_ops.nucleus,
    sample_ops.kv_append,
    sample_ops.lookup,
    sample_ops.sharded_embedding,
]
CHECKS = [c for op in OPERATORS for c in opchecks(op, max_inputs=30, deadline=1.0)]


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_property(check):
    check()
