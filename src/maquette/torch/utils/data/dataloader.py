"""`torch.utils.data.dataloader`: the loader and how it makes batches, at torch's path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from maquette.torch.face.forwarding import forward
from maquette.torch.utils.data.collate import default_collate, default_convert
from maquette.torch.utils.data.loader import Batches as _BaseDataLoaderIter
from maquette.torch.utils.data.loader import (
    DataLoader,
    _DatasetKind,
    _InfiniteConstantSampler,
    get_worker_info,
)
from maquette.torch.utils.data.loader import WorkersBatches as _MultiProcessingDataLoaderIter
from maquette.torch.utils.data.workers import ExceptionWrapper

_SingleProcessDataLoaderIter = _BaseDataLoaderIter
_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_collate_fn_t = Callable[[list[_T]], Any]
_worker_init_fn_t = Callable[[int], None]

__all__ = [
    "DataLoader",
    "ExceptionWrapper",
    "_BaseDataLoaderIter",
    "_DatasetKind",
    "_InfiniteConstantSampler",
    "_MultiProcessingDataLoaderIter",
    "_SingleProcessDataLoaderIter",
    "_T_co",
    "_collate_fn_t",
    "_worker_init_fn_t",
    "default_collate",
    "default_convert",
    "get_worker_info",
]
__getattr__ = forward(__name__, "maquette.torch.utils.data")
