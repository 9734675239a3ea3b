"""`DistributedSampler`: each of several processes reads its own share of a data set."""

from __future__ import annotations

import math
from collections.abc import Iterator

from maquette.api import functions as mq
from maquette.tensor.streams.generator import Generator
from maquette.torch.distributed.groups import get_rank, get_world_size
from maquette.torch.utils.data.dataset import Sized
from maquette.torch.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th place from `rank` on, of the places in order or shuffled.

    Both are those of the default process group unless given; ValueError without one. drop_last:
    leave out the rest that is no full round; otherwise places are repeated. `set_epoch` shuffles
    anew.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None:
            num_replicas = get_world_size()
        if rank is None:
            rank = get_rank()
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        rounds = len(dataset) / num_replicas
        self.num_samples = math.floor(rounds) if drop_last else math.ceil(rounds)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        places = list(range(count))
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            places = mq.randperm(count, generator=generator).tolist()
        repeats = math.ceil(self.total_size / count) if count else 0
        return iter((places * max(1, repeats))[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Shuffle anew: all processes by the same number."""
        self.epoch = epoch
