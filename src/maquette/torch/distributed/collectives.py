"""Collectives among the members of a group, which is one process: what it sends, it receives.

Each checks what PyTorch's checks for gloo, in its words, then copies what is given to what is to be
filled. Sending to another process, or to oneself, is refused: there is nobody to receive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import Enum
from typing import Any, NoReturn

from maquette.dispatch.torch_function import overridable
from maquette.tensor.tensor import Tensor
from maquette.torch.distributed.groups import ProcessGroup, default_group, is_member
from maquette.torch.distributed.work import Work


class ReduceOp(Enum):
    """How collectives combine; of one process's values each gives them as they are."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"

    def __repr__(self) -> str:
        return f"<{self}: {self.value}>"


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # where PyTorch has the values
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
_OF_REAL_NUMBERS = (*_BITWISE, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT)
Group = ProcessGroup | None


# --- all to all -------------------------------------------------------------------------------


@overridable
def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Combine the tensors of all processes, in place."""
    _check_tensor(tensor, "tensor")
    if not is_member(group):
        return None
    _check_reduction("all_reduce", op, tensor)
    return _done([tensor], async_op)


@overridable
def all_reduce_coalesced(
    tensors: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """`all_reduce` of each tensor."""
    _check_tensors(tensors, "tensors")
    if not is_member(group):
        return None
    for tensor in tensors:
        _check_reduction("all_reduce", op, tensor)
    return _done(tensors, async_op)


@overridable
def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """Fill a list with the tensors of all processes."""
    _check_tensors(tensor_list, "tensor_list")
    _check_tensor(tensor, "tensor")
    _check_dtypes(*tensor_list, tensor)
    if not is_member(group):
        return None
    _fill("allgather", tensor_list, [tensor])
    return _done(tensor_list, async_op)


@overridable
def all_gather_coalesced(
    output_tensor_lists: Sequence[Sequence[Tensor]],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """`all_gather` of each tensor."""
    _check_tensors(input_tensor_list, "input_tensor_list")
    if not is_member(group):
        return None
    for outputs, tensor in zip(output_tensor_lists, input_tensor_list, strict=True):
        _fill("allgather", outputs, [tensor])
    return _done([t for outputs in output_tensor_lists for t in outputs], async_op)


@overridable
def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """Fill a tensor with those of all processes, one after the other."""
    _check_tensor(output_tensor, "output_tensor")
    _check_tensor(input_tensor, "input_tensor")
    if not is_member(group):
        return None
    _fill("allgather", [output_tensor], [input_tensor])
    return _done([output_tensor], async_op)


@overridable
def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Combine the lists of all processes; each gets its place's result."""
    _check_tensor(output, "output")
    _check_tensors(input_list, "input_list")
    _check_dtypes(output, *input_list)
    if not is_member(group):
        return None
    _check_reduction("reduce_scatter", op, output)
    _fill("reduce_scatter", [output], input_list)
    return _done([output], async_op)


@overridable
def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Combine the tensors of all processes; each gets its part of the result."""
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    if not is_member(group):
        return None
    _check_reduction("reduce_scatter_tensor", op, output)
    _fill("reduce_scatter", [output], [input])
    return _done([output], async_op)


@overridable
def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Send each process a tensor of a list, and receive one of each."""
    _check_tensors(output_tensor_list, "output_tensor_list")
    _check_tensors(input_tensor_list, "input_tensor_list")
    _check_dtypes(*output_tensor_list, *input_tensor_list)
    if not is_member(group):
        return None
    _fill("alltoall", output_tensor_list, input_tensor_list)
    return _done(output_tensor_list, async_op)


@overridable
def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Send each process a part of a tensor along dimension 0, and receive a part of each."""
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    _check_dtypes(output, input)
    if not is_member(group):
        return None
    for sizes, tensor in ((output_split_sizes, output), (input_split_sizes, input)):
        if sizes and (len(sizes) != 1 or sum(sizes) != tensor.meta.shape[0]):
            raise RuntimeError("Split sizes doesn't match total dim 0 size")
    _fill("alltoall", [output], [input])
    return _done([output], async_op)


def barrier(
    group: Group = None,
    async_op: bool = False,
    device_ids: Sequence[int] | None = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Wait for all processes: this one is here."""
    return _done([], async_op) if is_member(group) else None


