"""torch.utils.benchmark: timers, measurements, tables, drawn parameters."""

import pytest

import maquette as mq
from maquette.torch.utils import benchmark
from maquette.torch.utils.benchmark import Compare, Measurement, TaskSpec, Timer


def _measured(label: str, row: str, *times: float, threads: int = 1) -> Measurement:
    task = TaskSpec("x", "pass", "", "L", row, label, num_threads=threads)
    return Measurement(1, list(times), task)


def test_a_timer_runs_the_statement_as_often_as_it_says() -> None:
    calls: list[int] = []
    found = Timer("calls.append(1)", globals={"calls": calls}, label="L").timeit(200)
    assert len(calls) == 202  # two that are not counted
    assert (found.number_per_run, found.title) == (200, "L")
    assert found.median > 0


def test_statements_see_torch_and_what_the_setup_makes() -> None:
    made: list[object] = []
    Timer("made.append(x)", "x = torch.ones(2)", globals={"made": made}).timeit(1)
    assert isinstance(made[0], mq.Tensor)


def test_blocked_autorange_measures_long_enough() -> None:
    told: list[int] = []
    timer = Timer("sum(range(100))")
    found = timer.blocked_autorange(lambda runs, _: told.append(runs), min_run_time=0.01)
    assert sum(found.raw_times) >= 0.01
    assert told == [found.number_per_run] * len(found.times)


def test_a_measurement_knows_its_spread() -> None:
    found = _measured("a", "r", 1e-3, 1.1e-3, 1.2e-3, 2e-3, 3e-3)
    assert found.median == 1.2e-3
    assert found.iqr == pytest.approx(0.9e-3)
    assert found.has_warnings
    assert "Median: 1.20 ms\n  IQR:    0.90 ms (1.10 to 2.00)" in repr(found)


def test_times_of_one_task_are_merged() -> None:
    (merged,) = Measurement.merge([_measured("a", "r", 1.0), _measured("a", "r", 3.0)])
    assert merged.times == [1.0, 3.0]


def test_a_table_has_rows_by_label_and_columns_by_description() -> None:
    results = [_measured("a", "10", 2e-5), _measured("b", "10", 1e-5)]
    assert str(Compare(results)).split("\n") == [
        "[---------- L -----------]",
        "          |   a    |   b  ",
        "1 threads: ---------------",
        "      10  |  20.0  |  10.0",
        "",
        "Times are in microseconds (us).",
        "",
    ]


def test_c_plus_plus_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="it times Python"):
        Timer("x", language="c++")


def test_a_fuzzer_draws_what_meets_the_constraints_and_repeats_itself() -> None:
    parameters = [
        benchmark.FuzzedParameter("n", 2, 9, "loguniform"),
        benchmark.FuzzedParameter("m", distribution={1: 0.5, benchmark.ParameterAlias("n"): 0.5}),
    ]
    tensors = [benchmark.FuzzedTensor("x", size=("n", "m"), min_elements=4)]
    shapes = [
        [tuple(t["x"].shape) for t, _, _ in benchmark.Fuzzer(parameters, tensors, seed=1).take(5)]
        for _ in range(2)
    ]
    assert shapes[0] == shapes[1]
    assert all(n * m >= 4 and m in (1, n) for n, m in shapes[0])
