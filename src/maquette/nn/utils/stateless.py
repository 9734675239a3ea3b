"""`torch.nn.utils.stateless`: the old place of `torch.func.functional_call`."""

from __future__ import annotations

import warnings
from typing import Any

from maquette.nn.base import Module
from maquette.nn.utils.stateless_calls import Tensors, called_with
from maquette.nn.utils.stateless_calls import reparametrized as _reparametrize_module


def functional_call(
    module: Module,
    parameters_and_buffers: Tensors,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """As `torch.func.functional_call` with one dict; warns that this place is deprecated."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
        "which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def _functional_call(
    module: Module,
    parameters_and_buffers: Tensors,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    return called_with(module, parameters_and_buffers, args, kwargs, tie_weights, strict)


__all__ = ["_reparametrize_module", "functional_call"]
