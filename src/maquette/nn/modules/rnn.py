"""Recurrent layers: RNN, LSTM, GRU over whole sequences, and their cells for a step at a time.

The layers own parameters and check and arrange their arguments; the steps are the operators of
`aten/nn/recurrent/recurrence.py`. Parameters are named as in PyTorch: ``weight_ih_l0``,
``weight_hh_l0``, ``bias_ih_l0``, ``bias_hh_l0``, with ``_reverse`` for the second direction.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from maquette.api import functions as mq
from maquette.aten.nn.recurrent.recurrence import CELLS, State, Weights, recur
from maquette.core.dtype import dtype as dtype_
from maquette.nn import init
from maquette.nn.base import Module
from maquette.nn.modules._construct import DeviceLike, add_parameter
from maquette.nn.modules.rnn_checks import RecurrentChecks
from maquette.nn.modules.rnn_checks import apply_permutation as apply_permutation
from maquette.nn.utils.rnn import PackedSequence
from maquette.tensor import Tensor
from maquette.transforms.autocast import is_any_enabled

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
Input = Tensor | PackedSequence
Hidden = Tensor | tuple[Tensor, Tensor]
R = TypeVar("R", bound="RNNBase")


class RNNBase(RecurrentChecks):
    """The base of `RNN`, `LSTM` and `GRU`; mode: RNN_TANH, RNN_RELU, LSTM or GRU.

    Weights (gates * hidden_size, size), uniform within 1/sqrt(hidden_size).
    """

    _mq_given: dict[str, Tensor] | None = None  # weights in the place of the attributes

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._mq_check_options()
        gates = _GATES[mode] * hidden_size
        output = proj_size or hidden_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            layer_input = input_size if layer == 0 else output * self._mq_directions
            shapes = {
                "weight_ih": (gates, layer_input),
                "weight_hh": (gates, output),
                "bias_ih": (gates,),
                "bias_hh": (gates,),
                "weight_hr": (proj_size, hidden_size),
            }
            if not bias:
                del shapes["bias_ih"], shapes["bias_hh"]
            if not proj_size:
                del shapes["weight_hr"]
            for suffix in ("", "_reverse")[: self._mq_directions]:
                names = {kind: f"{kind}_l{layer}{suffix}" for kind in shapes}
                for kind, name in names.items():
                    add_parameter(self, name, shapes[kind], device, dtype)
                self._all_weights.append(list(names.values()))
        self.reset_parameters()

    @property
    def _mq_directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _mq_check_options(self) -> None:
        if self.mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {self.mode}")
        if not 0 <= self.dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                f"element being zeroed; got {self.dropout}"
            )
        if self.dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={self.dropout} and "
                "num_layers=1",
                stacklevel=4,
            )
        for name in ("input_size", "hidden_size", "bias", "batch_first"):
            kind = int if name.endswith("size") else bool
            if not isinstance(given := getattr(self, name), kind):
                of = type(given).__name__
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {of}")
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero; got {getattr(self, name)}")
        if not 0 <= self.proj_size < self.hidden_size:
            raise ValueError(
                "proj_size has to be a positive integer, smaller than hidden_size, or zero to "
                f"disable projections; got {self.proj_size}"
            )

    def reset_parameters(self) -> None:
        """Draw new values, uniform within 1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: only a vendor's library wants the weights side by side in memory."""

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters, a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def __getstate__(self) -> dict[str, Any]:
        """The module's state, with the lists of weights that PyTorch keeps beside them."""
        flat = {
            "_flat_weights_names": self._flat_weights_names,
            "_flat_weights": self._flat_weights,
        }
        return super().__getstate__() | flat

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state; those lists follow from the parameters."""
        kept = ("_flat_weights_names", "_flat_weights", "_flat_weight_refs", "_mq_given")
        super().__setstate__({name: v for name, v in state.items() if name not in kept})

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Tensor]:
        return [self._mq_weight(name) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Tensor]) -> None:
        """Let `forward` compute with these, whatever the attributes are."""
        pairs = zip(self._flat_weights_names, weights, strict=True)
        self._mq_given = {n: w for n, w in pairs if w is not getattr(self, n, None)} or None

    def _mq_weight(self, name: str) -> Tensor:
        given = self._mq_given
        weight: Tensor = given[name] if given and name in given else getattr(self, name)
        return weight

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if self._mq_given is not None:
            self._mq_given.pop(name, None)

    def _apply(self: R, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> R:
        self._mq_given = None
        return super()._apply(fn, recurse)

    def forward(self, input: Input, hx: Any = None) -> tuple[Input, Any]:
        """Outputs of the last layer at every step, and the last state of every layer.

        input: (time, batch, input_size), batch_first (batch, time, input_size), without a batch
        (time, input_size), or packed. hx: the state to start from, zeros by default. Raises
        RuntimeError or ValueError for other shapes.
        """
        if isinstance(input, PackedSequence):
            return self._mq_forward_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, "
                f"got {input.dim()}D tensor instead"
            )
        batched = input.dim() == 3
        start = self._mq_members(hx)
        if start is not None:
            self._mq_check_dims(start, input, batched)
        batch = 0 if self.batch_first else 1
        steps = input
        if not batched:
            steps = input.unsqueeze(batch)
            start = None if start is None else tuple(member.unsqueeze(1) for member in start)
        output, last = self._mq_run(steps, start, steps.size(batch), None)
        if not batched:
            return output.squeeze(batch), self._mq_state(
                tuple(member.squeeze(1) for member in last)
            )
        return output, self._mq_state(last)

    def _mq_forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, order, back = input
        sizes = input.sizes()
        start = self._mq_members(hx)
        if start is not None:
            start = tuple(_permuted(member, order) for member in start)
        output, last = self._mq_run(data, start, sizes[0], sizes)
        state = self._mq_state(tuple(_permuted(member, back) for member in last))
        return PackedSequence(output, batch_sizes, order, back)._knowing(sizes), state

    def _mq_run(
        self, steps: Tensor, start: State | None, batch: int, sizes: list[int] | None
    ) -> tuple[Tensor, State]:
        kind = self._flat_weights[0].dtype
        if steps.dtype != kind and not is_any_enabled():
            raise ValueError(
                f"RNN input dtype ({steps.dtype}) does not match weight dtype ({kind}). Convert "
                f"input: input.to({kind}), or convert model: model.to({steps.dtype})"
            )
        if steps.size(-1) != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{steps.size(-1)}"
            )
        shapes = self._mq_state_shapes(batch)
        if start is None:
            like = {"dtype": steps.dtype, "device": steps.device}
            start = tuple(mq.zeros(shape, **like) for shape in shapes)
        for member, shape, what in zip(start, shapes, self._mq_state_names()):
            if tuple(member.shape) != shape:
                raise RuntimeError(f"Expected {what} size {shape}, got {list(member.shape)}")
        if sizes is None:
            output, *last = self._mq_network(steps, start)
            return output, tuple(last)
        # The operator would read the sizes from a tensor, which has no data in fake mode.
        return recur(
            CELLS[self.mode],
            steps,
            start,
            self._mq_weights(),
            directions=self._mq_directions,
            dropout=self.dropout if self.training else 0.0,
            batch_sizes=sizes,
        )

    def _mq_network(self, steps: Tensor, start: State) -> State:
        network = getattr(mq, self.mode.lower())
        hx = start[0] if len(start) == 1 else start
        results: State = network(
            steps,
            hx,
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            self.batch_first,
        )
        return results

    def _mq_weights(self) -> list[Weights]:
        listed = []
        for names in self._all_weights:
            by_kind = {name.partition("_l")[0]: self._mq_weight(name) for name in names}
            listed.append(
                Weights(
                    by_kind["weight_ih"],
                    by_kind["weight_hh"],
                    by_kind.get("bias_ih"),
                    by_kind.get("bias_hh"),
                    by_kind.get("weight_hr"),
                )
            )
        return listed

    def _mq_state_shapes(self, batch: int) -> list[tuple[int, int, int]]:
        return [(self.num_layers * self._mq_directions, batch, self.proj_size or self.hidden_size)]

    def _mq_state_names(self) -> tuple[str, ...]:
        return ("hidden",)

    def _mq_members(self, hx: Any) -> State | None:
        return None if hx is None else (hx,)

    def _mq_state(self, members: State) -> Hidden:
        return members[0]

    def _mq_check_dims(self, members: State, input: Tensor, batched: bool) -> None:
        wanted = 3 if batched else 2
        for member in members:
            if member.dim() != wanted:
                raise RuntimeError(
                    f"For {'batched 3-D' if batched else 'unbatched 2-D'} input, hx should also be "
                    f"{wanted}-D but got {member.dim()}-D tensor"
                )

    def extra_repr(self) -> str:
        """Sizes, and what is not the default."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        for name, default in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)


