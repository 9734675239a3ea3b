"""Matching by names: see `matcher_utils.SubgraphMatcherWithNameNodeMap`."""

from maquette.fx.passes.utils.matcher_utils import SubgraphMatcherWithNameNodeMap

__all__ = ["SubgraphMatcherWithNameNodeMap"]
