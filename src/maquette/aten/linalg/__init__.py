"""Products of matrices and factorizations."""
