"""`torch.utils.data`: data sets, the orders to read them in, and loaders, all in this process."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.torch.utils.data.collate import default_collate, default_convert
from maquette.torch.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from maquette.torch.utils.data.distributed import DistributedSampler
from maquette.torch.utils.data.loader import DataLoader, get_worker_info
from maquette.torch.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

__getattr__ = forward(__name__)
