"""`torch.utils.data.dataloader`: the loader and how it makes batches, at torch's path."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.torch.utils.data.collate import default_collate, default_convert
from maquette.torch.utils.data.loader import Batches as _BaseDataLoaderIter
from maquette.torch.utils.data.loader import (
    DataLoader,
    _InfiniteConstantSampler,
    get_worker_info,
)
from maquette.torch.utils.data.loader import WorkersBatches as _MultiProcessingDataLoaderIter
from maquette.torch.utils.data.workers import ExceptionWrapper

_SingleProcessDataLoaderIter = _BaseDataLoaderIter

__all__ = [
    "DataLoader",
    "ExceptionWrapper",
    "_BaseDataLoaderIter",
    "_InfiniteConstantSampler",
    "_MultiProcessingDataLoaderIter",
    "_SingleProcessDataLoaderIter",
    "default_collate",
    "default_convert",
    "get_worker_info",
]
__getattr__ = forward(__name__, "maquette.torch.utils.data")
