"""`torch.utils.deterministic`: whether new memory is filled, where programs ask for determinism."""

from __future__ import annotations

fill_uninitialized_memory = True
"""Kept: memory that a kernel does not fill is zeros or what NumPy left."""
