"""Training scripts as they are written for PyTorch print PyTorch's losses for the same seed.

Each script of `scripts/` is run twice, by PyTorch and by maquette, in processes of their own; every
number that it prints, 20 losses or more, is compared.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
TOLERANCE = 1e-4

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not here"),
]


def printed(*command: str) -> list[float]:
    """The numbers that a script prints."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **one_thread},
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return [float(word) for word in ran.stdout.split()]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_prints_the_losses_of_pytorch(script: Path) -> None:
    expected = printed(str(script))
    assert len(expected) >= 20
    assert printed("-m", "maquette.torch", str(script)) == pytest.approx(
        expected, rel=TOLERANCE, abs=TOLERANCE
    )
