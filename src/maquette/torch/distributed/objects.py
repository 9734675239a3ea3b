"""Collectives of Python objects; what arrives is a copy, as if it had been sent."""

from __future__ import annotations

import pickle
from typing import Any, NoReturn

from maquette.core.device import device as Device
from maquette.torch.distributed.collectives import Group, _check_root
from maquette.torch.distributed.groups import is_member


def all_gather_object(object_list: list[Any], obj: Any, group: Group = None) -> None:
    """Fill a list with the objects of all processes."""
    if is_member(group):
        object_list[0] = _sent(obj)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Group = None,
    group_dst: int | None = None,
) -> None:
    """Fill a list of one process with the objects of all."""
    if not is_member(group):
        return
    _check_root("gather", 0 if dst is group_dst is None else dst, group_dst)
    if object_gather_list is None:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    object_gather_list[0] = _sent(obj)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: Device | None = None,
    group_src: int | None = None,
) -> None:
    """Give all processes the objects of one, in place."""
    if is_member(group):
        _check_root("broadcast", 0 if src is group_src is None else src, group_src)
        object_list[:] = [_sent(item) for item in object_list]


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Group = None,
    group_src: int | None = None,
) -> None:
    """Give each process an object of the list of one, as the first of its list."""
    if not is_member(group):
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    _check_root("scatter", 0 if src is group_src is None else src, group_src)
    if scatter_object_input_list is None:
        raise ValueError("source rank must provide non-None scatter_object_input_list")
    scatter_object_output_list[0] = _sent(scatter_object_input_list[0])


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: object = None,
    device: object = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> NoReturn:
    """RuntimeError: there is no other process."""
    raise RuntimeError("cannot send objects: the group has one process, and no other is there")


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: object = None,
    device: object = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> NoReturn:
    """RuntimeError: there is no other process."""
    raise RuntimeError("cannot receive objects: the group has one process, and no other is there")


def _sent(obj: Any) -> Any:
    return pickle.loads(pickle.dumps(obj))
