"""Factorizations of matrices and solvers; products are in `products`."""
