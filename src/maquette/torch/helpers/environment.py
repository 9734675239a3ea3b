"""What there is here of `torch._environment`, `_compile` and `torch.utils._triton`, `_helion`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NoReturn, overload


def is_fbcode() -> bool:
    """False."""
    return False


def is_prod() -> bool:
    """False."""
    return False


@overload
def _disable_dynamo(fn: Callable[..., Any], recursive: bool = True) -> Callable[..., Any]: ...
@overload
def _disable_dynamo(
    fn: None = None, recursive: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...


def _disable_dynamo(fn: Callable[..., Any] | None = None, recursive: bool = True) -> Any:
    """The function itself, or a decorator that changes nothing."""
    return fn if fn is not None else (lambda function: function)


def has_triton_package() -> bool:
    """Whether the package triton is there."""
    return importlib.util.find_spec("triton") is not None


def has_helion_package() -> bool:
    """Whether the package helion is there."""
    return importlib.util.find_spec("helion") is not None


def has_triton() -> bool:
    """False: kernels of Triton are traced and not run."""
    return False


def has_triton_tma(*args: object) -> bool:
    """False, as are the features that follow."""
    return False


has_helion = has_triton_tma
has_triton_tma_device = has_triton_stable_tma_api = has_triton_tma
has_triton_experimental_host_tma = has_triton_tensor_descriptor_host_tma = has_triton_tma
has_datacenter_blackwell_tma_device = has_triton_tma


def get_triton_version(fallback: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """The fallback: no version is used."""
    return fallback


def triton_backend() -> NoReturn:
    """RuntimeError: there is none."""
    raise RuntimeError("there is no Triton backend here; torch.utils._triton.has_triton() is False")


triton_hash_with_backend = triton_backend
