"""`torch.distributed`: process groups of one process, with PyTorch's collectives among its members.

Programs that were written for a launcher run as the one process they start as: groups, collectives,
stores and samplers give what PyTorch gives for a world of one (`groups.py`, `collectives.py`,
`objects.py`, `stores.py`). More processes, and what only they are for (device meshes, sharded
tensors, RPC), are refused by name.
"""

from __future__ import annotations

from maquette.torch.distributed.collectives import (
    P2POp,
    ReduceOp,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    gather,
    irecv,
    isend,
    monitored_barrier,
    recv,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
    send,
)
from maquette.torch.distributed.groups import (
    Backend,
    GroupMember,
    ProcessGroup,
    default_group,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_initialized,
    is_member,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    resolve_group,
)
from maquette.torch.distributed.objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from maquette.torch.distributed.rendezvous import rendezvous
from maquette.torch.distributed.stores import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    FileStore,
    HashStore,
    PrefixStore,
    QueueEmptyError,
    Store,
    TCPStore,
)
from maquette.torch.distributed.work import Work
from maquette.torch.face.forwarding import forward
from maquette.torch.face.later import functions_for_later


def is_available() -> bool:
    """False, though groups of one process can be made.

    Libraries take True to say that device meshes and sharded tensors are there, and make some when
    they are imported.
    """
    return False


def is_gloo_available() -> bool:
    """True: groups of one process go by this name."""
    return True


def is_torchelastic_launched() -> bool:
    """False."""
    return False


def is_nccl_available() -> bool:
    """False."""
    return False


def is_mpi_available() -> bool:
    """False."""
    return False


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether groups may be made by this name: of ``gloo``."""
    return backend.lower() == Backend.GLOO


_get_default_group = default_group
_resolve_process_group = resolve_group
_get_global_rank = get_global_rank
_all_gather_base = all_gather_into_tensor
_reduce_scatter_base = reduce_scatter_tensor
GroupName = str
reduce_op = ReduceOp


def _rank_not_in_group(group: object) -> bool:
    """Whether this process is not in a group; of the default group, None, it always is."""
    return group is not None and not is_member(group)


def _broadcast_coalesced(
    process_group: object, tensors: object, buffer_size: int, src: int = 0
) -> None:
    """Nothing: the tensors are those of the one process already."""


def set_debug_level_from_env() -> None:
    """Nothing: no messages are sent that would be checked."""


_LATER = functions_for_later(
    "torch.distributed",
    {"init_device_mesh": "there is one process, and one device in it: use the module itself"},
)
_forwarded = forward(__name__)


def __getattr__(name: str) -> object:
    return _LATER[name] if name in _LATER else _forwarded(name)


__all__ = [
    "Backend",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "QueueEmptyError",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_backend_config",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "rendezvous",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
]
