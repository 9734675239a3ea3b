"""Normalization of each channel of each sample over its space."""

import warnings
from collections.abc import MutableMapping
from typing import Any

from maquette.core.dtype import dtype as dtype_
from maquette.nn import functional as F
from maquette.nn.modules._construct import DeviceLike
from maquette.nn.modules.batchnorm import _NormBase, check_dim
from maquette.tensor import Tensor


class _InstanceNorm(_NormBase):
    _unbatched_dim: int

    def _get_no_batch_dim(self) -> int:
        """How many dimensions an input without a batch has: for classes of programs."""
        return self._unbatched_dim

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _check_input_dim(self, input: Tensor) -> None:
        dims = (self._unbatched_dim, self._unbatched_dim + 1)
        check_dim(input, f"{dims[0]}D or {dims[1]}D", dims)

    def forward(self, input: Tensor) -> Tensor:
        """(batch, features, *space) or (features, *space), normalized."""
        self._check_input_dim(input)
        channel_dim = input.dim() - self._unbatched_dim
        self._check_features(input.shape[channel_dim], channel_dim)
        if channel_dim == 0:
            return self._handle_no_batch_input(input)
        return self._apply_instance_norm(input)

    # By these names programs' own layers call the two.
    def _handle_no_batch_input(self, input: Tensor) -> Tensor:
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _check_features(self, features: int, dim: int) -> None:
        if features == self.num_features:
            return
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={dim} to match num_features "
                f"({self.num_features}), but got: {features}."
            )
        warnings.warn(
            f"input's size at dim={dim} does not match num_features. You can silence this warning "
            "by not passing in num_features, which is not used because affine=False",
            stacklevel=3,
        )

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

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
        keys = [f"{prefix}{name}" for name in ("running_mean", "running_var")]
        found = [key for key in keys if key in state_dict]
        if "version" not in local_metadata and not self.track_running_stats and found:
            names = " and ".join(f'"{key}"' for key in found)
            error_msgs.append(
                f"Unexpected running stats buffer(s) {names} for {type(self).__name__} with "
                "track_running_stats=False. Remove these keys from state_dict, or set "
                "track_running_stats=True."
            )
            for key in found:
                state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of (batch, features, length), the batch optional."""

    _unbatched_dim = 2


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of (batch, features, height, width), the batch optional."""

    _unbatched_dim = 3


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of (batch, features, depth, height, width), the batch optional."""

    _unbatched_dim = 4
