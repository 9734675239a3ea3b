"""`torch.nn._reduction`: the numbers that operators have for reductions of losses."""

from __future__ import annotations

import warnings

from maquette.nn.functional._reduction import reduction_code


def get_enum(reduction: str) -> int:
    """0, 1 or 2 for none, mean or sum; ValueError for another word."""
    return reduction_code(reduction)


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The word for two flags of old: none unless ``reduce``, else mean or sum."""
    average = size_average is None or size_average
    found = "none" if reduce is False else "mean" if average else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{found}' "
            "instead.",
            stacklevel=2,
        )
    return found


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """`get_enum` of `legacy_get_string`."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
