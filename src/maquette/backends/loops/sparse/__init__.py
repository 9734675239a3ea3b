"""Loops over the elements of sparse matrices."""
