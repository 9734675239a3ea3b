"""`torch.multiprocessing.pool`: Python's pool of processes; tensors are copied."""

from multiprocessing.pool import Pool

__all__ = ["Pool"]
