"""Layers that take the number of their inputs from the first input.

A lazy layer is made with places for its parameters (`lazy_parameter.py`). Its first call, or a
state dict that it loads, gives them shapes; then it is a layer of the ordinary class, which its
object becomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from maquette.api import functions as mq
from maquette.core import dtype as dtypes
from maquette.core.dtype import dtype as dtype_
from maquette.nn.base import Module
from maquette.nn.lazy_parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from maquette.nn.modules._construct import DeviceLike, Sizes
from maquette.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from maquette.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from maquette.nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from maquette.nn.modules.linear import Linear
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor

_Shapes = dict[str, tuple[int, ...]]


class LazyModuleMixin(Module):
    """The part that lazy layers share; `cls_to_become` is the ordinary class.

    A layer says in `_shapes` what shapes its places have for a number of inputs, and in `_adopt`
    what other attributes follow from it.
    """

    cls_to_become: ClassVar[type[Module]]

    def _make_places(self, names: tuple[str, ...], device: Any, dtype: Any) -> None:
        """Put places where the layer was made with no parameters, and wait for an input."""
        for name in names:
            if name in self._buffers:
                setattr(self, name, UninitializedBuffer(device=device, dtype=dtype))
            else:
                self.register_parameter(name, UninitializedParameter(device=device, dtype=dtype))
        self._waiting = self.register_forward_pre_hook(_take_input)

    def has_uninitialized_params(self) -> bool:
        """Whether it is still lazy."""
        members = (*self._parameters.values(), *self._buffers.values())
        return any(is_lazy(member) for member in members)

    def reset_parameters(self) -> None:
        """Draw new values, once there are places for them."""
        if self.has_uninitialized_params() or not self._sized():
            return
        ordinary: Any = self.cls_to_become  # every one here has initial values
        ordinary.reset_parameters(self)

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of inputs from a first input."""
        if self.has_uninitialized_params():
            self._materialize(self._inputs_of(input))
            self.reset_parameters()

    def _materialize(self, inputs: int) -> None:
        self._adopt(inputs)
        for name, shape in self._shapes(inputs).items():
            place = getattr(self, name)
            if not is_lazy(place):
                continue
            new = mq.empty(shape, device=place.device, dtype=place.dtype)
            if isinstance(place, UninitializedParameter):
                self.register_parameter(name, Parameter(new, place.requires_grad))
            else:
                setattr(self, name, new)

    def _become_ordinary(self) -> None:
        self._waiting.remove()
        del self._waiting
        object.__setattr__(self, "__class__", self.cls_to_become)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *rest: Any, **options: Any
    ) -> None:
        weight = state_dict.get(f"{prefix}{self._telling}")
        if self.has_uninitialized_params() and isinstance(weight, Tensor) and not is_lazy(weight):
            self._materialize(self._inputs_of_weight(weight))
            self._become_ordinary()
            self._load_from_state_dict(state_dict, prefix, *rest, **options)
        else:
            super()._load_from_state_dict(state_dict, prefix, *rest, **options)

    _telling = "weight"  # the member whose shape tells the number of inputs

    def _sized(self) -> bool:
        raise NotImplementedError

    def _inputs_of(self, input: Tensor) -> int:
        return input.shape[-1]

    def _inputs_of_weight(self, weight: Tensor) -> int:
        return weight.shape[-1]

    def _adopt(self, inputs: int) -> None:
        raise NotImplementedError

    def _shapes(self, inputs: int) -> _Shapes:
        raise NotImplementedError


