"""`torch.sym_max`, `torch._check` and their like: questions about numbers that may be symbolic.

They are `maquette.symbolic`'s under PyTorch's names.
"""

from maquette.symbolic import (
    check,
    check_index,
    check_is_size,
    check_not_implemented,
    check_tensor_all,
    check_type,
    check_value,
    sym_constrain_range,
    sym_constrain_range_for_size,
    sym_float,
    sym_int,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
    sym_sum,
)
from maquette.symbolic.checks import (
    check_tensor_all_with,
    check_with,
    sym_acos,
    sym_asin,
    sym_atan,
    sym_cos,
    sym_cosh,
    sym_fresh_size,
    sym_log2,
    sym_sin,
    sym_sinh,
    sym_sqrt,
    sym_tan,
    sym_tanh,
)

_sym_sqrt, _sym_log2 = sym_sqrt, sym_log2
_sym_sin, _sym_cos, _sym_tan = sym_sin, sym_cos, sym_tan
_sym_asin, _sym_acos, _sym_atan = sym_asin, sym_acos, sym_atan
_sym_sinh, _sym_cosh, _sym_tanh = sym_sinh, sym_cosh, sym_tanh
_check, _check_index, _check_type, _check_value = check, check_index, check_type, check_value
_check_not_implemented, _check_tensor_all = check_not_implemented, check_tensor_all
_check_is_size, _constrain_as_size = check_is_size, sym_constrain_range_for_size
_check_with, _check_tensor_all_with = check_with, check_tensor_all_with

__all__ = [
    "sym_constrain_range",
    "sym_constrain_range_for_size",
    "sym_float",
    "sym_fresh_size",
    "sym_int",
    "sym_ite",
    "sym_log2",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]