def _permuted(member: Tensor, order: Tensor | None) -> Tensor:
    return member if order is None else member.index_select(1, order)


class RNN(RNNBase):
    """h' = tanh(W x + b + V h + c), or relu, over a sequence (Elman 1990)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        if proj_size:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__(
            f"RNN_{_checked_nonlinearity(nonlinearity).upper()}",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )
        self.nonlinearity = nonlinearity


def _checked_nonlinearity(name: str) -> str:
    if name not in ("tanh", "relu"):
        raise ValueError(f"Unknown nonlinearity '{name}'. Select from 'tanh' or 'relu'.")
    return name


class LSTM(RNNBase):
    """Long short-term memory over a sequence; states are pairs (h, c).

    proj_size: project h to this size (Sak et al. 2014).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )

    def _mq_state_shapes(self, batch: int) -> list[tuple[int, int, int]]:
        ((count, batch, size),) = super()._mq_state_shapes(batch)
        return [(count, batch, size), (count, batch, self.hidden_size)]

    def _mq_state_names(self) -> tuple[str, ...]:
        return ("hidden[0]", "hidden[1]")

    def _mq_members(self, hx: Any) -> State | None:
        return None if hx is None else tuple(hx)

    def _mq_state(self, members: State) -> Hidden:
        h, c = members
        return h, c


