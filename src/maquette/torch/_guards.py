"""`torch._guards`: guards on shapes, and where numbers come from (`maquette.symbolic`)."""

from maquette.fake.detecting import detect_fake_mode
from maquette.symbolic.guards import ShapeGuard, SLoc
from maquette.symbolic.sources import ChainedSource, Source

__all__ = ["ChainedSource", "SLoc", "ShapeGuard", "Source", "detect_fake_mode"]
