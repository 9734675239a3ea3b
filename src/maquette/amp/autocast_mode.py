"""`torch.amp.autocast_mode`: regions of mixed precision, and the functions that look at them.

What a region does to an operator is on the operator's page and done by
`maquette.transforms.autocast`; here are the names. A region for cuda is in force without a GPU too,
on fake tensors: plans of mixed precision need it (PyTorch switches it off with a warning).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from maquette.core.dtype import bfloat16, dtype, float16
from maquette.tensor.tensor import Tensor
from maquette.transforms import autocast as regions
from maquette.transforms.autocast import forget_casts, is_enabled, set_enabled, state

F = TypeVar("F", bound=Callable[..., Any])
_FEW_BITS = (bfloat16, float16)


def is_autocast_available(device_type: str) -> bool:
    """Whether there are regions for a device: also for those that have no tensors here."""
    return device_type in regions.DEVICES


class autocast:
    """A region in which operators that gain by it run in few bits; a decorator too.

    dtype: bfloat16 or float16; by default what `get_autocast_dtype` says. Others switch the region
    off, with a warning. cache_enabled: whether weights are cast once. Regions nest, and one with
    ``enabled=False`` is a hole in another. RuntimeError for a device that has no regions.
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        regions.key_of(device_type)
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = state.remembers if cache_enabled is None else cache_enabled
        self._enabled = enabled
        self._outer: list[tuple[bool, dtype, bool]] = []  # type: ignore[valid-type]  # the class
        if enabled and self.fast_dtype not in _FEW_BITS:
            name = "CPU" if device_type == "cpu" else device_type
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtype of torch.bfloat16, torch.float16 currently; "
                f"got {self.fast_dtype}.",
                stacklevel=2,
            )
            self._enabled = False

    def __enter__(self) -> autocast:
        device = self.device
        self._outer.append((is_enabled(device), state.dtypes[device], state.remembers))
        set_enabled(device, self._enabled)
        state.dtypes[device] = self.fast_dtype
        state.remembers = self._cache_enabled
        state.depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        state.depth -= 1
        if state.depth == 0:
            forget_casts()
        enabled, state.dtypes[self.device], state.remembers = self._outer.pop()
        set_enabled(self.device, enabled)

    def __call__(self, function: F) -> F:
        """The function, whose body is such a region."""

        @functools.wraps(function)
        def in_region(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return in_region  # type: ignore[return-value]  # the same parameters


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether the thread is in a region of this device."""
    return is_enabled(device_type)


def is_autocast_cpu_enabled() -> bool:
    """Whether the thread is in a region of the cpu."""
    return is_enabled("cpu")


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch regions of a device, of cuda if a bool alone is given."""
    if isinstance(device_type, bool):
        set_enabled("cuda", device_type)
    else:
        set_enabled(device_type, bool(enabled))


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch regions of the cpu."""
    set_enabled("cpu", enabled)


def get_autocast_dtype(device_type: str) -> dtype:
    """What a region of this device casts to."""
    regions.key_of(device_type)
    return state.dtypes[device_type]


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Say what regions of this device cast to, from now on."""
    regions.key_of(device_type)
    state.dtypes[device_type] = dtype


def get_autocast_cpu_dtype() -> dtype:
    """What a region of the cpu casts to."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> dtype:
    """What a region of cuda casts to."""
    return get_autocast_dtype("cuda")


def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """Say what regions of the cpu cast to."""
    set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """Say what regions of cuda cast to."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether weights are cast once in a region."""
    return state.remembers


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether weights are cast once in a region."""
    state.remembers = enabled


def autocast_increment_nesting() -> int:
    """Go one region deeper; how deep the thread is."""
    state.depth += 1
    return state.depth


def autocast_decrement_nesting() -> int:
    """Leave one region; how deep the thread is."""
    state.depth -= 1
    return state.depth


def clear_autocast_cache() -> None:
    """Forget the weights that were cast."""
    forget_casts()


# --- functions with a backward of their own -------------------------------------------


def autocast_decorator(autocast_instance: autocast, func: F) -> F:
    """A function whose calls run within a region of autocast."""
    return autocast_instance(func)


def _cast(value: Any, device_type: str, dtype: dtype) -> Any:
    """Nested values with their floating point tensors of this device in one dtype."""
    if isinstance(value, Tensor):
        return regions.cast(value, dtype, device_type)
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, Mapping):
        return {k: _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        cast = [_cast(v, device_type, dtype) for v in value]
        return type(value)(cast)
    return value


def custom_fwd(fwd: F | None = None, *, device_type: str, cast_inputs: dtype | None = None) -> Any:
    """Decorate ``forward`` of a `Function`, so that its backward runs in the same kind of region.

    cast_inputs: in a region, cast the inputs to this dtype and run outside of it.
    """
    _check_device(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = is_enabled(device_type) and cast_inputs is None
        if cast_inputs is None or not is_enabled(device_type):
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            args = _cast(args, device_type, cast_inputs)
            return fwd(ctx, *args, **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd: F | None = None, *, device_type: str) -> Any:
    """Decorate ``backward`` of a `Function` whose forward is decorated with `custom_fwd`."""
    _check_device(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(ctx, *args, **kwargs)

    return backward


def _check_device(device_type: object) -> None:
    if not isinstance(device_type, str):
        raise ValueError(
            f"Expected `device_type` of type `str`, got: `{type(device_type)}`; name the device "
            f"whose regions count, such as 'cuda'"
        )
