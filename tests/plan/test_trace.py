"""Plans for other tools: trace events nest and end together, a snapshot frees what it makes."""

from __future__ import annotations

import json
import pathlib
import pickle

import pytest

import maquette as mq
from maquette import nn
from maquette.plan.compare import changes
from maquette.plan.plan import Plan, plan
from maquette.plan.trace import snapshot, trace_events, write_trace


@pytest.fixture(scope="module")
def made() -> Plan:
    net = nn.Sequential(nn.Linear(8, 16), nn.Sequential(nn.ReLU(), nn.Linear(16, 1)))
    return plan(net, (mq.empty(4, 8),), train=True, optimizer="sgd", loss=lambda y: y.sum())


def test_a_slice_for_each_operator_in_its_phase(made: Plan) -> None:
    slices = [e for e in trace_events(made) if e["ph"] == "X"]
    assert len([e for e in slices if e["tid"] == 1]) == len(made.operators)
    assert [e["name"] for e in slices if e["tid"] == 3] == ["forward", "backward", "step"]


def test_slices_of_modules_nest(made: Plan) -> None:
    slices = [e for e in trace_events(made) if e["tid"] == 2 and e["ph"] == "X"]
    inner = next(e for e in slices if e["name"] == "1" and e["dur"] == 2)
    outer = [e for e in slices if e["ts"] <= inner["ts"]]  # type: ignore[operator]
    assert any(e["name"] == "1" for e in outer)


def test_the_counter_reaches_the_peak(made: Plan) -> None:
    counts = [e["args"]["bytes"] for e in trace_events(made) if e["ph"] == "C"]  # type: ignore[index]
    assert max(counts) == made.peak_bytes


def test_a_snapshot_frees_what_it_makes_where_it_made_it(made: Plan) -> None:
    trace = snapshot(made)["device_traces"][0]  # type: ignore[index]
    held: dict[int, int] = {}
    for entry in trace:
        if entry["action"] == "alloc":
            held[entry["addr"]] = entry["size"]
        else:
            assert held.pop(entry["addr"]) == entry["size"]
    assert sum(held.values()) == made.timeline[-1][1]


def test_the_suffix_says_which_file_is_written(made: Plan, tmp_path: pathlib.Path) -> None:
    write_trace(made, tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))["traceEvents"]
    write_trace(made, tmp_path / "a.pickle")
    assert pickle.loads((tmp_path / "a.pickle").read_bytes())["device_traces"]


def test_changes_between_plans_begin_with_the_peak(made: Plan) -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.Sequential(nn.ReLU(), nn.Linear(16, 1)))
    larger = plan(net, (mq.empty(8, 8),), train=True, optimizer="sgd", loss=lambda y: y.sum())
    assert changes(made.to_dict(), made.to_dict()) == []
    first = changes(made.to_dict(), larger.to_dict())[0]
    assert (first.what, first.before, first.after) == (
        "peak memory",
        made.peak_bytes,
        larger.peak_bytes,
    )


def test_what_is_no_plan_cannot_be_compared(made: Plan) -> None:
    with pytest.raises(ValueError, match="no plan: a file that --json wrote"):
        changes({}, made.to_dict())
