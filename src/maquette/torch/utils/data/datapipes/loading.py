"""Pipes in a `DataLoader`: what it does to them before it reads, here or in its workers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from maquette.api import functions as mq
from maquette.core.dtype import int64
from maquette.tensor.streams.generator import Generator
from maquette.torch.distributed.groups import get_rank, get_world_size, is_initialized
from maquette.torch.utils.data.datapipes.datapipe import (
    IterDataPipe,
    MapDataPipe,
    _IterDataPipeSerializationWrapper,
    _MapDataPipeSerializationWrapper,
)
from maquette.torch.utils.data.graph_settings import (
    apply_random_seed,
    apply_sharding,
    apply_shuffle_settings,
)
from maquette.torch.utils.data.workers import get_worker_info


def held(pipe: Any, shuffle: bool | None) -> Any:
    """The pipe as a loader holds it; one that is read in order is told whether to shuffle.

    PyTorch leaves a shuffler that it adds to the end out again; here it stays.
    """
    if isinstance(pipe, MapDataPipe):
        return _MapDataPipeSerializationWrapper(pipe)
    return _IterDataPipeSerializationWrapper(apply_shuffle_settings(pipe, shuffle))


def draw_seed(pipe: Any, generator: Any) -> int | None:
    """A seed for the pipes that shuffle, the same in all workers; None for pipes with keys."""
    if not isinstance(pipe, IterDataPipe):
        return None
    return int(mq.empty((), dtype=int64).random_(generator=generator).item())


def seed(pipe: Any, drawn: int | None) -> None:
    """Seed the pipes that shuffle."""
    if drawn is not None:
        generator = Generator()
        generator.manual_seed(drawn)
        apply_random_seed(pipe, generator)


def share(pipe: Any) -> None:
    """Tell a pipe its part among the processes of a group, where there is one."""
    parts, part = _group()
    apply_sharding(pipe, parts, part)


def sharing_init(init: Callable[[int], None] | None) -> Callable[[int], None]:
    """What a worker calls first: its pipe takes its part; then ``init``."""
    return functools.partial(_share_in_worker, init, *_group())


def _group() -> tuple[int, int]:
    return (get_world_size(), get_rank()) if is_initialized() else (1, 0)


def _share_in_worker(
    init: Callable[[int], None] | None, processes: int, process: int, worker: int
) -> None:
    info = get_worker_info()
    if info is None:
        raise AssertionError("a loader's worker knows what it is")
    # Processes share first, then the workers of each: all parts are of one length, or one more.
    apply_sharding(info.dataset, info.num_workers * processes, worker * processes + process)
    if init is not None:
        init(worker)
