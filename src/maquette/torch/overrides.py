"""`torch.overrides`: modes and questions about ``__torch_function__``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from maquette.dispatch.torch_function import (
    NO_OVERRIDE,
    TorchFunctionMode,
    call_torch_function,
)
from maquette.tensor.tensor import Tensor
from maquette.torch.face.forwarding import forward, without_underscores


def is_tensor_like(inp: object) -> bool:
    """Whether an object is a tensor, or has ``__torch_function__``."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., object]) -> bool:
    """Whether a function is a method of `Tensor`."""
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func


def has_torch_function(relevant_args: Iterable[object]) -> bool:
    """Whether some argument's class answers torch functions itself."""
    return any(_overrides(type(arg)) for arg in relevant_args)


def has_torch_function_unary(inp: object) -> bool:
    """`has_torch_function` of one argument."""
    return _overrides(type(inp))


def _overrides(cls: type) -> bool:
    found = getattr(cls, "__torch_function__", None)
    return found is not None and found is not Tensor.__torch_function__


def handle_torch_function(
    public_api: Callable[..., object],
    relevant_args: Iterable[object],
    *args: object,
    **kwargs: object,
) -> object:
    """Offer a call to modes and to the arguments' classes.

    Raises TypeError if each declines, or if there is none.
    """
    result = call_torch_function(public_api, args, kwargs)
    if result is NO_OVERRIDE:
        raise TypeError(f"no implementation found for {public_api}: no argument overrides it")
    return result


__all__ = ["TorchFunctionMode", "handle_torch_function", "has_torch_function"]
__getattr__ = forward(__name__, "maquette.dispatch.torch_function", spellings=without_underscores)
