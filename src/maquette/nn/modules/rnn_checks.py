"""What a recurrent module checks and permutes, under the names that subclasses call and override.

`rnn.py`'s own `forward` has its checks where it works out the shapes; these say the same.
"""

from __future__ import annotations

import warnings
from typing import Any

from maquette.nn.base import Module
from maquette.tensor import Tensor

Size = tuple[int, int, int]


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """The members along a dimension in another order; deprecated, for `index_select`."""
    warnings.warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` "
        "instead",
        FutureWarning,
        stacklevel=2,
    )
    return tensor.index_select(dim, permutation)


class RecurrentChecks(Module):
    """Checks of inputs and states; the base of `RNNBase`."""

    input_size: int
    hidden_size: int
    num_layers: int
    proj_size: int
    batch_first: bool
    bidirectional: bool

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """RuntimeError for an input of another rank or size; batch_sizes: of a packed one."""
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.size(-1)}"
            )

    def _batch_of(self, input: Tensor, batch_sizes: Tensor | None) -> int:
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return int(input.size(0 if self.batch_first else 1))

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> Size:
        """(layers and directions, batch, width) of the hidden state for an input."""
        directions = 2 if self.bidirectional else 1
        width = self.proj_size or self.hidden_size
        return self.num_layers * directions, self._batch_of(input, batch_sizes), width

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> Size:
        """(layers and directions, batch, hidden_size) of an LSTM's cell state for an input."""
        layers, batch, _ = self.get_expected_hidden_size(input, batch_sizes)
        return layers, batch, self.hidden_size

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: Size, msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """RuntimeError with ``msg`` for a state of another size."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """RuntimeError for an input or a state, a pair for an LSTM, of another size."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        if not isinstance(hidden, tuple):
            self.check_hidden_size(hidden, expected)
            return
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        cell = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], cell, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The state, a pair for an LSTM, with its batch in another order."""
        if permutation is None:
            return hx
        if isinstance(hx, tuple):
            return tuple(member.index_select(1, permutation) for member in hx)
        return hx.index_select(1, permutation)
