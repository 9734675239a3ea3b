"""`torch._dispatch`: contexts of the dispatcher that tracers use."""

from maquette.torch._dispatch import python

__all__ = ["python"]
