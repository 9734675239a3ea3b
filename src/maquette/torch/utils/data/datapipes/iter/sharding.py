"""`ShardingFilter`: of processes that read one pipe, each takes its part of the samples."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from itertools import islice
from typing import Any

from maquette.torch.utils.data.datapipes._decorator import functional_datapipe
from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe
from maquette.torch.utils.data.datapipes.iter.lengths import length_of

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(enum.IntEnum):  # PyTorch's name
    """Which processes share: those of lower numbers are the outer ones."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


class _ShardingIterDataPipe(IterDataPipe[Any]):
    """A pipe that can be told its part."""

    def apply_sharding(
        self, num_of_instances: int, instance_id: int, sharding_group: SHARDING_PRIORITIES
    ) -> None:
        """Take part ``instance_id`` of ``num_of_instances``."""
        raise NotImplementedError


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(_ShardingIterDataPipe):
    """Every n-th sample, once ``apply_sharding`` has said of how many; before, all.

    sharding_group_filter: the only group of processes that it shares among.

    (functional name: ``sharding_filter``)
    """

    def __init__(
        self, source_datapipe: IterDataPipe[Any], sharding_group_filter: int | None = None
    ) -> None:
        self.source_datapipe = source_datapipe
        self.sharding_group_filter = sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self.num_of_instances = 1
        self.instance_id = 0

    def apply_sharding(
        self,
        num_of_instances: int,
        instance_id: int,
        sharding_group: int = SHARDING_PRIORITIES.DEFAULT,
    ) -> None:
        """Take part ``instance_id`` of ``num_of_instances`` in a group of processes.

        ValueError if there is no such part, RuntimeError if the default group meets others.
        """
        if instance_id >= num_of_instances:
            raise ValueError(
                f"instance_id({instance_id}) should be smaller than "
                f"num_of_instances({num_of_instances})"
            )
        default = SHARDING_PRIORITIES.DEFAULT
        if any((group == default) != (sharding_group == default) for group in self.groups):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = (num_of_instances, instance_id)
        self._update_num_of_instances()

    def _update_num_of_instances(self) -> None:
        """One number of parts for all groups: the inner ones' samples lie farther apart."""
        only = self.sharding_group_filter
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups, reverse=True):
            if only is None or group == only:
                parts, part = self.groups[group]
                self.instance_id += self.num_of_instances * part
                self.num_of_instances *= parts

    def __iter__(self) -> Iterator[Any]:
        yield from islice(self.source_datapipe, self.instance_id, None, self.num_of_instances)

    def __len__(self) -> int:
        whole, rest = divmod(length_of(self.source_datapipe, self), self.num_of_instances)
        return whole + (self.instance_id < rest)