def monitored_barrier(
    group: Group = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait for all processes, and name those that do not come: this one is here."""
    is_member(group)


# --- from one, to one -------------------------------------------------------------------------


@overridable
def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give all processes the tensor of one."""
    _check_tensor(tensor, "tensor")
    if not is_member(group):
        return None
    _check_root("broadcast", src, group_src)
    return _done([tensor], async_op)


@overridable
def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Combine the tensors of all processes, in that of one."""
    _check_tensor(tensor, "tensor")
    if not is_member(group):
        return None
    _check_root("reduce", dst, group_dst)
    _check_reduction("reduce", op, tensor)
    return _done([tensor], async_op)


@overridable
def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Fill a list of one process with the tensors of all."""
    _check_tensor(tensor, "tensor")
    if not is_member(group):
        return None
    _check_root("gather", 0 if dst is group_dst is None else dst, group_dst)
    if gather_list is None:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    _check_tensors(gather_list, "gather_list")
    _check_dtypes(tensor, *gather_list)
    _fill("gather", gather_list, [tensor])
    return _done(gather_list, async_op)


@overridable
def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give each process a tensor of the list of one."""
    _check_tensor(tensor, "tensor")
    if not is_member(group):
        return None
    _check_root("scatter", 0 if src is group_src is None else src, group_src)
    if scatter_list is None:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    _check_tensors(scatter_list, "scatter_list")
    _check_dtypes(tensor, *scatter_list)
    _fill("scatter", [tensor], scatter_list)
    return _done([tensor], async_op)


# --- from one to another ----------------------------------------------------------------------


class P2POp:
    """A send or a receipt, for `batch_isend_irecv`."""

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Group = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        _check_tensor(tensor, "tensor")
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        self.op, self.tensor, self.tag = op, tensor, tag
        self.group = group or default_group()
        self.peer = _peer(peer, group_peer)


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work | None]:
    """Begin several sends and receipts: there is nobody to send to."""
    return [p.op(p.tensor, p.peer, p.group, p.tag) for p in p2p_op_list]


@overridable
def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Send a tensor to another process: RuntimeError, there is none."""
    _check_tensor(tensor, "tensor")
    is_member(group)
    _refuse_peer("send to", _peer(dst, group_dst))


@overridable
def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Receive a tensor of another process: RuntimeError, there is none."""
    _check_tensor(tensor, "tensor")
    is_member(group)
    from_any = src is group_src is None
    _refuse_peer("receive from", None if from_any else _peer(src, group_src))


@overridable
def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """`isend`, and wait; ValueError for this process itself."""
    if _peer(dst, group_dst) == 0:
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the "
            "current process."
        )
    isend(tensor, dst, group, tag, group_dst)


@overridable
def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """`irecv`, and wait; gives the rank of the sender."""
    irecv(tensor, src, group, tag, group_src)
    return -1


def _refuse_peer(what: str, peer: int | None) -> NoReturn:
    other = "another process" if peer is None else f"rank {peer}"
    raise RuntimeError(
        f"cannot {what} {other}: the group has one process, rank 0, and there is no other"
    )


# --- what is checked --------------------------------------------------------------------------


def _done(outputs: Sequence[Tensor], async_op: bool) -> Work | None:
    return Work(outputs) if async_op else None


def _check_tensor(value: object, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )


def _check_tensors(value: object, name: str) -> None:
    if not isinstance(value, (list, tuple)) or not all(isinstance(t, Tensor) for t in value):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(value)} with elements of type "
            f"{[type(t) for t in value] if isinstance(value, (list, tuple)) else value}."
        )


def _check_dtypes(*tensors: Tensor) -> None:
    kinds = list(dict.fromkeys(t.meta.dtype for t in tensors))
    if len(kinds) > 1:
        raise ValueError(
            f"Invalid usage of tensors with different dtypesFound {kinds[0]} and  {kinds[1]}"
        )


def _check_reduction(name: str, op: ReduceOp, tensor: Tensor) -> None:
    kind = tensor.meta.dtype
    if kind.is_complex and op in _OF_REAL_NUMBERS:
        raise ValueError(f"{name} does not support {op} on complex tensors")
    if op in _BITWISE and kind.is_floating_point:
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")
    if op is ReduceOp.AVG and not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {kind}: a mean of whole "
            f"numbers is none; combine by ReduceOp.SUM"
        )


def _peer(rank: int | None, group_rank: int | None) -> int:
    if rank is not None and group_rank is not None:
        raise ValueError("Can't specify both group_rank and global_rank")
    found = group_rank if rank is None else rank
    if found is None:
        raise ValueError("Must specify global_rank or group_rank")
    return found


def _check_root(name: str, rank: int | None, group_rank: int | None) -> None:
    root = _peer(rank, group_rank)
    if root != 0:
        raise RuntimeError(f"ProcessGroupGloo::{name}: invalid root rank: {root}")


def _fill(name: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
    """Copy what the one process sends to what it receives."""
    for what, tensors in (("output", outputs), ("input", inputs)):
        if len(tensors) != 1:
            raise RuntimeError(
                f"ProcessGroupGloo::{name}: invalid {what} tensor list at index 0 (expected "
                f"length 1, got {len(tensors)})"
            )
    (output,), (given,) = outputs, inputs
    if output.meta.shape != given.meta.shape:
        raise RuntimeError(
            f"ProcessGroupGloo::{name}: invalid tensor size at index 0 (expected "
            f"{_sizes(given)}, got {_sizes(output)})"
        )
    output.detach().copy_(given.detach())


def _sizes(t: Tensor) -> str:
    return f"({', '.join(map(str, t.meta.shape))})"


all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor
