"""`Distribution`: batches of distributions over events, and how their parameters meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.core.dtype import finfo, get_default_dtype
from maquette.core.size import Size
from maquette.tensor.tensor import Tensor

Value = Tensor | float


class Distribution:
    """batch_shape: of independent distributions; event_shape: of one draw of one of them.

    A subclass sets its parameters, named in `parameter_names`, broadcast together.
    """

    has_rsample: ClassVar[bool] = False
    parameter_names: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self.batch_shape = Size(batch_shape)
        self.event_shape = Size(event_shape)

    @property
    def mean(self) -> Tensor:
        """The mean (*batch, *event)."""
        raise self._missing("mean")

    @property
    def variance(self) -> Tensor:
        """The variance (*batch, *event)."""
        raise self._missing("variance")

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws (*sample, *batch, *event), not followed by autograd."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws as functions of the parameters, which gradients reach."""
        raise self._missing("rsample")

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability of values, (*sample, *batch)."""
        raise self._missing("log_prob")

    def entropy(self) -> Tensor:
        """The entropy (*batch), in nats."""
        raise self._missing("entropy")

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return mq.exp(self.entropy())

    def _missing(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {name}, or not yet")

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size((*sample_shape, *self.batch_shape, *self.event_shape))

    def __repr__(self) -> str:
        parts = []
        for name in self.parameter_names:
            value: Tensor = getattr(self, name)
            scalar = value.numel() == 1 and not value.is_meta and value.fake_mode is None
            parts.append(f"{name}: {value if scalar else value.size()}")
        return f"{type(self).__name__}({', '.join(parts)})"


def broadcast_all(*values: Value) -> list[Tensor]:
    """Parameters as tensors of one shape; numbers take the dtype and device of the tensors."""
    like = next((value for value in values if isinstance(value, Tensor)), None)
    kind = get_default_dtype() if like is None else like.dtype
    place = None if like is None else like.device
    made = [
        value if isinstance(value, Tensor) else mq.tensor(value, dtype=kind, device=place)
        for value in values
    ]
    together: Any = mq.broadcast_tensors(*made)
    return list(together)


def clamped(probs: Tensor) -> Tensor:
    """Probabilities away from 0 and 1, so that their logarithms are finite."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)
