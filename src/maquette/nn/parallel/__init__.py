"""Modules run on several devices: where there is none, `DataParallel` only holds its module."""

from __future__ import annotations

from maquette.nn.parallel.data_parallel import DataParallel, data_parallel
from maquette.nn.parallel.distributed import (
    DistributedDataParallel,
    DistributedDataParallelCPU,
)
from maquette.nn.parallel.parallel_apply import parallel_apply
from maquette.nn.parallel.replicate import replicate
from maquette.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "DistributedDataParallelCPU",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]
