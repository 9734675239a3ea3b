"""Settings of symbolic shapes, for the whole process.

use_duck_shape: whether equal sizes share a symbol, where an environment does not say.
backed_size_oblivious: make sizes of inputs size-like symbols from 0 on, which `guard_or_*` never
guard. symbol_guard_limit_before_specialize: the number of guards after which a symbol becomes its
hint. print_specializations: warn of each symbol that becomes a constant.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Config:
    """The settings; assign to change one."""

    use_duck_shape: bool = True
    backed_size_oblivious: bool = False
    symbol_guard_limit_before_specialize: int | None = None
    print_specializations: bool = False


config = Config()
