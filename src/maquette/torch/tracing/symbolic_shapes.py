"""`torch.fx.experimental.symbolic_shapes`: `maquette.symbolic` under PyTorch's names.

What is here are the few names that PyTorch alone has; the shape environment, its numbers and the
questions about them are forwarded as they are.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from maquette import symbolic as _symbolic
from maquette.fake.detecting import detect_fake_mode
from maquette.fx.interpreter import Interpreter
from maquette.symbolic import *  # noqa: F403 — this module is that one by another name
from maquette.symbolic import (
    ShapeEnv,
    SymFloat,
    SymInt,
    constrain_range,
    sym_and,
    sym_or,
)
from maquette.symbolic import ShapeEnvGuardError as _ShapeEnvGuardError  # noqa: F401
from maquette.symbolic import checks as _checks
from maquette.symbolic.checks import has_hint, hint_int
from maquette.symbolic.expr import Relation
from maquette.symbolic.forms import expr_of, sympy_forms, sympy_of
from maquette.symbolic.program.bindings import (
    CallMethodKey,
    ConvertIntKey,
    DivideByKey,
    InnerTensorKey,
    compute_unbacked_bindings,
    rebind_unbacked,
    resolve_unbacked_bindings,
)
from maquette.symbolic.program.producing import canonical_condition
from maquette.symbolic.sympy_forms import ExprPrinter as SymExprPrinter

sympy = sympy_forms().sympy
F = TypeVar("F", bound=Callable[..., Any])
_constrain_range_for_size = _checks.sym_constrain_range_for_size
parallel_and, parallel_or = sym_and, sym_or
definitely_true, definitely_false = _checks.statically_known_true, _checks.statically_known_false


def is_nested_int(s: object) -> bool:
    """Whether a number is the size of a ragged dimension."""
    return isinstance(s, SymInt) and s.node.is_nested_int()


def canonicalize_bool_expr(expr: Any) -> Any:
    """A SymPy condition with `<`, `<=`, `==` or `!=`, each term on the side where it is added."""
    if not isinstance(expr, (sympy.Rel, sympy.And, sympy.Or, sympy.Not)):
        return expr
    form = expr_of(expr, lambda name: None)
    canonical = canonical_condition(form)
    if isinstance(canonical, Relation):
        kinds = {"==": sympy.Eq, "!=": sympy.Ne, "<": sympy.Lt, "<=": sympy.Le}
        sides = (sympy_of(canonical.lhs), sympy_of(canonical.rhs))
        return kinds[canonical.op](*sides, evaluate=False)
    return sympy_of(canonical)


def safe_expand(r: Any) -> Any:
    """A SymPy expression with products multiplied out; other values as they are."""
    return sympy.expand(r) if hasattr(r, "expand") else r


def check_consistent(new: Any, old: Any) -> None:
    """Hold two tensors to be of equal shape, two numbers to be equal; other values may differ.

    RuntimeError unless they are.
    """
    if hasattr(new, "shape"):
        different = functools.partial("{} != {} (old != new)".format, old.shape, new.shape)
        _symbolic.check(new.ndim == old.ndim, different)
        for a, b in zip(new.shape, old.shape, strict=True):
            _symbolic.check(a == b, different)
    elif isinstance(new, (int, float, SymInt, SymFloat)) and not isinstance(new, bool):
        assert type(new) is type(old), f"{type(new)} and {type(old)}"
        _symbolic.check(new == old, lambda: f"{old} != {new} (old != new)")


def _lru_cache(fn: Callable[..., Any], maxsize: int | None = None) -> Any:
    """A method of an environment whose answers are kept until that learns something."""
    cached: Any = functools.lru_cache(maxsize)(fn)
    known = [None]

    @functools.wraps(fn)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        version = self._get_key()
        if known[0] != version:
            cached.cache_clear()
            known[0] = version
        return cached(self, *args, **kwargs)

    made: Any = wrapper
    made.cache_info, made.cache_clear = cached.cache_info, cached.cache_clear
    return made


def is_accessor_node(node: Any) -> bool:
    """Whether a node of a graph asks a tensor for a size, a stride, its offset or its item."""
    names = ("size", "stride", "storage_offset", "item")
    if node.op == "call_method":
        return node.target in names
    if node.op != "call_function":
        return False
    return getattr(node.target, "__name__", str(node.target)).split(".")[0] in (
        "sym_size", "sym_stride", "sym_storage_offset", "sym_numel",
    )  # fmt: skip


def lru_cache(maxsize: int | None) -> Callable[[F], F]:
    """`functools.lru_cache`, with `cumulative_cache_info` beside `cache_info`."""

    def decorate(f: F) -> F:
        cached: Any = functools.lru_cache(maxsize)(f)
        total = [0, 0]
        clear = cached.cache_clear

        def cache_clear() -> None:
            info = cached.cache_info()
            total[0] += info.hits
            total[1] += info.misses
            clear()

        def cumulative() -> Any:
            info = cached.cache_info()
            return info._replace(hits=info.hits + total[0], misses=info.misses + total[1])

        @functools.wraps(f)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return cached(*args, **kwargs)

        made: Any = wrapper
        made.cache_info, made.cache_clear, made.cumulative_cache_info = (
            cached.cache_info, cache_clear, cumulative,
        )  # fmt: skip
        return made

    return decorate


def _values(gm: Any) -> list[Any]:
    return [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]


fx_placeholder_vals = _values


def eval_guards(gm: Any, *args: Any, ignore_static: bool = True) -> bool:
    """Whether the guards of a traced graph hold for other inputs."""
    env: ShapeEnv = gm.shape_env
    return env.evaluate_guards_for_args(_values(gm), args, ignore_static=ignore_static)


def bind_symbols(gm: Any, *args: Any) -> dict[Any, Any]:
    """The value of each symbol of a traced graph for other inputs."""
    env: ShapeEnv = gm.shape_env
    return env.bind_symbols(_values(gm), args)


class PropagateUnbackedSymInts(Interpreter):
    """Runs a graph again; the unbacked symbols that a node makes become those of its first run."""

    def run_node(self, n: Any) -> Any:
        """The value of a node, with its symbols renamed."""
        result = super().run_node(n)
        mode = detect_fake_mode(None)
        rebind_unbacked(None if mode is None else mode.shape_env, n, result)
        return result


def fx_placeholder_targets(gm: Any) -> list[str]:
    """The names of a graph's inputs."""
    return [str(n.target) for n in gm.graph.nodes if n.op == "placeholder"]


