"""Process groups of one process: made, asked about and destroyed.

A group has one member, rank 0, and no backend: what a collective computes for one process is in
`collectives.py`. More than one process is refused where a group is made, so nothing else asks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

from maquette.nn.default_group import DEFAULT_GROUP
from maquette.torch.distributed.rendezvous import rendezvous
from maquette.torch.distributed.stores import HashStore, PrefixStore, Store

default_pg_timeout = timedelta(minutes=30)
_NO_DEFAULT = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


class Backend(str):
    """The name of a backend, in lower case."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"
    default_device_backend_map: ClassVar[dict[str, str]] = {
        "cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO, "hpu": FAKE
    }  # fmt: skip
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """A group of one process."""

    def __init__(self, backend: str, store: Store, group_name: str) -> None:
        self._backend = backend
        self.store = store
        self.group_name = group_name
        self.group_desc = "default_pg" if group_name == "0" else "undefined"

    def rank(self) -> int:
        """0."""
        return 0

    def size(self) -> int:
        """1."""
        return 1

    def name(self) -> str:
        """The name of the backend."""
        return self._backend


class GroupMember:
    """The default group, None without one; and what stands for a group that one is no member of."""

    WORLD: ClassVar[ProcessGroup | None] = None
    NON_GROUP_MEMBER: ClassVar[int] = -100


class _World(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:  # PyTorch's name
        """The group of all processes, None without one."""
        return GroupMember.WORLD


class group(metaclass=_World):  # PyTorch's name
    """Where the group of all processes is found."""


_GROUPS: dict[ProcessGroup, None] = {}
_MADE = [0]


def _new(backend: str, store: Store) -> ProcessGroup:
    made = ProcessGroup(backend, store, str(_MADE[0]))
    _MADE[0] += 1
    _GROUPS[made] = None
    return made


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: object = None,
    device_id: object = None,
) -> None:
    """Make the default group, of the one process that there is.

    init_method: ``env://`` by default, which reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT;
    ``tcp://`` and ``file://`` are read and checked, nothing listens there. Raises ValueError where
    there is a default group, NotImplementedError for more than one process, RuntimeError for a
    backend that is not built in: gloo is the one that is.
    """
    if GroupMember.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    assert store is None or init_method is None, "Cannot specify both init_method and store."
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    if store is None:
        store, rank, world_size = next(rendezvous(init_method or "env://", rank, world_size))
    else:
        assert world_size > 0, "world_size must be positive if using store"
        assert rank >= 0, "rank must be non-negative if using store"
    name = Backend.UNDEFINED if backend is None else str(Backend(backend))
    _check_backend(name)
    if world_size > 1:
        raise NotImplementedError(
            f"init_process_group(world_size={world_size}): maquette has process groups of one "
            f"process only; no backend sends tensors between processes. Run one process, or plan "
            f"the program of one rank"
        )
    if rank != 0:
        raise RuntimeError(f"rank {rank} is out of range for a group of {world_size} process")
    GroupMember.WORLD = _new(name, PrefixStore("default_pg", store))
    DEFAULT_GROUP[0] = GroupMember.WORLD


