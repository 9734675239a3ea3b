"""`SyncBatchNorm`, by name only: there is one process, with nothing to synchronize with."""

from __future__ import annotations

from typing import Any, TypeVar

from maquette.nn.base import Module
from maquette.nn.modules.batchnorm import _BatchNorm

T = TypeVar("T", bound=Module)
_ADVICE = (
    "is not supported by maquette yet: there is one process. Keep BatchNorm, and ask "
    "torch.distributed.is_initialized() before converting."
)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over all processes' batches; not there yet: NotImplementedError."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError(f"SyncBatchNorm {_ADVICE}")

    @classmethod
    def convert_sync_batchnorm(cls, module: T, process_group: object = None) -> T:
        """The module itself if it has no batch normalization; else NotImplementedError."""
        if any(isinstance(member, _BatchNorm) for member in module.modules()):
            raise NotImplementedError(f"SyncBatchNorm.convert_sync_batchnorm {_ADVICE}")
        return module
