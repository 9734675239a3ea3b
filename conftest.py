"""Doctests are looked for only in the files that have some: 20 of 1,600.

Else pytest imports and searches every module of the package, which was half of what it took to
collect the tests (80 s of each worker's 160 under a profiler).
"""

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

Collected = list[pytest.Collector]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Collected, Collected]:
    """Leave out the collector of doctests where no prompt is written."""
    found = yield
    if file_path.suffix != ".py" or b">>>" in file_path.read_bytes():
        return found
    return [collector for collector in found if not isinstance(collector, DoctestModule)]
