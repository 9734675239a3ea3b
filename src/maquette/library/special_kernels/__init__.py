"""Kernels of users that are no plain functions at a key: rules of modes, compiled on first call."""
