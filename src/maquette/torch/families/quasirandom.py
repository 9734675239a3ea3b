"""`torch.quasirandom`: Sobol's points, which fill the unit cube more evenly than random ones.

The direction numbers are Joe and Kuo's, as SciPy has them. A point is the one before it, with the
bits of one column of them turned over.
"""

from __future__ import annotations

import importlib
from typing import ClassVar

import numpy as np

from maquette.api import functions as mq
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import get_default_dtype, int64
from maquette.tensor.tensor import Tensor


class SobolEngine:
    """Draws points (n, dimension) of the unit cube in Sobol's order.

    scramble: by a random matrix and shift, from ``seed``. ValueError for a dimension outside of
    1 to 21201.
    """

    MAXBIT: ClassVar[int] = 30
    MAXDIM: ClassVar[int] = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], got "
                f"{dimension}"
            )
        self.dimension = dimension
        self.scramble = scramble
        self.seed = seed
        sobol = importlib.import_module("scipy.stats").qmc.Sobol
        columns = sobol(dimension, scramble=False, bits=self.MAXBIT)._sv
        self.sobolstate: Tensor = mq.from_numpy(columns.astype(np.int64))
        self.shift: Tensor = mq.zeros(dimension, dtype=int64)
        if scramble:
            self._scramble()
        self.quasi: Tensor = self.shift.clone()
        self.num_generated = 0

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = mq.Generator()
            generator.manual_seed(self.seed)
        bits = self.MAXBIT
        shifts = mq.randint(2, (self.dimension, bits), generator=generator)
        self.shift = (shifts * 2 ** mq.arange(bits)).sum(1)
        rows = mq.randint(2, (self.dimension, bits, bits), generator=generator).tril()
        rows.diagonal(0, -2, -1).fill_(1)
        weights = 2 ** mq.arange(bits - 1, -1, -1)
        masks = (rows * weights).sum(-1).numpy()  # (dimension, bits)
        met = masks[:, None, :] & self.sobolstate.numpy()[:, :, None]
        parity = np.bitwise_count(met) & 1 if hasattr(np, "bitwise_count") else _parity(met)
        self.sobolstate = mq.from_numpy((parity * weights.numpy()).sum(-1))

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next n points; of the default dtype unless one is given."""
        kind = dtype or get_default_dtype()
        columns = self.sobolstate.numpy()
        points = np.empty((n, self.dimension), np.int64)
        current = self.quasi.numpy()
        for i in range(n):
            if self.num_generated + i:
                column = columns[:, _lowest_zero(self.num_generated + i - 1)]
                current = np.bitwise_xor(current, column)
            points[i] = current
        self.quasi = mq.from_numpy(current)
        self.num_generated += n
        made: Tensor = mq.from_numpy(points / 2.0**self.MAXBIT).to(kind)
        return made if out is None else out.resize_(made.shape).copy_(made)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next 2**m points; ValueError unless their number stays a power of two."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                f"'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Go back to the first point; itself."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next n points; itself."""
        self.draw(n)
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] if self.scramble else []
        parts += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(parts)})"


def _lowest_zero(number: int) -> int:
    """The place of the lowest bit that is 0."""
    return (~number & (number + 1)).bit_length() - 1


def _parity(values: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> object:
    for step in (16, 8, 4, 2, 1):
        values = values ^ (values >> step)
    return values & 1


__all__ = ["SobolEngine"]
