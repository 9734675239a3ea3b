"""Collectives as operators without side effects: ``torch.ops._c10d_functional`` and its elder.

Each makes a new tensor of what the processes of a group, which is one, give; ``wait_tensor`` gives
the tensor itself. A group is given by its name; in the older ``torch.ops.c10d_functional``, by its
ranks. The idea: to the one process there is, all collectives but sending are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maquette.library import Library
from maquette.library.objects.script_objects import register_class
from maquette.tensor.tensor import Tensor
from maquette.torch.distributed.collectives import ReduceOp
from maquette.torch.distributed.groups import ProcessGroup, resolve_group
from maquette.torch.distributed.work import Work

_BY_NAME = """
all_gather_into_tensor(Tensor input, int group_size, Any group_name) -> Tensor
all_reduce(Tensor input, str reduce_op, Any group_name) -> Tensor
all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes,
 Any group_name) -> Tensor
broadcast(Tensor input, int src, Any group_name) -> Tensor
reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, Any group_name) -> Tensor
"""
_LISTS_BY_NAME = """
all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, Any group_name) -> Tensor[]
all_reduce_coalesced(Tensor[] inputs, str reduce_op, Any group_name) -> Tensor[]
reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int group_size, Any group_name)
 -> Tensor[]
"""
_BY_RANKS = """
all_gather_into_tensor(Tensor shard, str tag, int[] ranks, int group_size) -> Tensor
all_reduce(Tensor self, str reduceOp, str tag, int[] ranks, int group_size) -> Tensor
all_to_all_single(Tensor input, SymInt[]? output_split_sizes, SymInt[]? input_split_sizes, str tag,
 int[] ranks, int group_size) -> Tensor
broadcast(Tensor self, int src, str tag, int[] ranks, int group_size) -> Tensor
reduce_scatter_tensor(Tensor input, str reduceOp, str tag, int[] ranks, int group_size) -> Tensor
"""
_LISTS_BY_RANKS = """
all_gather_into_tensor_coalesced(Tensor[] input, str tag, int[] ranks, int group_size) -> Tensor[]
all_reduce_coalesced(Tensor[] self, str reduceOp, str tag, int[] ranks, int group_size)
 -> Tensor[]
reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduceOp, str tag, int[] ranks,
 int group_size) -> Tensor[]
"""
_IN_PLACE = """
all_reduce_(Tensor(a!) input, str reduce_op, Any group_name) -> Tensor(a!)
broadcast_(Tensor(a!) input, int src, Any group_name) -> Tensor(a!)
"""
_GROUP = "__torch__.torch.classes.c10d.ProcessGroup process_group"
_REDUCTION = "__torch__.torch.classes.c10d.ReduceOp reduce_op"
_END = "bool async_op=True, int timeout=-1"
_WORK = "__torch__.torch.classes.c10d.Work"
_WITH_GROUPS = f"""
_allgather_base_(Tensor output_tensor, Tensor input_tensor, {_GROUP}, {_END}) -> (Tensor, {_WORK})
_reduce_scatter_base_(Tensor output_tensor, Tensor input_tensor, {_GROUP}, {_REDUCTION}, {_END})
 -> (Tensor, {_WORK})
allgather_(Tensor[][] output_tensors, Tensor[] input_tensors, {_GROUP}, {_END})
 -> (Tensor[][], {_WORK})
allreduce_(Tensor[] tensors, {_GROUP}, {_REDUCTION}, Tensor? sparse_indices, {_END})
 -> (Tensor[], {_WORK})
alltoall_(Tensor[] output_tensors, Tensor[] input_tensors, {_GROUP}, {_END}) -> (Tensor[], {_WORK})
broadcast_(Tensor[] tensors, {_GROUP}, int root_rank, int root_tensor, {_END})
 -> (Tensor[], {_WORK})
reduce_scatter_(Tensor[] output_tensors, Tensor[][] input_tensors, {_GROUP}, {_REDUCTION}, {_END})
 -> (Tensor[], {_WORK})
scatter_(Tensor[] output_tensors, Tensor[][] input_tensors, {_GROUP}, int root_rank, {_END})
 -> (Tensor[], {_WORK})
"""
"""What PyTorch's collectives call, and classes of tensors have handlers of. Those here do not call
them, so nothing computes them."""


def _lines(schemas: str) -> list[str]:
    return schemas.replace("\n ", " ").strip().splitlines()


def _check(given: Mapping[str, object]) -> None:
    """RuntimeError for a group that is not there, or is of more than one process."""
    if "group_name" in given:
        resolve_group(given["group_name"])
    if given.get("group_size", 1) != 1 or given.get("src", 0) != 0:
        raise RuntimeError(f"groups have one process here, of rank 0; got {dict(given)}")


def _itself(input: Tensor) -> Tensor:
    return input


def _copy(input: Tensor) -> Tensor:
    copy: Tensor = input.clone()
    return copy


def _copies(inputs: list[Tensor]) -> list[Tensor]:
    return [each.clone() for each in inputs]


def _define(library: Library, schemas: str, give: Callable[[Any], object]) -> None:
    for schema in _lines(schemas):
        library.define(schema)
        name, _, parameters = schema.partition(" -> ")[0].partition("(")
        names = [each.split()[-1] for each in parameters.rstrip(")").split(",")][1:]
        library.impl(name, _checked(give, names), "CompositeExplicitAutograd")


def _checked(give: Callable[[Any], object], names: Sequence[str]) -> Callable[..., object]:
    def collective(input: object, *args: object) -> object:
        _check(dict(zip(names, args, strict=True)))
        return give(input)

    return collective


_NEWER = Library("_c10d_functional", "FRAGMENT")
_define(_NEWER, _BY_NAME, _copy)
_define(_NEWER, _LISTS_BY_NAME, _copies)
_define(_NEWER, _IN_PLACE, _itself)
_define(_NEWER, "wait_tensor(Tensor tensor) -> Tensor", _itself)
_define(_NEWER, "_wrap_tensor_autograd(Tensor input) -> Tensor", _itself)
_OLDER = Library("c10d_functional", "FRAGMENT")
_define(_OLDER, _BY_RANKS, _copy)
_define(_OLDER, _LISTS_BY_RANKS, _copies)
_define(_OLDER, "wait_tensor(Tensor self) -> Tensor", _itself)
for _class in (ProcessGroup, ReduceOp, Work):
    register_class(f"c10d::{_class.__name__}", _class)
_COLLECTIVES = Library("c10d", "FRAGMENT")
for _schema in _lines(_WITH_GROUPS):
    _COLLECTIVES.define(_schema)
