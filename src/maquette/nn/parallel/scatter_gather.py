"""Arguments to several devices and results from them, of which there is one here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn


def is_namedtuple(obj: object) -> bool:
    """Whether it is a tuple whose places have names."""
    return isinstance(obj, tuple) and hasattr(obj, "_fields") and hasattr(obj, "_asdict")


_is_namedtuple = is_namedtuple  # PyTorch's older name, which libraries import


def scatter(inputs: object, target_gpus: Sequence[object], dim: int = 0) -> NoReturn:
    """Not there yet: NotImplementedError."""
    raise NotImplementedError("scatter is not supported by maquette yet: use torch.chunk")


def scatter_kwargs(
    inputs: object, kwargs: object, target_gpus: Sequence[object], dim: int = 0
) -> NoReturn:
    """Not there yet: NotImplementedError."""
    scatter(inputs, target_gpus, dim)


def gather(outputs: Sequence[object], target_device: object, dim: int = 0) -> NoReturn:
    """Not there yet: NotImplementedError."""
    raise NotImplementedError("gather is not supported by maquette yet: use torch.cat")
