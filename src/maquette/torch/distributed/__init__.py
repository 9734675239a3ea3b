"""`torch.distributed`: there is one process, so it is not available.

Programs that ask `is_available` or `is_initialized` first go their way alone; those that do not are
told so by what they call.
"""

from __future__ import annotations

from enum import Enum, auto

from maquette.torch.face.forwarding import forward
from maquette.torch.face.later import functions_for_later


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


def is_nccl_available() -> bool:
    """False."""
    return False


def is_gloo_available() -> bool:
    """False."""
    return False


def is_mpi_available() -> bool:
    """False."""
    return False


class ReduceOp(Enum):
    """How collectives combine."""

    SUM = auto()
    AVG = auto()
    PRODUCT = auto()
    MIN = auto()
    MAX = auto()
    BAND = auto()
    BOR = auto()
    BXOR = auto()
    PREMUL_SUM = auto()


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # where PyTorch has the values


class group:  # PyTorch's name
    """The group of all processes, of which there is none."""

    WORLD = None


class GroupMember:
    """What a group's member is, where there is no group."""

    WORLD = None
    NON_GROUP_MEMBER = -100


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def is_backend_available(backend: str) -> bool:
    """False."""
    return False


def get_pg_count() -> int:
    """0 groups."""
    return 0


_ADVICE = (
    "there is one process; ask torch.distributed.is_initialized() first, and run the program "
    "without a launcher"
)
_LATER = functions_for_later(
    "torch.distributed",
    dict.fromkeys(
        (
            "all_gather",
            "all_gather_into_tensor",
            "all_gather_object",
            "all_reduce",
            "all_to_all",
            "all_to_all_single",
            "barrier",
            "broadcast",
            "broadcast_object_list",
            "destroy_process_group",
            "gather",
            "gather_object",
            "get_backend",
            "get_rank",
            "get_world_size",
            "init_device_mesh",
            "init_process_group",
            "irecv",
            "isend",
            "monitored_barrier",
            "new_group",
            "recv",
            "reduce",
            "reduce_scatter",
            "reduce_scatter_tensor",
            "scatter",
            "scatter_object_list",
            "send",
        ),
        _ADVICE,
    ),
)
_forwarded = forward(__name__)


def __getattr__(name: str) -> object:
    return _LATER[name] if name in _LATER else _forwarded(name)
