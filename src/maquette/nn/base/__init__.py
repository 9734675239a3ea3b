"""What every module can do, an idea a file; `module.py` puts the pieces together."""

from maquette.nn.base.module import Module

__all__ = ["Module"]