def _take_input(module: Any, args: tuple[Any, ...]) -> None:
    module.initialize_parameters(*args)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
    module._become_ordinary()


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` whose in_features is the last size of the first input."""

    cls_to_become = Linear

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__(0, 0, bias=False, device=device, dtype=dtype)
        self.out_features = out_features
        self._make_places(("weight", "bias") if bias else ("weight",), device, dtype)

    def _sized(self) -> bool:
        return self.in_features != 0

    def _adopt(self, inputs: int) -> None:
        self.in_features = inputs

    def _shapes(self, inputs: int) -> _Shapes:
        return {"weight": (self.out_features, inputs), "bias": (self.out_features,)}


class _LazyConv(LazyModuleMixin):
    """Convolutions whose in_channels is the first input's."""

    in_channels: int
    out_channels: int
    groups: int
    transposed: bool
    kernel_size: tuple[int, ...]

    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        *args: Any,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
        **options: Any,
    ) -> None:
        make: Any = super().__init__  # of the ordinary class, which comes after this one
        make(0, 0, kernel_size, *args, bias=False, device=device, dtype=dtype, **options)
        self.out_channels = out_channels
        self._make_places(("weight", "bias") if bias else ("weight",), device, dtype)

    def _sized(self) -> bool:
        return self.in_channels != 0

    def _inputs_of(self, input: Tensor) -> int:
        dims = len(self.kernel_size)
        if input.dim() not in (dims + 1, dims + 2):
            raise RuntimeError(
                f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {list(input.shape)}"
            )
        return input.shape[-dims - 1]

    def _inputs_of_weight(self, weight: Tensor) -> int:
        return weight.shape[0] if self.transposed else weight.shape[1] * self.groups

    def _adopt(self, inputs: int) -> None:
        self.in_channels = inputs

    def _shapes(self, inputs: int) -> _Shapes:
        if inputs % self.groups or self.out_channels % self.groups:
            raise ValueError(
                f"in_channels and out_channels must be divisible by groups; got {inputs}, "
                f"{self.out_channels} and {self.groups}"
            )
        maps = (inputs, self.out_channels) if self.transposed else (self.out_channels, inputs)
        weight = (maps[0], maps[1] // self.groups, *self.kernel_size)
        return {"weight": weight, "bias": (self.out_channels,)}


class LazyConv1d(_LazyConv, Conv1d):
    """`Conv1d` whose in_channels is the first input's."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """`Conv2d` whose in_channels is the first input's."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """`Conv3d` whose in_channels is the first input's."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConv, ConvTranspose1d):
    """`ConvTranspose1d` whose in_channels is the first input's."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConv, ConvTranspose2d):
    """`ConvTranspose2d` whose in_channels is the first input's."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConv, ConvTranspose3d):
    """`ConvTranspose3d` whose in_channels is the first input's."""

    cls_to_become = ConvTranspose3d


class _LazyNorm(LazyModuleMixin):
    """Normalizations whose num_features is the first input's number of channels."""

    num_features: int
    affine: bool
    track_running_stats: bool
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        make: Any = super().__init__  # of the ordinary class, which comes after this one
        make(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if track_running_stats:
            self.num_batches_tracked = mq.tensor(0, dtype=dtypes.int64, device=device)
        self._make_places(self._names, device, dtype)

    @property
    def _names(self) -> tuple[str, ...]:
        """The parameters and buffers that wait for their size."""
        names: tuple[str, ...] = ("weight", "bias") if self.affine else ()
        return (*names, "running_mean", "running_var") if self.track_running_stats else names

    @property
    def _telling(self) -> str:  # type: ignore[override]  # it depends on the options here
        return "weight" if self.affine else "running_mean"

    def _sized(self) -> bool:
        return self.num_features != 0

    def _inputs_of(self, input: Tensor) -> int:
        return input.shape[1]

    def _adopt(self, inputs: int) -> None:
        self.num_features = inputs

    def _shapes(self, inputs: int) -> _Shapes:
        return dict.fromkeys(self._names, (inputs,))


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """`BatchNorm1d` whose num_features is the first input's."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """`BatchNorm2d` whose num_features is the first input's."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """`BatchNorm3d` whose num_features is the first input's."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """`InstanceNorm1d` whose num_features is the first input's."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """`InstanceNorm2d` whose num_features is the first input's."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """`InstanceNorm3d` whose num_features is the first input's."""

    cls_to_become = InstanceNorm3d
