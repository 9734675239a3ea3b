"""`torch.multiprocessing.spawn`: a function run in some processes, and waited for together.

The first process that fails ends the others; its traceback is in the error that `join` raises.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any


class ProcessException(Exception):
    """A process failed; ``error_index`` and ``error_pid`` say which."""

    def __init__(self, msg: str, error_index: int, error_pid: int | None) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = self.pid = error_pid


class ProcessRaisedException(ProcessException):
    """The function raised in a process; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """A process ended otherwise, by a signal or an exit code."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int | None,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name


def _run(fn: Callable[..., object], index: int, args: tuple[object, ...], errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent has it too
    except Exception:  # noqa: BLE001  # whatever the function raises is told
        errors.put((index, traceback.format_exc()))
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that run together; `join` waits for them."""

    def __init__(self, processes: list[Any], error_files: Any) -> None:
        self.processes = processes
        self._errors = error_files

    def pids(self) -> list[int | None]:
        """The ids of the processes."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait; True once all have ended well.

        timeout: seconds, after which False is given. grace_period: seconds that the others have
        when one failed. Raises ProcessRaisedException or ProcessExitedException for the first that
        failed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        running = {process.sentinel: process for process in self.processes}
        while running:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ended = wait(list(running), left)
            if not ended:
                return False
            for sentinel in ended:
                process = running.pop(sentinel)  # wait gives them back
                process.join()
                if process.exitcode != 0:
                    self._fail(process, grace_period)
        return True

    def _fail(self, failed: Any, grace_period: float | None) -> None:
        for process in self.processes:
            if process.is_alive():
                if grace_period:
                    process.join(grace_period)
                process.terminate()
        for process in self.processes:
            process.join()
        index = self.processes.index(failed)
        if failed.exitcode > 0 and not self._errors.empty():
            which, text = self._errors.get()
            raise ProcessRaisedException(
                f"\n\n-- Process {which} terminated with the following error:\n{text}",
                which,
                self.processes[which].pid,
            )
        if failed.exitcode < 0:
            name = signal.Signals(-failed.exitcode).name
            raise ProcessExitedException(
                f"process {index} terminated with signal {name}", index, failed.pid,
                failed.exitcode, name,
            )  # fmt: skip
        raise ProcessExitedException(
            f"process {index} terminated with exit code {failed.exitcode}", index, failed.pid,
            failed.exitcode,
        )  # fmt: skip


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., object],
    args: tuple[object, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call ``fn(index, *args)`` in ``nprocs`` processes; their context, unless joined."""
    context: Any = multiprocessing.get_context(start_method)
    errors = context.SimpleQueue()
    processes = [
        context.Process(target=_run, args=(fn, index, args, errors), daemon=daemon)
        for index in range(nprocs)
    ]
    for process in processes:
        process.start()
    running = ProcessContext(processes, errors)
    if not join:
        return running
    while not running.join():
        pass
    return None


def spawn(
    fn: Callable[..., object],
    args: tuple[object, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` with processes that begin anew."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
