"""Where the peer tests find PyTorch's answers. `reference.py` needs torch, so pytest skips it."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

collect_ignore = ["reference.py"]
if importlib.util.find_spec("torch") is None:
    collect_ignore.append("test_opcheck.py")  # it runs PyTorch's operators themselves

# `models.py` is shared with `reference.py`, which finds it as a neighbour; so do the tests.
sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of tests that compare with PyTorch's recorded answers."""
    config.addinivalue_line("markers", "peer: compares with answers PyTorch gave (tools/peer.py)")


@pytest.fixture(scope="session")
def peer_folder() -> Path:
    """The folder that `reference.py` wrote, from MAQUETTE_PEER_DIR; without one, skip."""
    folder = os.environ.get("MAQUETTE_PEER_DIR")
    if not folder:
        pytest.skip("MAQUETTE_PEER_DIR is not set: run tools/peer.py, which makes the answers")
    return Path(folder)
