"""`torch.__future__`: how modules are converted, by settings that PyTorch may make its default."""

from __future__ import annotations

from maquette.nn.base.conversion import on_conversion


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether converting a module puts new parameters in the place of the old ones."""
    on_conversion["overwrite"] = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """What was set; False at first."""
    return on_conversion["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether converting a module, and loading a state dict, swaps parameters with new ones."""
    on_conversion["swap"] = bool(value)


def get_swap_module_params_on_conversion() -> bool:
    """What was set; False at first."""
    return on_conversion["swap"]
