"""Names, guards and texts are the same in every process (spec FX12)."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import maquette as mq
from maquette.symbolic import ShapeEnv, check, sym_max
env = ShapeEnv()
x = mq.FakeTensorMode(shape_env=env).from_tensor(mq.ones(8, 5, 6), source="x")
s, t, w = x.shape
u, v = env.create_unbacked_symint(), env.create_unbacked_symint()
bool(sym_max(s * t, w + t) > 3 * w), bool((s + t + w) % 2 == 1), bool(s * t * w > t + w)
check(u + v > s), check((u > 2) & (v > 3))
x[x > 0], (x @ x.transpose(1, 2)).reshape(-1)
print(env.format_guards(), env.produce_guards([x], ["x"]), env.deferred_runtime_asserts)
"""


def printed(seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True
    )
    return run.stdout


def test_FX12_two_processes_agree_to_the_byte() -> None:
    first = printed("1")
    assert "Max(s0*s1, s1 + s2)" in first
    assert first == printed("2")
