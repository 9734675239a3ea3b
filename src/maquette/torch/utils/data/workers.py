"""Worker processes of a `DataLoader`: each reads batches from its own copy of the data set.

The loader's process sends tasks, the indices of a batch each, to the workers in turn, some ahead of
what is asked for, and puts the batches that come back in order. Batches travel by pickle, so their
bytes are copied once. What a worker raises is raised again where the batch was asked for, with the
worker's traceback in its text; a worker that dies is noticed.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import random
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from maquette.aten.random.random_factories import manual_seed
from maquette.torch.settings import set_num_threads

MP_STATUS_CHECK_INTERVAL = 5.0  # seconds between looks whether workers live


class WorkerInfo(NamedTuple):
    """What a worker knows of itself: its number, how many there are, its seed, its data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: list[WorkerInfo | None] = [None]


def get_worker_info() -> WorkerInfo | None:
    """In a worker process, what it knows of itself; None in any other."""
    return _info[0]


class ExceptionWrapper:
    """An exception of another process or thread: its class, and its traceback as text."""

    def __init__(self, error: BaseException, where: str = "in background") -> None:
        self.exc_type = type(error)
        self.exc_msg = "".join(traceback.format_exception(error))
        self.where = where

    def reraise(self) -> None:
        """Raise it here: of its class if a text makes one, else a RuntimeError."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            text = _Shown(text)
        try:
            error = self.exc_type(text)
        except Exception:  # noqa: BLE001  # a class whose errors are made otherwise
            raise RuntimeError(text) from None
        raise error


class _Shown(str):
    """A text that a KeyError, which shows the repr of what it is given, shows line by line."""

    def __repr__(self) -> str:
        return self


class _Ended(NamedTuple):
    """A worker's word that its iterable data set has no more."""

    worker: int


class Settings(NamedTuple):
    """What a worker is told once: the data set, how to fetch, and who it is.

    seed_pipes: seeds the data set, if it is of pipes, by ``pipes_seed``.
    """

    dataset: Any
    fetcher: Callable[[Any], Callable[[Any], Any]]
    init: Callable[[int], None] | None
    worker: int
    workers: int
    seed: int
    seed_pipes: Callable[[Any, int | None], None] | None = None
    pipes_seed: int | None = None


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four numbers that seed NumPy's generator in a worker: other ones in each, as in PyTorch."""
    return np.random.SeedSequence([worker_id, base_seed]).generate_state(4).tolist()


def work(settings: Settings, tasks: Any, results: Any, done: Any) -> None:
    """A worker's life: fetch what it is told to until it is told None."""
    set_num_threads(1)  # the workers share the processors
    seed = settings.seed + settings.worker
    random.seed(seed)
    np.random.seed(_generate_state(settings.seed, settings.worker))
    manual_seed(seed)
    _info[0] = WorkerInfo(settings.worker, settings.workers, seed, settings.dataset)
    where = f"in DataLoader worker process {settings.worker}"
    failed: ExceptionWrapper | None = None
    fetch: Callable[[Any], Any] | None = None
    try:
        if settings.seed_pipes is not None:
            settings.seed_pipes(settings.dataset, settings.pipes_seed)
        if settings.init is not None:
            settings.init(settings.worker)
        fetch = settings.fetcher(settings.dataset)
    except Exception as error:  # noqa: BLE001  # sent to the loader
        failed = ExceptionWrapper(error, where)
    parent = os.getppid()
    while not done.is_set():
        try:
            task = tasks.get(timeout=MP_STATUS_CHECK_INTERVAL)
        except queue.Empty:
            if os.getppid() != parent:
                return  # the loader is no more
            continue
        if task is None:
            break
        number, indices = task
        if number is None:  # a new epoch: begin the data set again
            if settings.seed_pipes is not None:
                settings.seed_pipes(settings.dataset, indices)
            fetch = settings.fetcher(settings.dataset)
            continue
        results.put((number, _fetched(fetch, indices, failed, where, settings.worker)))
        failed = None
    if done.is_set():
        results.cancel_join_thread()  # nobody reads what is left


def _fetched(fetch: Any, indices: Any, failed: Any, where: str, worker: int) -> object:
    if failed is not None:
        return failed
    try:
        return fetch(indices)
    except StopIteration:
        return _Ended(worker)
    except Exception as error:  # noqa: BLE001  # sent to the loader
        return ExceptionWrapper(error, where)


