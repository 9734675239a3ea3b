"""Rewrites of whole modules: normal forms, fused layers, merged products, annotations."""
