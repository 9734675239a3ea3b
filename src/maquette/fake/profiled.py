"""Fakes by profiles, which `config.op_profiles` holds: asked before registered fakes (F96)."""

from __future__ import annotations

from collections.abc import Callable

from maquette.dispatch.operator import OpOverload
from maquette.fake.config import config
from maquette.fake.mode import arguments_in_one_mode

BUILTIN = frozenset({"aten", "prims", "prim"})


def with_profiles(op: OpOverload, kernel: Callable[..., object]) -> Callable[..., object]:
    """``kernel`` of a user's operator, but where profiles answer; others as they are."""
    if op.namespace in BUILTIN:
        return kernel

    def profiled(ks: int, *params: object) -> object:
        profiles = config.op_profiles
        if profiles is None or op not in profiles.data:
            return kernel(ks, *params)
        mode, given = arguments_in_one_mode(op, params)
        pairs = list(zip(op._schema.arguments, given, strict=True))
        args = [v for a, v in pairs if not a.kwarg_only]
        kwargs = {a.name: v for a, v in pairs if a.kwarg_only}
        return profiles.generic_fake_kernel(op, mode, *args, **kwargs)

    return profiled
