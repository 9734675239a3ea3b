"""`Timer`: statements run as often as it takes to know how long one takes."""

from __future__ import annotations

import enum
import textwrap
import timeit
from collections.abc import Callable
from typing import Any, NoReturn

from maquette.torch.utils.benchmark.common import Measurement, TaskSpec, set_torch_threads

timer = timeit.default_timer  # operators have finished when they return

_FEWEST, _SHARE = 1, 1000.0
Callback = Callable[[int, float], object]


class Language(enum.Enum):
    """In what a statement is written; Python alone is run here."""

    PYTHON = 0
    CPP = 1


class Timer:
    """Times a Python statement, with a number of threads, after a preparing statement.

    globals: names that statements see, ``torch`` among them. label, sub_label and description name
    the row, group and column of a table (`Compare`). NotImplementedError for C++.
    """

    _timer_cls = timeit.Timer

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in (Language.PYTHON, "py", "python", "PYTHON"):
            raise NotImplementedError(
                f"torch.utils.benchmark.Timer with language={language!r} is not supported by "
                f"maquette: it times Python"
            )
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply "
                f"be moved to `setup`."
            )
        names = dict(globals or {})
        names.setdefault("torch", _torch())
        stmt, setup = _stripped(stmt), _stripped(setup)
        self._timer = self._timer_cls(stmt=stmt, setup=setup, timer=timer, globals=names)
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        # A clock too coarse may give 0, and a share of it nothing.
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of so many runs, after a few that are not counted."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """NotImplementedError: use `blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callback | None = None) -> NoReturn:
        """NotImplementedError: use `blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """So many runs that the clock's own time is a thousandth of theirs."""
        with set_torch_threads(self._task_spec.num_threads):
            overhead = sorted(self._timeit(0) for _ in range(5))[2]
            number = _FEWEST
            while True:
                taken = self._timeit(number)
                if overhead / taken <= 1 / _SHARE and taken >= min_run_time / 1000:
                    return number
                if taken > min_run_time:
                    return number
                number *= 10

    def blocked_autorange(
        self, callback: Callback | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Many measurements, of at least ``min_run_time`` seconds together.

        Each has as many runs as make the clock's own time small. callback: is told the runs and
        seconds of each.
        """
        number = self._block_size(min_run_time)
        times: list[float] = []
        with set_torch_threads(self._task_spec.num_threads):
            while sum(times) < min_run_time or not times:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callback | None = None,
    ) -> Measurement:
        """Measurements until they are as close as ``threshold`` says, or time is up."""
        number = self._block_size(0.05)
        times: list[float] = []
        with set_torch_threads(self._task_spec.num_threads):
            while sum(times) < max_run_time:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
                found = Measurement(number, times, self._task_spec)
                if (
                    len(times) > 3
                    and sum(times) > min_run_time
                    and found.meets_confidence(threshold)
                ):
                    break
        return Measurement(number, times, self._task_spec)

    def collect_callgrind(
        self,
        number: int = 100,
        *,
        repeats: int | None = None,
        collect_baseline: bool = True,
        retain_out_file: bool = False,
    ) -> NoReturn:
        """NotImplementedError: run Valgrind yourself."""
        raise NotImplementedError(
            "torch.utils.benchmark.Timer.collect_callgrind is not supported by maquette: run "
            "`valgrind --tool=callgrind python script.py`"
        )


def _stripped(code: str) -> str:
    return textwrap.dedent(code).strip("\n").rstrip()


def _torch() -> Any:
    import maquette.torch as torch  # noqa: PLC0415  # it imports this package's parents

    return torch
