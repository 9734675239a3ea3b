"""`torch._C._autograd`: what PyTorch keeps there, and the package of autograd for the rest."""

from __future__ import annotations

from collections.abc import Sequence

from maquette.autograd.engine import current_run
from maquette.autograd.saved.hooks import watch
from maquette.autograd.saved.values import RawSaved as SavedTensor
from maquette.tensor.tensor import Tensor
from maquette.torch.face.forwarding import forward, without_underscores


def _saved_tensors_hooks_is_enabled() -> bool:
    """Whether hooks on saved tensors may be set in this thread."""
    return not watch.disabled


def _unsafe_set_version_counter(tensors: Sequence[Tensor], versions: Sequence[int]) -> None:
    """Say how often tensors have been written to; backward then checks against that."""
    for t, version in zip(tensors, versions, strict=True):
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        t._version_counter().value = version


def _get_current_graph_task_keep_graph() -> bool:
    """Whether the backward that is under way retains its graph; True outside of backward."""
    run = current_run()
    return run is None or run.retain_graph


__getattr__ = forward(
    __name__, "maquette.autograd", spellings=without_underscores, path="_C._autograd"
)
__all__ = ["SavedTensor"]
