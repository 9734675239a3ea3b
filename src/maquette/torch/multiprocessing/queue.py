"""`torch.multiprocessing.queue`: Python's queues between processes; tensors are copied."""

from multiprocessing.queues import Queue, SimpleQueue

__all__ = ["Queue", "SimpleQueue"]