class GRU(RNNBase):
    """Gated recurrent units over a sequence."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        if proj_size:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )


# --- cells ---------------------------------------------------------------------------


class RNNCellBase(Module):
    """The base of the cells: weight_ih (chunks * hidden_size, input_size), weight_hh, biases."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        add_parameter(self, "weight_ih", (rows, input_size), device, dtype)
        add_parameter(self, "weight_hh", (rows, hidden_size), device, dtype)
        add_parameter(self, "bias_ih", (rows,), device, dtype, wanted=bias)
        add_parameter(self, "bias_hh", (rows,), device, dtype, wanted=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values, uniform within 1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, mode: str, input: Tensor, state: State | None) -> State:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        batched = input.dim() == 2
        for place, member in enumerate(state or ()):
            if member.dim() not in (1, 2):
                which = f"hx[{place}]" if mode == "LSTM" else "hidden"
                raise ValueError(
                    f"{name}: Expected {which} to be 1D or 2D, got {member.dim()}D instead"
                )
        rows = input if batched else input.unsqueeze(0)
        if state is None:
            zeros = mq.zeros(rows.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            state = (zeros,) * (2 if mode == "LSTM" else 1)
        elif not batched:
            state = tuple(member.unsqueeze(0) for member in state)
        cell = getattr(mq, f"{mode.lower()}_cell")
        hx = state if mode == "LSTM" else state[0]
        found = cell(rows, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        new: State = found if mode == "LSTM" else (found,)
        return new if batched else tuple(member.squeeze(0) for member in new)

    def extra_repr(self) -> str:
        """Sizes, and what is not the default."""
        parts = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            parts += f", bias={self.bias}"
        if self._mq_attributes.get("nonlinearity", "tanh") != "tanh":
            parts += f", nonlinearity={self._mq_attributes['nonlinearity']}"
        return parts


class RNNCell(RNNCellBase):
    """One step of `RNN`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """(batch, input_size) and (batch, hidden_size) to the next state; the batch optional."""
        mode = f"RNN_{_checked_nonlinearity(self.nonlinearity).upper()}"
        (h,) = self._step(mode, input, None if hx is None else (hx,))
        return h


class LSTMCell(RNNCellBase):
    """One step of `LSTM`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """(batch, input_size) and a pair (h, c) to the next pair; the batch optional."""
        h, c = self._step("LSTM", input, None if hx is None else tuple(hx))
        return h, c


class GRUCell(RNNCellBase):
    """One step of `GRU`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """(batch, input_size) and (batch, hidden_size) to the next state; the batch optional."""
        (h,) = self._step("GRU", input, None if hx is None else (hx,))
        return h
