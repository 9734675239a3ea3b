"""`DistributedDataParallel`: there is one process, so it says what to do instead."""

from __future__ import annotations

from typing import Any

from maquette.nn.base import Module


class DistributedDataParallel(Module):
    """Not there yet: there is one process. Raises NotImplementedError."""

    def __init__(self, module: Module, *args: Any, **options: Any) -> None:
        raise NotImplementedError(
            "DistributedDataParallel is not supported by maquette yet: there is one process. Use "
            "the module itself, and ask torch.distributed.is_initialized() before wrapping it."
        )


DistributedDataParallelCPU = DistributedDataParallel
