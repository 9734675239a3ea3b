"""An environment with two sizes that have hints, 8 and 5, and unbacked numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from maquette.symbolic import DimDynamic, ShapeEnv


class Sizes(NamedTuple):
    """Symbols of one environment: s is 8, t is 5; u and v are unbacked."""

    env: ShapeEnv
    s: Any
    t: Any
    u: Any
    v: Any


def backed(env: ShapeEnv, value: int, name: str) -> Any:
    """A size of an input that is ``value`` now."""
    symbol = env.create_symbol(value, name, DimDynamic.DYNAMIC)
    return env.create_symintnode(symbol, hint=value)


@pytest.fixture
def sizes() -> Sizes:
    env = ShapeEnv()
    s, t = backed(env, 8, "s"), backed(env, 5, "t")
    return Sizes(env, s, t, env.create_unbacked_symint(), env.create_unbacked_symint())
