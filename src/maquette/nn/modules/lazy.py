"""Layers that take the number of their inputs from the first input.

A lazy layer is made with places for its parameters (`lazy_parameter.py`). Its first call, or a
state dict that it loads, gives them shapes; then it is a layer of the ordinary class, which its
object becomes.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from maquette.api import functions as mq
from maquette.autograd.grad_mode import no_grad
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
from maquette.tensor import Tensor

_Shapes = dict[str, tuple[int, ...]]


class _LazyProtocol(Protocol):
    """What a class that is made lazy by `LazyModuleMixin` has: the name that libraries derive from.

    Every `Module` has it.
    """


class LazyModuleMixin(Module):
    """The part that lazy modules share; `cls_to_become`, if any, is the ordinary class.

    A class of one's own lists it before its other bases, registers places in ``__init__`` and gives
    them shapes in `initialize_parameters`. The first call does that; it becomes ordinary then. A
    state dict that is loaded gives shapes, too.
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._wait()

    def _wait(self) -> None:
        """Watch for the first input, and for a state dict."""
        if "_initialize_hook" in self._mq_attributes:
            return
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def has_uninitialized_params(self) -> bool:
        """Whether it is still lazy."""
        members = (*self._parameters.values(), *self._buffers.values())
        return any(is_lazy(member) for member in members)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give places their shapes from a first input; to be overridden."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {self.__class__.__name__}"
        )

    def _infer_parameters(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        module.initialize_parameters(*args, **kwargs)
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
        module._become_ordinary()

    def _become_ordinary(self) -> None:
        self._initialize_hook.remove()
        self._load_hook.remove()
        del self._initialize_hook, self._load_hook
        if self.cls_to_become is not None:
            object.__setattr__(self, "__class__", self.cls_to_become)

    def _lazy_load_hook(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        """Give places the shapes of what is to be loaded."""
        members: list[tuple[str, Any]] = [*self._parameters.items(), *self._buffers.items()]
        for name, place in members:
            given = state_dict.get(prefix + name)
            if is_lazy(place) and isinstance(given, Tensor) and not is_lazy(given):
                with no_grad():
                    place.materialize(given.shape)


class _LazyLayer(LazyModuleMixin):
    """The part that the lazy layers here share.

    A layer says in `_shapes` what shapes its places have for a number of inputs, and in `_adopt`
    what other attributes follow from it.
    """

    def _make_places(self, names: tuple[str, ...], device: Any, dtype: Any) -> None:
        """Put places where the layer was made with no parameters."""
        for name in names:
            if name in self._buffers:
                setattr(self, name, UninitializedBuffer(device=device, dtype=dtype))
            else:
                self.register_parameter(name, UninitializedParameter(device=device, dtype=dtype))
        self._wait()

    def reset_parameters(self) -> None:
        """Draw new values, once there are places for them."""
        if self.has_uninitialized_params() or not self._sized():
            return
        ordinary: Any = self.cls_to_become  # every one here has initial values
        ordinary.reset_parameters(self)

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of inputs from a first input."""
        if self.has_uninitialized_params():
            inputs = self._inputs_of(input)
            self._adopt(inputs)
            for name, shape in self._shapes(inputs).items():
                place = getattr(self, name)
                if is_lazy(place):
                    place.materialize(shape)
            self.reset_parameters()
        elif not self._sized():
            self._adopt(self._inputs_of(input))  # the shapes came from a state dict

    def _sized(self) -> bool:
        raise NotImplementedError

    def _inputs_of(self, input: Tensor) -> int:
        return input.shape[-1]

    def _adopt(self, inputs: int) -> None:
        raise NotImplementedError

    def _shapes(self, inputs: int) -> _Shapes:
        raise NotImplementedError


class LazyLinear(_LazyLayer, Linear):
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


class _LazyConv(_LazyLayer):
    """Convolutions whose in_channels is the first input's."""

    in_channels: int
    out_channels: int
    groups: int
    transposed: bool
    kernel_size: tuple[int, ...]

    def _leave_open(
        self, out_channels: int, bias: bool, device: DeviceLike | None, dtype: dtype_ | None
    ) -> None:
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


class _LazyForwardConv(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        make: Any = super().__init__  # of the ordinary class, which comes after this one
        places = (stride, padding, dilation, groups, False, padding_mode)
        make(0, 0, kernel_size, *places, device, dtype)
        self._leave_open(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        make: Any = super().__init__
        places = (stride, padding, output_padding, groups, False, dilation, padding_mode)
        make(0, 0, kernel_size, *places, device, dtype)
        self._leave_open(out_channels, bias, device, dtype)


class LazyConv1d(_LazyForwardConv, Conv1d):
    """`Conv1d` whose in_channels is the first input's."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyForwardConv, Conv2d):
    """`Conv2d` whose in_channels is the first input's."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyForwardConv, Conv3d):
    """`Conv3d` whose in_channels is the first input's."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """`ConvTranspose1d` whose in_channels is the first input's."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """`ConvTranspose2d` whose in_channels is the first input's."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """`ConvTranspose3d` whose in_channels is the first input's."""

    cls_to_become = ConvTranspose3d


class _LazyNorm(_LazyLayer):
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
        *,
        bias: bool = True,
    ) -> None:
        make: Any = super().__init__  # of the ordinary class, which comes after this one
        make(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if track_running_stats:
            self.num_batches_tracked = mq.tensor(0, dtype=dtypes.int64, device=device)
        learned = ("weight", "bias")[: 1 + bias] if affine else ()
        counted = ("running_mean", "running_var") if track_running_stats else ()
        self._make_places((*learned, *counted), device, dtype)

    def _sized(self) -> bool:
        return self.num_features != 0

    def _inputs_of(self, input: Tensor) -> int:
        return input.shape[1]

    def _adopt(self, inputs: int) -> None:
        self.num_features = inputs

    def _shapes(self, inputs: int) -> _Shapes:
        places = (*self._parameters.items(), *self._buffers.items())
        return {name: (inputs,) for name, place in places if is_lazy(place)}


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
