"""Moving and casting modules: every parameter, gradient and buffer through one function.

A parameter keeps its identity where its kind of storage stays (`.data` is replaced), so that an
optimizer made before a `.cuda()` still holds the right tensors. From or to the meta device, where
no data can be shared, a new parameter takes the old one's place; `torch.__future__` has settings
for a new one always, and for the old one to become the new one in all but identity.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.core import dtype as dtypes
from maquette.core.device import device, device_of_type
from maquette.core.layout import memory_format
from maquette.core.promotion import PYTHON_DTYPES
from maquette.dispatch.subclasses import is_traceable_wrapper_subclass
from maquette.dispatch.torch_function import overridable
from maquette.nn.base.members import BUFFERS, PARAMETERS
from maquette.nn.base.swapping import swap_tensors
from maquette.nn.base.traversal import Traversal
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor

T = TypeVar("T", bound="Conversion")
Convert = Callable[[Tensor], Tensor]
DeviceLike = device | str | int


on_conversion = {"overwrite": False, "swap": False}
"""What `torch.__future__` sets: a new parameter always, or the old one swapped with the new."""


class Conversion(Traversal):
    """The part of `Module` that changes where its tensors are and of which type."""

    def _apply(self: T, fn: Convert, recurse: bool = True) -> T:
        """Put every tensor through `fn`, those of submodules first unless `recurse=False`."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        for name, parameter in self._mq_own(PARAMETERS):
            if parameter is not None:
                self._mq_attributes[name] = self._mq_converted(name, parameter, fn)
        for name, buffer in self._mq_own(BUFFERS):
            if buffer is not None:
                self._mq_attributes[name] = fn(buffer)
        return self

    def _mq_converted(self, name: str, parameter: Parameter, fn: Convert) -> Parameter:
        with no_grad():
            new = fn(parameter)
        grad = parameter.grad
        result = parameter
        swapped = on_conversion["swap"] or is_traceable_wrapper_subclass(new)
        if swapped:
            parameter.grad = None
            self._mq_swap(name, parameter, Parameter(new, parameter.requires_grad))
        elif _can_adopt(parameter, new):
            parameter.data = new
        else:
            result = Parameter(new, parameter.requires_grad)
        if grad is not None:
            result.grad = self._mq_converted_grad(f"{name}.grad", grad, fn, swapped)
        return result

    def _mq_converted_grad(self, name: str, grad: Tensor, fn: Convert, swapped: bool) -> Tensor:
        with no_grad():
            new = fn(grad)
        if swapped:
            self._mq_swap(name, grad, new.requires_grad_(grad.requires_grad))
            return grad
        if _can_adopt(grad, new):
            grad.data = new
            return grad
        return new.requires_grad_(grad.requires_grad)

    def _mq_swap(self, name: str, tensor: Tensor, new: Tensor) -> None:
        if new is tensor:
            return
        try:
            swap_tensors(tensor, new)
        except Exception as error:
            raise RuntimeError(f"_apply(): Couldn't swap {type(self).__name__}.{name}") from error

    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """Move and cast: `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`.

        Keywords: device, dtype, non_blocking, memory_format (4-d and 5-d tensors). Only floating
        and complex tensors are cast. In place: returns the module itself.

        Raises TypeError for an integer dtype.
        """
        target = parse_to(*args, **kwargs)
        kind = target.dtype
        if kind is not None and not (kind.is_floating_point or kind.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={kind}"
            )
        if kind is not None and kind.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may "
                "change, and some modules might not work as expected when using complex tensors "
                "as parameters or buffers.",
                UserWarning,
                stacklevel=2,
            )
        return self._apply(target.apply)

    def type(self: T, dst_type: dtypes.dtype) -> T:
        """Cast every parameter and buffer, integer ones included."""
        return self._apply(lambda t: t.to(dst_type))

    def float(self: T) -> T:
        """Cast floating parameters and buffers to float32."""
        return self._apply(_floating_to(dtypes.float32))

    def double(self: T) -> T:
        """Cast floating parameters and buffers to float64."""
        return self._apply(_floating_to(dtypes.float64))

    def half(self: T) -> T:
        """Cast floating parameters and buffers to float16."""
        return self._apply(_floating_to(dtypes.float16))

    def bfloat16(self: T) -> T:
        """Cast floating parameters and buffers to bfloat16."""
        return self._apply(_floating_to(dtypes.bfloat16))

    def cpu(self: T) -> T:
        """Move to the cpu."""
        return self._apply(lambda t: t.to(device("cpu")))

    def cuda(self: T, device: DeviceLike | None = None) -> T:
        """Move to a cuda device, the current one by default."""
        return self._apply(_to_device("cuda", device))

    def xpu(self: T, device: DeviceLike | None = None) -> T:
        """Move to an xpu device, the current one by default."""
        return self._apply(_to_device("xpu", device))

    def ipu(self: T, device: DeviceLike | None = None) -> T:
        """Move to an ipu device, the current one by default."""
        return self._apply(_to_device("ipu", device))

    def mtia(self: T, device: DeviceLike | None = None) -> T:
        """Move to an mtia device, the current one by default."""
        return self._apply(_to_device("mtia", device))

    def to_empty(self: T, *, device: DeviceLike | None, recurse: bool = True) -> T:
        """Move to a device without the values: how a module leaves the meta device."""
        return self._apply(lambda t: mq.empty_like(t, device=device), recurse=recurse)


