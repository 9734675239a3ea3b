"""Normalization by the batch, with running statistics for evaluation.

`_NormBase` holds what `instancenorm.py` shares: affine parameters, running statistics and how
they are loaded.
"""

from collections.abc import MutableMapping
from typing import Any

from maquette.api import functions as mq
from maquette.core import dtype as dtypes
from maquette.nn import functional as F
from maquette.nn.base import Module
from maquette.nn.default_group import DEFAULT_GROUP
from maquette.nn.modules._construct import DeviceLike, add_parameter, described
from maquette.nn.modules.normalization import reset_affine
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor


class _NormBase(Module):
    _version = 2  # since then state dicts hold num_batches_tracked

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike | None = None,
        dtype: dtypes.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        add_parameter(self, "weight", (num_features,), device, dtype, wanted=affine)
        add_parameter(self, "bias", (num_features,), device, dtype, wanted=affine and bias)
        mean: Tensor | None = None
        var: Tensor | None = None
        count: Tensor | None = None
        if track_running_stats:
            mean = mq.zeros(num_features, device=device, dtype=dtype)
            var = mq.ones(num_features, device=device, dtype=dtype)
            count = mq.tensor(0, dtype=dtypes.int64, device=device)
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", var)
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean zero, variance one, no batch seen."""
        if (
            self.running_mean is not None
            and self.running_var is not None
            and self.num_batches_tracked is not None
        ):
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Forget the statistics; weight one, bias zero."""
        self.reset_running_stats()
        reset_affine(self.weight, self.bias)

    def extra_repr(self) -> str:
        """The number of features and the options."""
        options = described(self, "eps", "momentum", "affine")
        return (
            f"{self.num_features}, {options}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError(type(self).__name__)

    def _load_from_state_dict(  # type: ignore[override]  # the dict is changed: it is a copy
        self,
        state_dict: MutableMapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        key = f"{prefix}num_batches_tracked"
        if local_metadata.get("version", 1) < 2 and self.track_running_stats:
            count = self.num_batches_tracked
            if count is None or count.is_meta:
                count = mq.tensor(0, dtype=dtypes.int64)
            state_dict.setdefault(key, count)
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        """Normalize by the batch in training, or where no statistics are kept; else by these."""
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # a plain average over all batches so far
                factor = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        # In training, statistics that are not tracked must not be moved.
        keeps = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keeps else None,
            self.running_var if keeps else None,
            self.weight,
            self.bias,
            by_batch,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalization of (batch, features) or (batch, features, length)."""

    def _check_input_dim(self, input: Tensor) -> None:
        check_dim(input, "2D or 3D", (2, 3))


class BatchNorm2d(_BatchNorm):
    """Batch normalization of (batch, features, height, width)."""

    def _check_input_dim(self, input: Tensor) -> None:
        check_dim(input, "4D", (4,))


class BatchNorm3d(_BatchNorm):
    """Batch normalization of (batch, features, depth, height, width)."""

    def _check_input_dim(self, input: Tensor) -> None:
        check_dim(input, "5D", (5,))


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over the batches of all processes: of the one that there is."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: object = None,
        device: DeviceLike | None = None,
        dtype: dtypes.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if self.training and DEFAULT_GROUP[0] is not None and input.device.type == "cpu":
            raise ValueError(
                "SyncBatchNorm expected input tensor to be on GPU or XPU or privateuseone"
            )

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: object = None) -> Module:
        """The module with every batch normalization in it replaced, parameters and all."""
        made = module
        if isinstance(module, _BatchNorm):
            made = cls._like(module, process_group)
        for name, child in list(module.named_children()):
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made

    @classmethod
    def _like(cls, module: _BatchNorm, process_group: object) -> "SyncBatchNorm":
        made = cls(
            module.num_features, module.eps, module.momentum, module.affine,
            module.track_running_stats, process_group,
        )  # fmt: skip
        made.weight, made.bias = module.weight, module.bias
        made.running_mean, made.running_var = module.running_mean, module.running_var
        made.num_batches_tracked = module.num_batches_tracked
        made.training = module.training
        return made


def check_dim(input: Tensor, expected: str, dims: tuple[int, ...]) -> None:
    """ValueError unless the input has one of these numbers of dimensions."""
    if input.dim() not in dims:
        raise ValueError(f"expected {expected} input (got {input.dim()}D input)")
