"""Helpers of passes: matching and fusing subgraphs."""

from maquette.fx.passes.utils.common import compare_graphs

__all__ = ["compare_graphs"]
