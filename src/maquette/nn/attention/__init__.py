"""`torch.nn.attention`: which kernels of attention a program allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from maquette.aten.nn.attention.attention_choice import SDPBackend, only


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Allow only these kernels of scaled dot product attention, for a block of this thread.

    set_priority: the first one that takes the inputs is chosen, in the order given. The choice
    decides which operators a graph shows and what memory a plan counts; on data the values agree.
    Where none of them can be taken, a call of attention raises RuntimeError. TypeError for what is
    no `SDPBackend`.
    """
    listed = [backends] if isinstance(backends, SDPBackend) else backends
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        raise TypeError(f"expected an SDPBackend or a list of them, got {backends!r}")
    for backend in listed:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"expected SDPBackends, got {backend!r}")
    with only(tuple(listed), in_order=set_priority):
        yield


WARN_FOR_UNFUSED_KERNELS = False  # PyTorch's setting; nothing is warned of here


_backend_names = {
    "cudnn": "CUDNN_ATTENTION",
    "flash": "FLASH_ATTENTION",
    "mem_efficient": "EFFICIENT_ATTENTION",
    "math": "MATH",
    "overrideable": "OVERRIDEABLE",
}


def list_flash_attention_impls() -> list[str]:
    """The other kernels of flash attention that could be taken: none."""
    return []


def current_flash_attention_impl() -> str | None:
    """The other kernel of flash attention that is taken: None."""
    return None


def _get_flash_version() -> str:
    """The version of PyTorch's own kernel, whose operators are here."""
    return "2.5.7"


def register_flash_attention_impl(impl: str, *, register_fn: Callable[..., object]) -> None:
    """NotImplementedError: kernels are operators' own."""
    raise NotImplementedError(
        f"register_flash_attention_impl({impl!r}) is not supported by maquette: write an operator "
        f"with maquette.library, or a kernel of scaled_dot_product_attention for a device"
    )


def activate_flash_attention_impl(impl: str) -> None:
    """ValueError: there is no such kernel."""
    raise ValueError(f"Unknown flash attention impl {impl!r}. Available implementations: []")


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Nothing: no other kernel was taken."""


__all__ = [
    "WARN_FOR_UNFUSED_KERNELS",
    "SDPBackend",
    "activate_flash_attention_impl",
    "current_flash_attention_impl",
    "list_flash_attention_impls",
    "register_flash_attention_impl",
    "restore_flash_attention_impl",
    "sdpa_kernel",
]
