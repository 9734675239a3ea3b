"""`torch.__future__`: how modules are converted, by settings that PyTorch may make its default."""

from __future__ import annotations

_settings = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Kept and told by its getter: here a conversion keeps a parameter where it can."""
    _settings["overwrite"] = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """What was set; False at first."""
    return _settings["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Kept and told by its getter: here a conversion gives a parameter new data in place."""
    _settings["swap"] = bool(value)


def get_swap_module_params_on_conversion() -> bool:
    """What was set; False at first."""
    return _settings["swap"]
