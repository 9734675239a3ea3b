"""`torch.distributed.checkpoint.default_planner`: what a program asks of saving and loading.

In PyTorch a planner shares the work among processes. There is one process here, so what is left
are the options. Planners of a program's own are absent by name.
"""

from __future__ import annotations

from maquette.torch.face.forwarding import forward


class DefaultSavePlanner:
    """Options of `save`; what spares copies in several processes means nothing in one."""

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        _refuse_whole_mappings(flatten_state_dict)


class DefaultLoadPlanner:
    """Options of `load`. allow_partial_load: leave what the checkpoint lacks as it is."""

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        _refuse_whole_mappings(flatten_state_dict)
        self.allow_partial_load = allow_partial_load


def _refuse_whole_mappings(flatten_state_dict: bool) -> None:
    if not flatten_state_dict:
        raise NotImplementedError(
            "mappings as one entry of a checkpoint (flatten_state_dict=False) are not supported "
            "by maquette: each of their values is an entry"
        )


__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]
__getattr__ = forward(__name__)
