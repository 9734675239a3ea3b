"""`functorch.einops`: `rearrange`."""

from maquette.torch.func.rearranging import rearrange

__all__ = ["rearrange"]