def _check_backend(name: str) -> None:
    """``gloo``, ``cpu:gloo,cuda:nccl`` or none: RuntimeError for one that is not built in."""
    for part in name.split(","):
        backend = part.rpartition(":")[2]
        assert backend in Backend.backend_list, f"Unknown backend type {backend}"
        if backend not in (Backend.UNDEFINED, Backend.GLOO):
            raise RuntimeError(f"Distributed package doesn't have {backend.upper()} built in")


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Forget a group; the default one, and all others with it, if none is given."""
    which = group or GroupMember.WORLD
    assert which is not None, "Process group cannot be None"
    if which not in _GROUPS:
        raise ValueError("Invalid process group specified")
    if which is GroupMember.WORLD:
        _GROUPS.clear()
        _MADE[0] = 0
        GroupMember.WORLD = None
        DEFAULT_GROUP[0] = None
    else:
        del _GROUPS[which]


def is_initialized() -> bool:
    """Whether there is a default group."""
    return GroupMember.WORLD is not None


def default_group() -> ProcessGroup:
    """The default group; ValueError without one."""
    if GroupMember.WORLD is None:
        raise ValueError(_NO_DEFAULT)
    return GroupMember.WORLD


def resolve_group(group_name: object) -> ProcessGroup:
    """The group of a name, or which this is. RuntimeError if there is none."""
    for made in _GROUPS:
        if group_name == made.group_name or group_name is made:
            return made
    raise RuntimeError(
        f"Could not resolve the process group registered under the name {group_name}: call "
        f"torch.distributed.init_process_group first, and give its group_name"
    )


def is_member(group: object) -> bool:
    """Whether this process is in a group, the default one if None; ValueError for no group."""
    if group is None:
        default_group()
        return True
    if group == GroupMember.NON_GROUP_MEMBER:
        return False
    if group not in _GROUPS:
        raise ValueError(
            f"Process group {group} is not initialized in the world group map. Please initialize "
            f"the group first."
        )
    return True


def get_rank(group: object = None) -> int:
    """0; -1 for a group that this process is not in."""
    default_group()
    return 0 if group is None or _registered(group) else -1


def get_world_size(group: object = None) -> int:
    """1; -1 for a group that this process is not in."""
    default_group()
    return 1 if group is None or _registered(group) else -1


def _registered(group: object) -> bool:
    if group == GroupMember.NON_GROUP_MEMBER:
        return False
    if group not in _GROUPS:
        raise ValueError(
            f"Group {group} is not registered, please create group with "
            f"torch.distributed.new_group API"
        )
    return True


def get_backend(group: ProcessGroup | None = None) -> Backend:
    """The name of a group's backend."""
    which = group or default_group()
    if which not in _GROUPS:
        raise ValueError("Invalid process group specified")
    return Backend(which.name())


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """Which backend serves which device."""
    name = get_backend(group)
    return str(name) if ":" in name else "cpu:gloo"


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """[0]."""
    is_member(group)
    return [0]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank in the group of a process; ValueError for one that is not in it."""
    if _registered(group) and global_rank != 0:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return 0


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank among all of a group's process; ValueError for one that is not there."""
    if _registered(group) and group_rank != 0:
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return 0


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """What LOCAL_RANK says, or else the fallback; RuntimeError without both."""
    found = os.environ.get("LOCAL_RANK", fallback_rank)
    if found is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
            "`get_node_local_rank` to work, assuming you are not running in a multi-device context "
            "and want the code to run locally instead."
        )
    return int(found)


def get_pg_count() -> int:
    """How many groups have been made since the default one."""
    return _MADE[0]


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: object = None,
    sort_ranks: bool = True,
) -> ProcessGroup:
    """Another group of the one process; ValueError for ranks that there are not."""
    world = default_group()
    if ranks is not None and len(ranks) > 1:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by "
            "init_process_group"
        )
    if ranks is not None and not ranks:
        raise ValueError("new_group: the list of ranks is empty; pass [0], or None for all ranks")
    for rank in ranks or ():
        if rank != 0:
            raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to 0 (world_size=1)")
    name = world.name() if backend is None else str(Backend(backend))
    _check_backend(name)
    return _new(name, HashStore())


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup, list[ProcessGroup]]:
    """The groups of so many processes each, and the one that this process is in."""
    if group_size is not None and group_size > 1:
        raise ValueError(
            f"Invalid group_size={group_size} for get_world_size(group=None)=1: group_size <= "
            f"world size is required"
        )
    made = new_group([0], timeout, backend, pg_options, group_desc=group_desc)
    return made, [made]


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | None, list[ProcessGroup]]:
    """The groups of the ranks that are listed, and the one that this process is in."""
    made = [
        new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        for ranks in ranks_per_subgroup_list
    ]
    return (made[0] if made else None), made
