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
    "DFIterDataPipe",
    "DataChunk",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "argument_validation",
    "default_collate",
    "default_convert",
    "functional_datapipe",
    "get_worker_info",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "random_split",
    "runtime_validation",
    "runtime_validation_disabled",
]

# Pipes are loaded by those who ask for them.
__getattr__ = forward(
    __name__,
    "maquette.torch.utils.data.datapipes.datapipe",
    "maquette.torch.utils.data.datapipes._decorator",
)
