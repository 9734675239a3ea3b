"""Operators under vmap and forward mode, over the recorded calls; tools/check_*.py do the work.

A sample here; all calls under ``make verify``.
"""

import pytest

import check_batching
import check_tangents

SOME = ["add.Tensor", "sum.dim_IntList", "mm", "view", "gather", "index_put", "where.self", "topk"]
FUNCTIONS = ["matmul", "cumsum", "nn.functional.layer_norm", "logcumsumexp"]


def test_T69_batched_is_a_loop():
    total, by_op, failures = check_batching.run(SOME, 12)
    assert failures == []
    assert len(by_op) >= len(SOME)
    assert total["loop"] == 0


def test_T71_tangents_are_the_transpose_of_gradients():
    total, failures = check_tangents.run(FUNCTIONS, 4)
    assert failures == []
    assert total["tangent passed"] >= len(FUNCTIONS)


@pytest.mark.verify
def test_T69_batched_is_a_loop_over_all_recordings():
    total, by_op, failures = check_batching.run([], 1)
    failed = {name for name, *_ in failures}
    looped = {name for name, counts in by_op.items() if counts["loop"]}
    print(dict(total), sorted(failed), sorted(looped))
    assert len(failed) <= 3
    assert len(failed | looped) <= 0.05 * len(by_op)


@pytest.mark.verify
def test_T71_tangents_over_all_recordings():
    total, failures = check_tangents.run([], 1)
    print(dict(total), failures)
    assert failures == []
