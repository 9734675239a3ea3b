"""Parameters and buffers whose shape is not known yet: places that lazy modules fill.

`materialize` gives one its shape in place: the object stays, so an optimizer that was given it goes
on, and its class becomes the ordinary one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from maquette.api import functions as mq
from maquette.autograd.grad_mode import no_grad
from maquette.core.device import device as device_
from maquette.core.dtype import dtype as dtype_
from maquette.dispatch.torch_function import DisableTorchFunctionSubclass
from maquette.tensor import Tensor
from maquette.tensor.parameter import Parameter, of_class
from maquette.tensor.tensor import adopt

DeviceLike = device_ | str | int

_ADVICE = (
    "call forward once, which gives the parameters of a lazy module their shapes, or load a state "
    "dict that has them"
)
# What may be done to a tensor without a shape, by name: conversions, and questions on its kind.
_ALLOWED = frozenset(
    """
    __hash__ __get__ __set__ __repr__ __deepcopy__ __reduce_ex__ size copy_ is_complex
    is_floating_point half float double char short int long bfloat16 bool cuda cpu to type
    get_device requires_grad_ detach _to_copy register_hook backward retain_grad zero_grad
    register_post_accumulate_grad_hook is_inference
    """.split()
)


class UninitializedTensorMixin:
    """What uninitialized parameters and buffers share; `cls_to_become` is the ordinary class."""

    __slots__ = ()
    cls_to_become: ClassVar[type[Tensor]]

    def materialize(
        self,
        shape: Sequence[int],
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        """Give it a shape, and uninitialised values; device and dtype stay unless given."""
        place: Any = self
        new = mq.empty(shape, device=device or place.device, dtype=dtype or place.dtype)
        requires_grad = place.requires_grad
        with no_grad(), DisableTorchFunctionSubclass():
            adopt(place, new)
        place.__class__ = self.cls_to_become
        place.requires_grad_(requires_grad)

    @property
    def shape(self) -> NoReturn:
        """RuntimeError: there is none yet."""
        raise RuntimeError(
            f"Can't access the shape of an uninitialized parameter or buffer: {_ADVICE}"
        )

    def share_memory_(self) -> NoReturn:
        """RuntimeError: there is no memory yet."""
        raise RuntimeError(f"Can't share memory on an uninitialized parameter or buffer: {_ADVICE}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Let conversions pass; ValueError for what needs values."""
        name = str(getattr(func, "__name__", "")).partition(".")[0]
        if name not in _ALLOWED:
            raise ValueError(f"Attempted to use an uninitialized parameter in {name}: {_ADVICE}")
        with DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A `Parameter` without a shape yet; it has a dtype and a device."""

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(
        cls,
        requires_grad: bool = True,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> UninitializedParameter:
        made = of_class(cls, mq.empty(0, device=device, dtype=dtype))
        with DisableTorchFunctionSubclass():
            made._require_grad(requires_grad)
        return made

    def __deepcopy__(self, memo: dict[int, object]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        found: Any = memo[id(self)]
        return found

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        return UninitializedParameter, (self.requires_grad, self.device, self.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer without a shape yet; it has a dtype and a device."""

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        made = of_class(cls, mq.empty(0, device=device, dtype=dtype))
        with DisableTorchFunctionSubclass():
            made._require_grad(requires_grad)
        vars(made).update(persistent=persistent, _is_buffer=True)
        return made

    def __deepcopy__(self, memo: dict[int, object]) -> UninitializedBuffer:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        found: Any = memo[id(self)]
        return found

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        return UninitializedBuffer, (self.requires_grad, self.device, self.dtype)


def is_lazy(param: object) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


__all__ = [
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]
