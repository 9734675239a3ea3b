"""`torch.utils.serialization`: where the settings of saving and loading are."""

from maquette.torch.helpers import serialization_config as config

__all__ = ["config"]
