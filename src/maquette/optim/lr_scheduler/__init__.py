"""`torch.optim.lr_scheduler`: learning rates over time. Names only."""

from maquette.optim.lr_scheduler.base import EPOCH_DEPRECATION_WARNING, LRScheduler
from maquette.optim.lr_scheduler.base import _enable_get_lr_call as _enable_get_lr_call
from maquette.optim.lr_scheduler.composed import ChainedScheduler, SequentialLR
from maquette.optim.lr_scheduler.cyclic import CosineAnnealingWarmRestarts, OneCycleLR
from maquette.optim.lr_scheduler.decay import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LinearLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from maquette.optim.lr_scheduler.functions import LambdaLR, MultiplicativeLR
from maquette.optim.lr_scheduler.plateau import ReduceLROnPlateau
from maquette.optim.lr_scheduler.triangular import CyclicLR
from maquette.optim.optimizer import Optimizer as Optimizer


class _LRScheduler(LRScheduler):
    """The base by its name before 2.0, for programs that derive from it."""


__all__ = [
    "EPOCH_DEPRECATION_WARNING",
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
