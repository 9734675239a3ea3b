"""The process in which `library_tests.py` runs pytest, on PyTorch or with maquette as torch.

It reads what to run from the JSON file that it is given, and says what became of each test as JSON
lines on the given file descriptor.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Generator
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import pytest


class TooLong(BaseException):
    """The time of a test is over; no ``except Exception`` of a test shall take it."""


def _too_long(number: int, frame: FrameType | None) -> NoReturn:
    raise TooLong("took too long")


def _seed() -> None:
    random.seed(0)
    np.random.seed(0)
    importlib.import_module("torch").manual_seed(0)


def spread(items: list[Any], most: int) -> list[Any]:
    """At most ``most`` of the items, evenly from first to last."""
    if most <= 0 or len(items) <= most:
        return items
    return [items[round(i * (len(items) - 1) / max(1, most - 1))] for i in range(most)]


class Told:
    """A plugin of pytest that takes the wished tests, limits their time and tells outcomes."""

    def __init__(self, request: dict[str, Any], output: int) -> None:
        self._request = request
        self._output = output
        self._failed: tuple[str, str] | None = None
        self._skipped = False
        self._began = 0.0

    def _say(self, **what: Any) -> None:
        os.write(self._output, (json.dumps(what) + "\n").encode())

    def _outcome(self, test: str, result: str, message: str = "", where: str = "") -> None:
        self._say(test=test, result=result, message=message[:600], where=where)

    def _wished(self, test: str) -> bool:
        asked = self._request
        return (
            (not asked["only"] or any(text in test for text in asked["only"]))
            and not any(text in test for text in asked["without"])
            and test not in self._skip
        )

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what is wished and not done yet."""
        asked = self._request
        self._skip = frozenset(asked["skip"])
        if asked["names"] is not None:
            names = frozenset(asked["names"])
            items[:] = [item for item in items if item.nodeid in names]
        else:
            functions: dict[str, list[pytest.Item]] = defaultdict(list)
            for item in items:
                functions[item.nodeid.partition("[")[0]].append(item)
            items[:] = [one for of in functions.values() for one in spread(of, asked["most"])]
        items[:] = [item for item in items if self._wished(item.nodeid)]
        if asked["limit"]:
            items.sort(key=lambda item: zlib.crc32(item.nodeid.partition("::")[0].encode()))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that cannot be imported."""
        if report.failed and report.nodeid not in self._request["skip"]:
            text = str(report.longrepr)
            lines = [line for line in text.splitlines() if line.startswith("E  ")]
            places = [line for line in text.splitlines() if ": in " in line or ".py:" in line]
            message = " ".join(line[1:].strip() for line in lines) or text[-300:]
            self._outcome(report.nodeid, "failed", message, " < ".join(places[-4:])[:400])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Each test: its seeds, its time, its outcome."""
        self._failed, self._skipped = None, False
        self._began = self._began or time.process_time()
        if 0 < self._request["limit"] < time.process_time() - self._began:
            item.session.shouldstop = "the limit of time is reached"
        self._say(begin=item.nodeid)
        _seed()
        signal.setitimer(signal.ITIMER_PROF, self._request["timeout"])
        try:
            return (yield)
        except TooLong:
            self._failed = "took too long", ""
            return True
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            if self._failed is not None:
                self._outcome(item.nodeid, "failed", *self._failed)
            else:
                self._outcome(item.nodeid, "skipped" if self._skipped else "passed")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note a failure of set-up, call or tear-down, with the frames nearest to it."""
        report = yield
        if report.failed and self._failed is None:
            error = call.excinfo
            frames = [] if error is None else list(error.traceback)[-5:]
            where = " < ".join(f"{_short(f.path)}:{f.lineno + 1}" for f in frames[::-1])
            words = "" if error is None else f"{error.typename}: {error.value}"
            self._failed = words, where
        # A test that is marked as failing (xfail) is skipped, one way or the other.
        self._skipped |= report.skipped or hasattr(report, "wasxfail")
        return report

    def pytest_sessionfinish(self) -> None:
        """The end, if no test has ended the process before."""
        self._say(end=True)


def _short(path: object) -> str:
    return str(path).rpartition("site-packages/")[2].rpartition("/src/")[2]


def main() -> None:
    """Run the request in the file named first; tell on the descriptor given second."""
    with open(sys.argv[1], encoding="utf-8") as asked:
        request = json.load(asked)
    output = int(sys.argv[2])
    sys.path[0] = os.getcwd()  # as `python -m pytest` has it
    if request["side"] == "maquette":
        importlib.import_module("maquette.torch").install()
    signal.signal(signal.SIGPROF, _too_long)
    files = [file for file in request["files"] if not any(w in file for w in request["without"])]
    ignored = [f"--ignore-glob=*{text}*" for text in request["without"] if text.endswith(".py")]
    arguments = ["-q", "--no-header", "--continue-on-collection-errors", "--tb=short"]
    arguments += ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "-o", "addopts="]
    arguments += ["-o", "filterwarnings=ignore", "-o", "xfail_strict=false", *ignored]
    pytest.main([*arguments, *files], plugins=[Told(request, output)])


if __name__ == "__main__":
    main()