class _Round:
    """One iteration: the tasks that are out, and the batches that came before their turn.

    After a batch that could not be made the next one follows.
    """

    def __init__(self, workers: Workers, indices: Iterator[Any]) -> None:
        self._workers = workers
        self._indices = indices
        self._alive = set(range(len(workers.tasks)))
        self._sent: set[int] = set()
        self._arrived: dict[int, object] = {}
        self._turn = self._number = self._wanted = 0
        self._exhausted = False
        self._send()  # at once, and with each batch that comes: samplers draw when they are asked

    def __iter__(self) -> _Round:
        return self

    def __next__(self) -> Any:
        while True:
            if not self._sent and not self._arrived:
                raise StopIteration
            chosen = self._wanted
            if not self._workers.in_order and self._arrived:
                chosen = next(iter(self._arrived))
            if chosen not in self._arrived:
                number, made = self._workers.receive()
                self._sent.discard(number)
                self._arrived[number] = made
                continue
            batch = self._arrived.pop(chosen)
            self._wanted = max(self._wanted, chosen + 1)
            if isinstance(batch, _Ended):
                self._alive.discard(batch.worker)
            self._send()
            if isinstance(batch, _Ended):
                continue
            if isinstance(batch, ExceptionWrapper):
                batch.reraise()
            return batch

    def _send(self) -> None:
        """Give the workers tasks, in turn, as far ahead as they may be."""
        tasks, ahead = self._workers.tasks, self._workers.ahead
        while not self._exhausted and self._alive and len(self._sent) + len(self._arrived) < ahead:
            try:
                task = next(self._indices)
            except StopIteration:
                self._exhausted = True
                return
            while self._turn % len(tasks) not in self._alive:
                self._turn += 1
            tasks[self._turn % len(tasks)].put((self._number, task))
            self._sent.add(self._number)
            self._turn, self._number = self._turn + 1, self._number + 1

    def end(self) -> None:
        """Take what is out: an epoch that was left is not to disturb the next."""
        while self._sent:
            self._sent.discard(self._workers.receive()[0])


class Workers:
    """The processes of one loader, their queues, and the order of what they do."""

    def __init__(self, loader: Any, seed: int, pipes_seed: int | None = None) -> None:
        context = loader.multiprocessing_context or multiprocessing
        self.timeout: float = loader.timeout
        self.in_order: bool = loader.in_order
        self.ahead: int = loader.prefetch_factor * loader.num_workers
        self.results = context.Queue()
        self.done = context.Event()
        self.tasks = [context.Queue() for _ in range(loader.num_workers)]
        self.round: _Round | None = None
        self.processes = []
        init, seed_pipes = loader._worker_begins
        for worker, tasks in enumerate(self.tasks):
            settings = Settings(
                loader.dataset,
                loader._fetcher,
                init,
                worker,
                loader.num_workers,
                seed,
                seed_pipes,
                pipes_seed,
            )
            process = context.Process(
                target=work, args=(settings, tasks, self.results, self.done), daemon=True
            )
            process.start()
            self.processes.append(process)

    def batches(self, indices: Iterator[Any]) -> Iterator[Any]:
        """What the workers make of the tasks, in order unless the loader said otherwise."""
        if self.round is not None:
            self.round.end()
        self.round = _Round(self, indices)
        return self.round

    def receive(self) -> tuple[int, object]:
        deadline = time.monotonic() + self.timeout if self.timeout else None
        while True:
            left = MP_STATUS_CHECK_INTERVAL
            if deadline is not None:
                left = min(left, max(deadline - time.monotonic(), 0.0))
            try:
                found: tuple[int, object] = self.results.get(timeout=left)
                return found
            except queue.Empty:
                self._check_alive()
                if deadline is not None and time.monotonic() >= deadline:
                    raise RuntimeError(
                        f"DataLoader timed out after {self.timeout} seconds"
                    ) from None

    def _check_alive(self) -> None:
        dead = [str(p.pid) for p in self.processes if not p.is_alive()]
        if dead:
            raise RuntimeError(
                f"DataLoader worker (pid(s) {', '.join(dead)}) exited unexpectedly; with "
                f"num_workers=0 the error is seen where it happens"
            )

    def begin_again(self, pipes_seed: int | None = None) -> None:
        """Let all workers begin the data set anew: a new epoch of workers that stay."""
        for tasks in self.tasks:
            tasks.put((None, pipes_seed))

    def _shutdown_workers(self) -> None:
        """PyTorch's name of `close`, which programs call."""
        self.close()

    def close(self) -> None:
        """End the processes; again is harmless."""
        if self.done.is_set():
            return
        self.done.set()
        for tasks in self.tasks:
            tasks.put(None)
        for process in self.processes:
            process.join(timeout=MP_STATUS_CHECK_INTERVAL)
            if process.is_alive():
                process.terminate()
                process.join()
        for waiting in (self.results, *self.tasks):
            waiting.cancel_join_thread()
            waiting.close()
