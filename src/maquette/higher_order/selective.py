"""Selective checkpointing: which operators' results a checkpointed block keeps after all.

A policy is asked at each operator of the first run. Its results are kept, or a mark that they are
to be computed again; the second run takes them in the same order, operator by operator, and they
are let go as it does, so that backward goes through such a block once. Both runs are under a mode,
as any user could write one.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, cast

from maquette.core.pytree import tree_flatten, tree_map_only
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.operator import OpOverload
from maquette.tensor.tensor import Tensor, alias

_PASSED_BY = frozenset({"aten::detach", "prim::device", "aten::_is_zerotensor"})
_AGAIN = object()
_GONE = object()


class CheckpointPolicy(enum.Enum):
    """What becomes of an operator's results in a checkpointed block.

    MUST_ and PREFER_ differ for compilers only, which may overrule a preference. Where data is on
    the host already, offloading it there is keeping it.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVING = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
_OFFLOADING = (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)


class SelectiveCheckpointContext:
    """What a policy is told beside the call: whether the block runs again, and the results."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


Policy = Callable[..., Any]


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | Sequence[OpOverload], allow_cache_entry_mutation: bool = False
) -> tuple[TorchDispatchMode, TorchDispatchMode]:
    """The two contexts of a checkpoint that keeps some results; for its ``context_fn``.

    policy_fn_or_list: overloads whose results are kept, or ``policy(ctx, op, *args, **kwargs)``,
    which gives a `CheckpointPolicy` or a bool. allow_cache_entry_mutation: whether a kept tensor
    may be mutated afterwards; else backward raises RuntimeError. ValueError for a list of anything
    but overloads, TypeError for neither.
    """
    policy = _policy_of(policy_fn_or_list)
    kept: Kept = defaultdict(list)
    return (
        _CachingTorchDispatchMode(policy, kept),
        _CachedTorchDispatchMode(kept, allow_cache_entry_mutation),
    )


def _policy_of(given: Any) -> Policy:
    if isinstance(given, (list, tuple)):
        for op in given:
            if not isinstance(op, OpOverload):
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type "
                    f"{type(op)}. Please update the OpOverloadPacket to a specific OpOverload: "
                    f"torch.ops.aten.mm.default, not torch.ops.aten.mm."
                )
        listed = frozenset(given)
        save, again = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE
        return lambda ctx, op, *args, **kwargs: save if op in listed else again
    if not callable(given):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    policy: Policy = given
    return policy


class _Version:
    """A kept tensor, and how often it had been mutated by then."""

    def __init__(self, value: Tensor, *, offload: bool) -> None:
        self.place = value.device
        # An alias: what is kept must hold no history, and be told of mutations.
        self.val = alias(value).to("cpu") if offload else alias(value)
        self.version = self.val._version

    def taken(self, *, may_be_mutated: bool) -> Tensor:
        if self.val._version != self.version and not may_be_mutated:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated: it was "
                f"{self.val.meta}. Do not mutate it, or pass allow_cache_entry_mutation=True"
            )
        return alias(self.val).to(self.place)


Kept = defaultdict[Any, list[Any]]


class _CachingTorchDispatchMode(TorchDispatchMode):  # PyTorch's name
    """The first run: results that the policy wants are kept, by operator, in turn."""

    supports_higher_order_operators = True

    def __init__(self, policy_fn: Policy, storage: Kept) -> None:
        super().__init__()
        self.policy_fn = policy_fn
        self.storage = storage

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func.name() in _PASSED_BY:
            return result
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        wanted = self.policy_fn(context, func, *args, **kwargs)
        offload = wanted in _OFFLOADING
        keep = wanted is True or wanted in _SAVING or offload
        self.storage[func].append(_kept(result, offload=offload) if keep else _AGAIN)
        return result


def _kept(result: Any, *, offload: bool) -> Any:
    return tree_map_only(Tensor, lambda t: _Version(cast(Tensor, t), offload=offload), result)


class _CachedTorchDispatchMode(TorchDispatchMode):  # PyTorch's name
    """The second run: kept results are taken, and let go here; the others are computed."""

    supports_higher_order_operators = True

    def __init__(self, storage: Kept, allow_cache_entry_mutation: bool) -> None:
        super().__init__()
        self.storage = storage
        self.may_be_mutated = allow_cache_entry_mutation
        self.taken: defaultdict[Any, int] = defaultdict(int)

    def __enter__(self) -> _CachedTorchDispatchMode:
        self.taken.clear()  # each run begins anew
        super().__enter__()
        return self

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.name() in _PASSED_BY:
            return func(*args, **kwargs)
        number = self.taken[func]
        self.taken[func] += 1
        held = self.storage[func]
        if number >= len(held):
            raise RuntimeError(
                f"{func} encountered during backward, but not found in storage: the block calls "
                f"it more often when it runs again than the {len(held)} times at first"
            )
        entry = held[number]
        if entry is _AGAIN:
            return func(*args, **kwargs)
        if entry is _GONE:
            raise RuntimeError(
                f"Trying to backward an extra time: the result of {func} that was kept for the "
                f"block has been taken. You are only allowed to backward once on any region "
                f"computed under selective activation checkpoint"
            )
        held[number] = _GONE
        may = self.may_be_mutated
        leaves, spec = tree_flatten(entry)
        return spec.unflatten(
            [v.taken(may_be_mutated=may) if isinstance(v, _Version) else v for v in leaves]
        )


__all__ = [
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]
