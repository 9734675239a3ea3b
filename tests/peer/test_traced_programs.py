"""Graphs and decompositions against PyTorch's, which `reference.py` recorded.

The programs are those of `traced_programs.py`.
"""

import json
from pathlib import Path

import pytest
from traced_programs import operators, programs

import maquette as mq
import maquette.torch as torch
from maquette.fx.decompositions import core_aten_decompositions

pytestmark = pytest.mark.peer

# PyTorch's autograd detaches the results that it saves, and shows it; ours does not.
UNSEEN = {"aten.detach.default"}


@pytest.mark.parametrize("name", programs())
def test_a_program_traces_to_pytorchs_operators(peer_folder: Path, name: str) -> None:
    theirs = json.loads((peer_folder / "graphs.json").read_text())[name]
    ours = operators(torch, mq.fx.make_fx, name)
    assert [o for o in ours if o not in UNSEEN] == [o for o in theirs if o not in UNSEEN]


def test_the_core_table_has_pytorchs_keys(peer_folder: Path) -> None:
    theirs = set(json.loads((peer_folder / "core_table.json").read_text()))
    ours = {str(op) for op in core_aten_decompositions()}
    packets = [getattr(mq.ops.aten, name, None) for name in dir(mq.ops.aten)]
    here = {str(o) for p in packets if hasattr(p, "op_overloads") for o in p.op_overloads()}
    missing = (theirs & here) - ours
    assert len(missing) <= 10, missing  # of sparse tensors, and made of others when asked for
    assert len(ours - theirs) <= 59, ours - theirs  # kernels there, defined by others here
