"""Settings of `torch.fx`, which programs read and set."""

from __future__ import annotations

disable_progress = True  # whether the minimizer shows no progress
verbose_progress = False
do_not_emit_stack_traces = False

__all__ = ["disable_progress", "do_not_emit_stack_traces", "verbose_progress"]
