"""Products of matrices and vectors: `mm` and its like, `matmul`, `einsum`."""
