"""Functions of torch that maquette has no tensors for, and those that PyTorch itself removed.

The names exist so that programs can import them; a call says what is missing, or what came instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn

from maquette.api.layout_methods import (
    NO_QUANTIZED,
    OTHER,
    QUANTIZED,
    REMOVED,
    removed,
)
from maquette.dispatch.torch_function import overridable
from maquette.tensor.tensor import Tensor
from maquette.torch.face.later import functions_for_later

_offered = partial(overridable, as_written=True)
_QUANTIZED = (
    "quantize_per_tensor", "quantize_per_tensor_dynamic", "quantize_per_channel",
    "empty_quantized", "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine",
    "fused_moving_avg_obs_fake_quant", "quantized_batch_norm", "quantized_max_pool1d",
    "quantized_max_pool2d", "quantized_max_pool3d", "quantized_lstm_cell", "quantized_gru_cell",
    "quantized_rnn_tanh_cell", "quantized_rnn_relu_cell", "quantized_lstm", "quantized_gru",
    *QUANTIZED,
)  # fmt: skip
_OTHER = {
    "slice_inverse": OTHER["slice_inverse"],
    "cond": "write a Python if",
    "while_loop": "write a Python while",
}

FUNCTIONS: dict[str, Callable[..., NoReturn]] = {
    **functions_for_later("torch", dict.fromkeys(_QUANTIZED, NO_QUANTIZED)),
    **functions_for_later("torch", _OTHER),
    **{name: removed(f"torch.{name}", instead) for name, instead in REMOVED.items()},
}


def _product(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    def product(input: Tensor, mat2: Tensor) -> Tensor:
        """The product of a sparse and a dense matrix."""
        found: Tensor = input @ mat2
        return found

    product.__name__ = product.__qualname__ = name
    return _offered(product)


spmm, hsmm, dsmm = map(_product, ("spmm", "hsmm", "dsmm"))


@_offered
def saddmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """`sspaddmm` by its former name."""
    return input.sspaddmm(mat1, mat2, beta=beta, alpha=alpha)


@_offered
def dequantize(input: Tensor) -> Tensor:
    """The numbers as float32: there is nothing to undo."""
    return input.dequantize()


@_offered
def is_distributed(input: Tensor) -> bool:
    """False: one process has all of it."""
    return False


def is_vulkan_available() -> bool:
    """False."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """True, as every PyTorch of today says; there is no C++ here."""
    return True


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name not in FUNCTIONS:
        raise AttributeError(f"module {__name__} has no attribute '{name}'")
    return FUNCTIONS[name]