def _can_adopt(old: Tensor, new: Tensor) -> bool:
    """Whether `old` may take over what `new` holds: both with data, both without, or both fake."""
    if on_conversion["overwrite"]:
        return False
    return _has_compatible_shallow_copy_type(old, new) and old.fake_mode is new.fake_mode


@overridable
def _has_compatible_shallow_copy_type(input: Tensor, from_: Tensor) -> bool:
    """Whether both tensors have data, or neither, in one layout; handlers of a class may differ."""
    return input.is_meta == from_.is_meta and input.layout == from_.layout


class _Target(NamedTuple):
    """Where and to what `Module.to` was asked to go."""

    device: device | None = None
    dtype: dtypes.dtype | None = None
    non_blocking: bool = False
    format: memory_format | None = None

    def apply(self, t: Tensor) -> Tensor:
        """One tensor, moved and cast; the tensor itself if there is nothing to do."""
        if t.is_meta and self.device is not None and self.device.type != "meta":
            raise NotImplementedError(
                "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() "
                "instead of torch.nn.Module.to() when moving module from meta to a different "
                "device."
            )
        floating = t.is_floating_point() or t.is_complex()
        options: dict[str, object] = {"non_blocking": self.non_blocking}
        if self.device is not None:
            options["device"] = self.device
        if self.dtype is not None and floating:
            options["dtype"] = self.dtype
        if self.format is not None and t.dim() in (4, 5):
            options["memory_format"] = self.format
        return t.to(**options) if len(options) > 1 else t


def parse_to(*args: object, **kwargs: object) -> _Target:
    """The arguments of `Module.to`, in any of its forms; TypeError for any other."""
    if kwargs.get("copy"):
        raise RuntimeError(".to() does not accept copy argument: deepcopy the module")
    given = {k: v for k, v in kwargs.items() if k != "copy"}
    args = tuple(PYTHON_DTYPES.get(v, v) if isinstance(v, type) else v for v in args)
    order = next((f for f in _FORMS if _fits(f, args)), None)
    if order is None or given.keys() - (_NAMES - set(order[: len(args)])):
        raise TypeError(f"to() received an invalid combination of arguments - got {args, kwargs}")
    given |= dict(zip(order, args))
    other = given.pop("tensor", None)
    if isinstance(other, Tensor):
        given = {"device": other.device, "dtype": other.dtype, **given}
    place: Any = given.get("device")  # anything that names a device
    kind: Any = PYTHON_DTYPES.get(given.get("dtype"), given.get("dtype"))
    form: Any = given.get("memory_format")
    where = None if place is None else device(place)
    return _Target(where, kind, bool(given.get("non_blocking", False)), form)


_NAMES = {"device", "dtype", "non_blocking", "memory_format", "tensor"}
# What positional arguments may stand for, in order.
_FORMS = (
    ("tensor", "non_blocking"),
    ("dtype", "non_blocking"),
    ("device", "dtype", "non_blocking"),
)


def _fits(form: tuple[str, ...], args: tuple[object, ...]) -> bool:
    if len(args) > len(form):
        return False
    if form[0] == "dtype" and args[:1] == (None,):
        return False
    return all(_may_be(name, value) for name, value in zip(form, args))


def _may_be(name: str, value: object) -> bool:
    """Whether a positional argument may be for this parameter of `to`."""
    if name == "tensor":
        return isinstance(value, Tensor)
    if name == "non_blocking":
        return isinstance(value, bool)
    if name == "dtype":
        return value is None or isinstance(value, dtypes.dtype)
    return value is None or (isinstance(value, device | str | int) and value.__class__ is not bool)


def _floating_to(dtype: dtypes.dtype) -> Convert:
    return lambda t: t.to(dtype) if t.is_floating_point() else t


def _to_device(kind: str, index: DeviceLike | None) -> Convert:
    target = device_of_type(kind, index)
    return lambda t: t.to(target)
