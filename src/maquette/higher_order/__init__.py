"""Operators that take functions: control flow, wrapped calls, effects, attention with a function.

Each is a `HigherOrderOperator` with a plain definition (`common.py`), public functions that check
their arguments in front of it, and its place under ``ops.higher_order``.
"""

from maquette.higher_order.associative_scan import associative_scan, associative_scan_op
from maquette.higher_order.auto_functionalize import auto_functionalized, auto_functionalized_v2
from maquette.higher_order.checkpoint import checkpoint, checkpoint_op
from maquette.higher_order.cond import cond, cond_op
from maquette.higher_order.effects import with_effects
from maquette.higher_order.flex_attention import flex_attention
from maquette.higher_order.invoke_subgraph import invoke_subgraph
from maquette.higher_order.map import map, map_impl
from maquette.higher_order.out_dtype import out_dtype
from maquette.higher_order.scan import scan, scan_op
from maquette.higher_order.while_loop import (
    while_loop,
    while_loop_op,
    while_loop_stack_output_op,
)
from maquette.higher_order.wrap import run_and_save_rng_state, run_with_rng_state, wrap

__all__ = [
    "associative_scan",
    "associative_scan_op",
    "auto_functionalized",
    "auto_functionalized_v2",
    "checkpoint",
    "checkpoint_op",
    "cond",
    "cond_op",
    "flex_attention",
    "invoke_subgraph",
    "map",
    "map_impl",
    "out_dtype",
    "run_and_save_rng_state",
    "run_with_rng_state",
    "scan",
    "scan_op",
    "while_loop",
    "while_loop_op",
    "while_loop_stack_output_op",
    "with_effects",
    "wrap",
]