def is_symbol_binding_fx_node(node: Any) -> Any:
    """The SymPy symbol that a node of a graph is the first to have, or None."""
    value = node.meta.get("val")
    if not isinstance(value, (SymInt, SymFloat)):
        return None
    symbol = value.node.expr
    unbacked = symbol.is_Symbol and value.node.shape_env.is_unbacked_symint(symbol)
    return symbol if symbol.is_Symbol and (node.op == "placeholder" or unbacked) else None


def find_symbol_binding_fx_nodes(graph: Any) -> dict[Any, Any]:
    """The node of a graph that first has each symbol."""
    found: dict[Any, Any] = {}
    for node in graph.nodes:
        symbol = is_symbol_binding_fx_node(node)
        if symbol is not None:
            found.setdefault(symbol, node)
    return found


def cast_symbool_to_symint_guardless(symbool: Any) -> Any:
    """1 or 0 for a condition, without a guard."""
    return int(symbool) if isinstance(symbool, bool) else _symbolic.sym_ite(symbool, 1, 0)


@dataclass
class TrackedFake:
    """An input of a program as a fake: where it is found, and how its sizes were made symbols."""

    fake: Any
    source: Any
    symbolic_context: Any


@dataclass(frozen=True)
class ValueRangesSLoc:
    """The lines that gave a range its lower and upper end."""

    lower: Any
    upper: Any


SHAPEENV_EVENT_KEY, CURRENT_NODE_KEY = "shapeenv_event", "current_node"


def create_contiguous(shape: Sequence[Any]) -> list[Any]:
    """Row-major strides."""
    strides: list[Any] = [1]
    for size in reversed(shape[:-1]):
        strides.append(size * strides[-1])
    return list(reversed(strides))


def _advise_is_size(a: Any) -> None:
    if isinstance(a, SymInt):
        a.node.shape_env.mark_size(a.node.current)


def _is_int(a: object) -> bool:
    return isinstance(a, SymInt)


__all__ = [
    *_symbolic.__all__,
    "CallMethodKey", "ConvertIntKey", "DivideByKey", "InnerTensorKey", "SymExprPrinter",
    "bind_symbols", "canonicalize_bool_expr", "check_consistent", "compute_unbacked_bindings",
    "constrain_range", "create_contiguous", "definitely_false", "definitely_true", "eval_guards",
    "fx_placeholder_vals", "has_hint", "hint_int", "is_accessor_node", "is_nested_int",
    "lru_cache", "parallel_and", "parallel_or", "rebind_unbacked", "resolve_unbacked_bindings",
    "safe_expand",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name != "DimConstraints":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # It needs SymPy, which few programs load.
    return importlib.import_module("maquette.torch.tracing.dim_constraints").DimConstraints
