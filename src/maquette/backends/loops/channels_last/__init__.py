"""Loops over images whose channels are the last dimension of memory: rows of channels, in turn."""
