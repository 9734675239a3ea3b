"""What losses as layers have in common; PyTorch's names, which programs derive from."""

from maquette.nn.base.module import Module
from maquette.nn.functional._reduction import reduction_name
from maquette.tensor import Tensor


class _Loss(Module):
    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.reduction = reduction_name(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with weights, which are a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
