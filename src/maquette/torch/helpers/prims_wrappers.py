"""`torch._prims_common.wrappers`: decorators of operators written in Python."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.tensor.tensor import Tensor
from maquette.torch import prims_common

Function = Callable[..., Any]


class elementwise_type_promotion_wrapper:  # PyTorch's name
    """The named arguments converted to the type they are computed in, the result to its own.

    type_promotion_kind: how the type follows, an `ELEMENTWISE_TYPE_PROMOTION_KIND`;
    type_promoting_args: the names, all others being left as they are.
    """

    def __init__(
        self, *, type_promotion_kind: Any, type_promoting_args: Sequence[str] | None = None
    ) -> None:
        self.kind = type_promotion_kind
        self.names = type_promoting_args

    def __call__(self, fn: Function) -> Function:
        signature = inspect.signature(fn)

        @functools.wraps(fn)
        def promoted(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            given = bound.arguments
            named = [n for n in (self.names or ()) if given.get(n) is not None]
            operands = [given[n] for n in named]
            computed, result = prims_common.elementwise_dtypes(
                *operands, type_promotion_kind=self.kind
            )
            for n in named:
                given[n] = _converted(given[n], computed)
            found = fn(*bound.args, **bound.kwargs)
            if isinstance(found, tuple):
                return type(found)([_converted(each, result) for each in found])
            return _converted(found, result)

        return promoted


def _converted(value: Any, kind: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(kind)
    return [_converted(each, kind) for each in value] if isinstance(value, list) else value


_maybe_convert_to_dtype = _converted


def out_wrapper(
    *out_names: str,
    exact_dtype: bool = False,
    pass_is_out: bool = False,
    preserve_memory_format: bool = False,
) -> Callable[[Function], Function]:
    """A decorator: the function takes ``out=``, one tensor or as many as there are names.

    exact_dtype: RuntimeError for an ``out`` of another dtype; pass_is_out: the function is told as
    ``is_out`` whether there is one.
    """

    def wrapping(fn: Function) -> Function:
        @functools.wraps(fn)
        def with_out(*args: Any, out: Any = None, **kwargs: Any) -> Any:
            if pass_is_out:
                kwargs["is_out"] = out is not None
            result = fn(*args, **kwargs)
            if out is None:
                return result
            if isinstance(result, Tensor):
                return _written(out, result, exact_dtype)
            return type(result)(
                [_written(o, r, exact_dtype) for o, r in zip(out, result, strict=True)]
            )

        return with_out

    return wrapping


def _written(out: Tensor, result: Tensor, exact_dtype: bool) -> Tensor:
    if exact_dtype and out.dtype is not result.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {result.dtype} but got {out.dtype} instead"
        )
    if not mq.can_cast(result.dtype, out.dtype):
        raise RuntimeError(
            f"Attempting to cast from {result.dtype} to out tensor with dtype {out.dtype}, but "
            f"this can't be cast because it is not safe!"
        )
    if out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result)


def _maybe_remove_out_wrapper(fn: Function) -> Function:
    """The function that `out_wrapper` wrapped."""
    return inspect.unwrap(fn, stop=lambda f: not hasattr(f, "__wrapped__"))


def is_cpu_scalar(x: Any) -> bool:
    """Whether a value is a tensor of no dimensions on the cpu."""
    return isinstance(x, Tensor) and x.dim() == 0 and x.device.type == "cpu"


def check_copy_devices(*, copy_from: Any, copy_to: Any) -> None:
    """RuntimeError for a copy between devices other than from a number on the cpu."""
    if copy_from.device != copy_to.device and not is_cpu_scalar(copy_from):
        raise RuntimeError(
            f"Attempting to copy from device {copy_from.device} to device {copy_to.device}, but "
            f"cross-device copies are not allowed!"
        )


def elementwise_unary_scalar_wrapper(fn: Function) -> Function:
    """A function of a tensor that takes a number, too, and gives a number then."""

    @functools.wraps(fn)
    def of_number(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], bool | int | float | complex):
            return fn(mq.tensor(args[0]), *args[1:], **kwargs).item()
        return fn(*args, **kwargs)

    return of_number


def backwards_not_supported(prim: Function) -> Function:
    """A function that says NotImplementedError where a gradient would go through it."""

    @functools.wraps(prim)
    def without_gradient(*args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if mq.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in given):
            raise RuntimeError(f"backwards not supported on prim {prim.__name__}")
        return prim(*args, **kwargs)

    return without_gradient
