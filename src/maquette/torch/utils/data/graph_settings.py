"""Settings of all pipes of a graph: parts for processes, shuffling, and seeds."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from maquette.api import functions as mq
from maquette.core.dtype import int64
from maquette.tensor.streams.generator import Generator
from maquette.torch.utils.data.datapipes.iter.sharding import (
    SHARDING_PRIORITIES,
    _ShardingIterDataPipe,
)
from maquette.torch.utils.data.graph import DataPipe, DataPipeGraph, traverse_dps

__all__ = [
    "apply_random_seed",
    "apply_sharding",
    "apply_shuffle_seed",
    "apply_shuffle_settings",
    "get_all_graph_pipes",
]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[Any]:
    """The pipes of a graph, each once, those that others are made from after them."""
    found: dict[int, Any] = {}

    def gather(part: DataPipeGraph) -> None:
        for number, (pipe, sources) in part.items():
            if number not in found:
                found[number] = pipe
                gather(sources)

    gather(graph)
    return list(found.values())


def apply_sharding(
    datapipe: DataPipe,
    num_of_instances: int,
    instance_id: int,
    sharding_group: int = SHARDING_PRIORITIES.DEFAULT,
) -> DataPipe:
    """Tell the pipes that have ``apply_sharding`` their part; give the pipe.

    RuntimeError if two of them are on one way: samples would be lost.
    """

    def tell(graph: DataPipeGraph, above: object) -> None:
        for pipe, sources in graph.values():
            if not _is_sharding_datapipe(pipe):
                tell(sources, above)
                continue
            if above is not None:
                raise RuntimeError(
                    "Sharding twice on a single pipeline is likely unintended and will cause data "
                    f"loss. Sharding already applied to {above} while trying to apply to {pipe}"
                )
            # Pipes of before there were groups take two arguments.
            if len(inspect.signature(pipe.apply_sharding).parameters) < 3:
                pipe.apply_sharding(num_of_instances, instance_id)
            else:
                pipe.apply_sharding(num_of_instances, instance_id, sharding_group=sharding_group)
            tell(sources, pipe)

    tell(traverse_dps(datapipe), None)
    return datapipe


def _has_method(pipe: object, name: str) -> bool:
    return inspect.ismethod(getattr(pipe, name, None))


def _is_sharding_datapipe(pipe: object) -> bool:
    return isinstance(pipe, _ShardingIterDataPipe) or _has_method(pipe, "apply_sharding")


def _is_shuffle_datapipe(pipe: object) -> bool:
    return _has_method(pipe, "set_shuffle") and _has_method(pipe, "set_seed")


def _is_random_datapipe(pipe: object) -> bool:
    return _has_method(pipe, "set_seed")


def _pipes(datapipe: DataPipe, chosen: Callable[[object], bool]) -> list[Any]:
    return [pipe for pipe in get_all_graph_pipes(traverse_dps(datapipe)) if chosen(pipe)]


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Tell the pipes that shuffle whether to; None leaves them. Gives the pipe.

    If there is none and ``shuffle`` is True, warns and gives the pipe, shuffled.
    """
    if shuffle is None:
        return datapipe
    shufflers = _pipes(datapipe, _is_shuffle_datapipe)
    if not shufflers and shuffle:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at "
            "the end. Be aware that the default buffer size might not be sufficient for your task.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def apply_shuffle_seed(datapipe: DataPipe, rng: Generator | None) -> DataPipe:
    """`apply_random_seed`, by its old name; warns."""
    warnings.warn(
        "`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future releases. "
        "Please use `apply_random_seed` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return apply_random_seed(datapipe, rng)


def apply_random_seed(datapipe: DataPipe, rng: Generator | None) -> DataPipe:
    """Give each pipe that has ``set_seed`` a seed, drawn by ``rng``; give the pipe."""
    for pipe in _pipes(datapipe, _is_random_datapipe):
        pipe.set_seed(int(mq.empty((), dtype=int64).random_(generator=rng).item()))
    return datapipe
