"""Parameters, defaults and bases of all public modules: each is PyTorch's, or differs by name here.

The tool describes both sides (`tools/public_surface.py`). What differs on purpose is listed with
its reason. What is not there (`absent` and `missing` names, members), and what says that it is not
supported, is bounded, so that it can only become less.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.peer

TOOL = Path(__file__).parents[2] / "tools" / "public_surface.py"

# By pattern of a name, why its parameters, defaults or bases are others than PyTorch's.
OTHERS = {
    r"torch\.return_types\..*": "`inspect` tells of a tuple there; both take a sequence and a dict",
    r"torch\.(dtype|layout|memory_format|qscheme)": "no program makes one: TypeError there",
    r"torch\.Tensor\.index": "of `functorch.dim`, once it is imported there",
    r"torch\.autograd\.grad_mode\.no_grad": "`inspect` is told of __init__ there; calls are alike",
    r"torch\.autograd\.graph\.Node": "a base class that no program makes an instance of",
    r"torch\.autograd\.function\.(FunctionMeta|BackwardCFunction).*": "nodes are Python objects",
    r"torch\.autograd\.profiler_util\.FunctionEvent": "what events of devices tell is by keyword",
    r"torch\.storage\.UntypedStorage|torch\.types\.Storage.*": "a class of C++ there; a protocol",
    r"torch\.ScriptModule|torch\.jit\.ScriptModule": "Python runs the modules",
    r"torch\.library\.define": "the old form takes alias_analysis by position",
    r"torch\.library\.fallthrough_kernel": "it is registered, never called",
    r"torch\.hub\.load_state_dict_from_url\(.*": "files run no code (docs/differences.md)",
    r"torch\.utils\.benchmark\.utils\.timer\.Timer\(timer\)": "there is no device to wait for",
    r"torch\.multiprocessing\.spawn\.SpawnContext": "one class, by its older name",
    r"torch\.nn\.parallel\.(distributed\.)?DistributedDataParallel(CPU)?": "there is one process",
    r"torch\.distributed\..*": "there is one process",
    r"torch\.cuda\.nccl\.is_available": "it says that nothing is",
    r"torch\.fx\.experimental\..*": "numbers and environments are maquette's own",
    r"torch\.overrides\.redispatch_function\(.*": "kwargs may be left out",
}  # fmt: skip
BOUNDS = {
    "absent": 110,
    "missing": 66,
    "member": 229,
    "refused": 1363,
    "module": 34,
    "more": 43,
    "untold": 11,
}


@pytest.fixture(scope="module")
def differences() -> list[tuple[str, str]]:
    """Kind and name of each difference."""
    done = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()[:-1]
    return [(kind, name) for kind, name, *_ in (line.split(maxsplit=2) for line in lines)]


def test_parameters_defaults_and_bases_are_pytorchs(differences: list[tuple[str, str]]) -> None:
    compared = {name for kind, name in differences if kind in ("parameters", "default", "base")}
    assert {n for n in compared if not any(re.fullmatch(p, n) for p in OTHERS)} == set()
    assert len(compared) <= 114


def test_every_reason_is_needed(differences: list[tuple[str, str]]) -> None:
    names = [name for _, name in differences]
    assert [p for p in OTHERS if not any(re.fullmatch(p, n) for n in names)] == []


def test_what_is_not_here_becomes_less(differences: list[tuple[str, str]]) -> None:
    counts = Counter(kind for kind, _ in differences)
    assert {k: n for k, n in counts.items() if k in BOUNDS and n > BOUNDS[k]} == {}
