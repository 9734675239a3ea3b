"""What pipes that shuffle have in common: whether they do, and the seed of their numbers."""

from __future__ import annotations

import random
from typing import Self

from maquette.api import functions as mq
from maquette.core.dtype import int64


class Seeded:
    """A generator of Python's numbers, seeded anew for each iteration."""

    def __init__(self) -> None:
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Whether samples are shuffled."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """The seed of the next iteration; the ones after it draw theirs."""
        self._seed = seed
        return self

    def _reseed(self) -> None:
        """Begin with the seed that was given, or one drawn by torch's generator."""
        if self._seed is None:
            self._seed = int(mq.empty((), dtype=int64).random_().item())
        self._rng.seed(self._seed)
        self._seed = None
