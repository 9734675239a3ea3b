"""Tensors from sizes and values."""
