"""For all tests: slow machines are no failure, draws are alike, threads are left as they were."""

import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from maquette.dispatch.tls import DispatchState, node_observers, tls
from maquette.tensor.storage import OBSERVERS
from maquette.tensor.streams.generator import manual_seed

settings.register_profile("maquette", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("maquette")


def _state() -> dict[str, object]:
    held = {name: getattr(tls.st, name) for name in DispatchState.__slots__}
    del held["snapshot"]  # of the last mode that ran; it says nothing while none runs
    seen = {name: list(of) if isinstance(of, list) else of for name, of in held.items()}
    return {**seen, "memory": list(OBSERVERS), "nodes": list(node_observers)}


def _is_installed() -> bool:
    face = sys.modules.get("maquette.torch")
    return face is not None and face.__name__ == "torch"


@pytest.fixture(autouse=True)
def draws_are_the_same_each_time() -> None:
    """What a test draws depends neither on the run nor on the tests before it."""
    manual_seed(0)


@pytest.fixture(autouse=True)
def the_state_of_the_thread_is_left_as_it_was() -> Iterator[None]:
    """What a mode, a transform or an observer leaves behind would slow or change what comes."""
    before = _state()
    yield
    assert _state() == before


@pytest.fixture(autouse=True)
def what_a_command_installs_is_taken_away() -> Iterator[None]:
    """`maquette run`, `plan` and `check` let `import torch` find maquette, and end the process."""
    before = _is_installed()
    yield
    if _is_installed() and not before:
        sys.modules["maquette.torch"].uninstall()
