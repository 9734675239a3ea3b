"""Small modules under private paths of PyTorch that programs import all the same."""
