"""The face installed as torch for a test, and taken away again."""

from collections.abc import Iterator
from types import ModuleType

import pytest

import maquette.torch as face


@pytest.fixture
def installed() -> Iterator[ModuleType]:
    """`import torch` finds maquette while the test runs."""
    face.install()
    yield face
    face.uninstall()
