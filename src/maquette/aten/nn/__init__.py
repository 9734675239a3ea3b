"""Operators that neural networks are made of."""
