"""The package hands its names on; it imports a module when a name of it is first asked for."""

import subprocess
import sys

import pytest

from maquette import symbolic


@pytest.mark.parametrize("name", symbolic.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(symbolic, name) is not None


def test_another_name_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"maquette\.symbolic' has no attribute 'Nothing'"):
        symbolic.Nothing  # noqa: B018  # asked for


def test_importing_maquette_leaves_environments_for_later() -> None:
    program = "import maquette, sys; sys.exit('maquette.symbolic.shape_env' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
