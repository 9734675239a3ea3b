"""Softmax over many classes by a tree: frequent ones in the head, rare ones in clusters below.

Grave, Joulin, Cissé, Grangier, Jégou 2017. Classes must be numbered by falling frequency.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from maquette.api import functions as mq
from maquette.core.dtype import dtype as dtype_
from maquette.nn import functional as F
from maquette.nn.base import Module
from maquette.nn.modules._construct import DeviceLike
from maquette.nn.modules.container import ModuleList, Sequential
from maquette.nn.modules.linear import Linear
from maquette.tensor import Tensor


class ASMoutput(NamedTuple):
    """The target's log probability of each sample, and the mean of their negatives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """cutoffs: where clusters begin; each projects to in_features / div_value**i features first.

    Raises ValueError for cutoffs that are not increasing classes.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__()
        places = list(cutoffs)
        if not places:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = all(earlier < later for earlier, later in pairwise(places))
        if not rising or min(places) <= 0 or max(places) > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an "
                f"increasing order, where each value is between 1 and n_classes-1; got {places}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*places, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            features = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            first = Linear(in_features, features, False, device, dtype)
            self.tail.append(Sequential(first, Linear(features, size, False, device, dtype)))

    def reset_parameters(self) -> None:
        """Draw new values."""
        self.head.reset_parameters()
        for projection in self.tail:
            for layer in projection.children():
                if isinstance(layer, Linear):
                    layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> ASMoutput:
        """(batch, in_features) and (batch,) classes, or one sample without a batch."""
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        if input.size(0) != target.size(0):
            raise RuntimeError(
                f"Input and target should have the same size in the batch dimension; got "
                f"{input.size(0)} and {target.size(0)}"
            )
        # All clusters for all samples: which are needed depends on data; fake tensors have none.
        log_probabilities = self.log_prob(input)
        try:
            output = log_probabilities.gather(1, target.unsqueeze(1)).squeeze(1)
        except (IndexError, RuntimeError) as error:
            if target.is_meta or not target.numel():
                raise
            least, most = int(target.min()), int(target.max())
            if 0 <= least and most < self.n_classes:
                raise
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{least}, {most}] were found. "
            ) from error
        loss = (-output).mean()
        return ASMoutput(output if batched else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Log probabilities (batch, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, projection in enumerate(self.tail):
            within = F.log_softmax(projection(input), dim=1)
            parts.append(within + head[:, self.shortlist_size + i].unsqueeze(1))
        return mq.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each sample (batch,)."""
        return mq.argmax(self.log_prob(input), dim=1)
