"""Operators by family: linear algebra, Fourier transforms, special functions, sparse, masked."""
