"""Profilers: what ran, in which order, within what; sums, tables and traces of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.aten import profiler_ranges
from maquette.dispatch.modes import TorchDispatchMode
from maquette.torch.autograd import profiler_util
from maquette.torch.autograd.profiler import record_function
from maquette.torch.autograd.profiler_util import EventList, FunctionEvent, FunctionEventAvg
from maquette.torch.profiler import ProfilerAction, profile, schedule


def whole(**options: Any) -> Any:
    return torch.autograd.profiler.profile(**options)


def names(events: EventList) -> list[str]:
    return [event.name for event in events]


def test_operators_and_labels_come_in_the_order_of_their_beginning() -> None:
    x = mq.ones(2)
    with whole() as prof:
        with record_function("outer"):
            y = x * 2
            with record_function("inner"):
                y - 1
        y / 1
    found = names(prof.function_events)
    assert found == ["outer", "aten::mul", "inner", "aten::sub", "aten::div"]
    inner = prof.function_events[2]
    assert inner.cpu_parent is prof.function_events[0]
    assert names(inner.cpu_children) == ["aten::sub"]


def test_backward_is_seen_as_the_operators_that_it_calls() -> None:
    x = mq.ones(2, 2, requires_grad=True)
    with whole() as prof:
        (x @ x).sum().backward()
    assert names(prof.function_events).count("aten::mm") == 3


def test_an_operator_that_is_made_of_others_is_seen_above_them() -> None:
    x, weight = mq.ones(2, 3), mq.ones(4, 3)
    with whole(record_shapes=True) as prof:
        mq.nn.functional.linear(x, weight)
    made, *parts = prof.function_events
    assert (made.name, made.input_shapes) == ("aten::linear", [[2, 3], [4, 3], []])
    assert names(made.cpu_children) == ["aten::t", "aten::matmul"]
    assert names(parts)[-1] == "aten::mm"


def test_nodes_of_backward_are_seen_above_what_they_call() -> None:
    x = mq.ones(2, requires_grad=True)
    y = (x * 3).sum()
    with whole() as prof:
        y.backward()
    (product,) = [event for event in prof.function_events if event.name == "aten::mul"]
    assert product.cpu_parent.name == "MulBackward0"
    assert product.cpu_parent.cpu_parent.name.endswith("evaluate_function: MulBackward0")
    assert "torch::autograd::AccumulateGrad" in names(prof.function_events)


def test_nothing_is_seen_after_the_block() -> None:
    with whole() as prof:
        assert torch.autograd._profiler_enabled()
    mq.ones(2) * 2
    assert not torch.autograd._profiler_enabled()
    assert len(prof.function_events) == 0


def test_shapes_memory_stacks_and_flops_are_told_where_asked() -> None:
    a, b = mq.ones(4, 8), mq.ones(8, 2)
    with whole(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True) as prof:
        c = mq.mm(a, b)
    event = prof.function_events[0]
    assert event.input_shapes == [[4, 8], [8, 2]]
    assert event.cpu_memory_usage == c.nbytes
    assert event.flops == 2 * 4 * 8 * 2
    assert "test_shapes_memory_stacks" in event.stack[0]


def test_sums_add_up_and_tell_shapes_apart_where_asked() -> None:
    with whole(record_shapes=True) as prof:
        for size in (2, 2, 3):
            mq.neg(mq.ones(size))
    by_name = {e.key: e for e in prof.key_averages()}
    assert by_name["aten::neg"].count == 3
    by_shape = [e for e in prof.key_averages(group_by_input_shape=True) if e.key == "aten::neg"]
    assert [(e.input_shapes, e.count) for e in by_shape] == [([[2]], 2), ([[3]], 1)]
    assert prof.total_average().count == len(prof.function_events)


def test_a_table_has_a_line_for_each_event_and_is_sorted() -> None:
    with whole() as prof:
        mq.ones(2).neg().exp()
    table = prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=2, header="TEST")
    assert table.splitlines()[1] == "TEST"
    assert table.count("aten::") == 2
    assert "Self CPU time total" in table
    assert str(prof) == prof.table()


def test_times_nest() -> None:
    events = EventList()
    for number, (thread, start, end) in enumerate(
        [(1, 0, 1), (1, 1, 2), (0, 0, 2), (0, 1, 2), (0, 1, 3)]
    ):
        events.append(FunctionEvent(number, "", thread, start, end))
    events._populate_cpu_children()
    assert [[c.id for c in event.cpu_children] for event in events] == [[], [], [], [], [3]]
    assert events[4].self_cpu_time_total == 1


def test_a_sum_of_events_has_a_mean() -> None:
    total = FunctionEventAvg()
    for number, end in enumerate((5, 10)):
        total.add(FunctionEvent(number, "foo", 0, 0, end))
    total.add(total)
    assert (total.key, total.count, total.cpu_time_total) == ("foo", 4, 30)
    assert total.cpu_time == 7.5


@pytest.mark.parametrize(
    "time_us, text", [(1.5, "1.500us"), (1500, "1.500ms"), (2_500_000, "2.500s")]
)
def test_times_have_units(time_us: float, text: str) -> None:
    assert profiler_util._format_time(time_us) == text


def test_a_schedule_goes_round() -> None:
    action = schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    assert [action(step).name for step in range(6)] == [
        "NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="Invalid profiler schedule"):
        schedule(wait=1, warmup=0, active=0)


def test_rounds_of_steps_are_handed_over_as_they_end() -> None:
    seen = []

    def ready(prof: profile) -> None:
        seen.append((prof.step_num, names(prof.events()).count("aten::neg")))

    x = mq.ones(2)
    with profile(schedule=schedule(wait=1, warmup=0, active=2), on_trace_ready=ready) as prof:
        for _ in range(6):
            x.neg()
            prof.step()
    assert seen == [(3, 2), (6, 2)]
    assert prof.current_action is ProfilerAction.NONE


def test_a_trace_is_json_for_viewers(tmp_path: Path) -> None:
    with profile(record_shapes=True) as prof:
        mq.ones(3).neg()
    prof.add_metadata("who", "me")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["who"] == "me"
    event = trace["traceEvents"][-1]
    assert (event["name"], event["ph"], event["args"]) == ("aten::neg", "X", {"Input Dims": [[3]]})


def test_stacks_are_written_for_flame_graphs(tmp_path: Path) -> None:
    with profile(with_stack=True) as prof:
        mq.ones(3).neg()
    prof.export_stacks(str(tmp_path / "stacks"))
    assert "test_stacks_are_written" in (tmp_path / "stacks").read_text()


def test_a_range_of_the_operators_is_seen() -> None:
    with whole() as prof:
        handle = torch.ops.profiler._record_function_enter_new("bar")
        torch.ops.profiler._record_function_exit(handle)
    assert "bar" in names(prof.function_events)


def test_questions_before_the_end_are_refused() -> None:
    prof = whole()
    with prof, pytest.raises(RuntimeError, match="didn't finish"):
        prof.table()
    with pytest.raises(RuntimeError, match="not reentrant"):
        prof.__enter__()


def test_a_range_of_the_first_operators_is_seen() -> None:
    with whole() as prof:
        handle = mq.ops.profiler._record_function_enter("bar")
        mq.ones(2) * 2
        mq.ops.profiler._record_function_exit(handle)
    bar = next(event for event in prof.function_events if event.name == "bar")
    assert "aten::mul" in names(bar.cpu_children)


def test_a_table_of_names_is_a_dictionary_with_defaults():
    table = torch.autograd.profiler_util.StringTable(list)
    assert table["name"] == "name"
    assert table.default_factory is list
    with pytest.raises(TypeError):
        torch.autograd.profiler_util.StringTable("not callable")


def test_the_ends_of_a_range_are_operators_to_modes_and_in_graphs() -> None:
    def program(x: mq.Tensor) -> mq.Tensor:
        with record_function("part"):
            return x + 1

    called = [node.target for node in mq.fx.make_fx(program)(mq.ones(2)).graph.nodes]
    ranges = torch.ops.profiler
    assert called[1:-1] == [
        ranges._record_function_enter_new.default,
        torch.ops.aten.add.Tensor,
        ranges._record_function_exit._RecordFunction,
    ]


class _Told(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_label_that_nobody_hears_runs_no_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(profiler_ranges, "begin_range", lambda *a: ran.append("begun") or [])
    with record_function("x"), mq.inference_mode(), record_function("y"):
        pass
    assert ran == []
    with _Told() as mode, record_function("x"):
        pass
    assert ran == ["begun"]
    assert mode.names == [
        "_record_function_enter_new.default",
        "_record_function_exit._RecordFunction",
    ]


def test_who_comes_within_a_label_hears_of_its_end_alone() -> None:
    label, mode = record_function("x"), _Told()
    label.__enter__()
    with mode:
        label.__exit__()
    assert mode.names == ["_record_function_exit._RecordFunction"]
    label.__enter__()
    with whole() as prof:
        label.__exit__()
    assert names(prof.function_events) == []


def test_a_label_is_a_string_whoever_hears() -> None:
    with pytest.raises(RuntimeError, match="'str' for argument 'name'"):
        record_function(3).__enter__()  # type: ignore[arg-type]
