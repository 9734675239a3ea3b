"""Compare the examples with PyTorch: make its answers, then run the tests that read them.

    python tools/peer.py [--torch PYTHON] [--keep FOLDER] [PYTEST ARGUMENTS]

The answers are made by a Python that has torch (this one, unless told), the tests are run by this
one, which has maquette and need not have torch.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PEER = ROOT / "tests" / "peer"
NONE_CHOSEN = 5  # pytest's exit code where -k leaves no test


def has_torch(python: str) -> bool:
    """Whether this Python can import torch."""
    return subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0


def make_answers(python: str, folder: Path) -> int:
    """Run the reference program; its exit code."""
    return subprocess.run([python, str(PEER / "reference.py"), str(folder)]).returncode


def run_tests(folder: Path, arguments: list[str]) -> int:
    """Run the peer tests on these answers; pytest's exit code, the first that is not 0.

    Each file has a process: one puts maquette in the place of torch, another imports PyTorch too.
    """
    environment = os.environ | {"MAQUETTE_PEER_DIR": str(folder)}
    worst = 0
    for file in sorted(PEER.glob("test_*.py")):
        command = [sys.executable, "-m", "pytest", "-m", "peer", str(file), *arguments]
        code = subprocess.run(command, cwd=ROOT, env=environment).returncode
        if code != NONE_CHOSEN:
            worst = worst or code
    return worst


def main() -> int:
    """Make the answers and test against them; the first exit code that is not 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON", help="has torch")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the answers there")
    options, arguments = parser.parse_known_args()
    if not has_torch(options.torch):
        print(
            f"{options.torch} cannot import torch. Name a Python that can (--torch PYTHON), or "
            f"make one: pip install torch==2.13.0 in an environment of its own.",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.keep or Path(scratch)).resolve()
        return make_answers(options.torch, folder) or run_tests(folder, arguments)


if __name__ == "__main__":
    sys.exit(main())
