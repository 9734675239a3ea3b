"""The reduction of a loss: its names, its codes in operator schemas, its two old flags.

`size_average` and `reduce` are older than `reduction`; where given they decide, with a warning.
"""

import warnings

from maquette.library.advice import advised

_CODES = {"none": 0, "mean": 1, "sum": 2}


def reduction_code(name: str) -> int:
    """The number that an operator takes for a reduction; ValueError for another name."""
    code = _CODES.get(name)
    if code is None:
        error = ValueError(f"{name} is not a valid value for reduction")
        raise advised(error, "Use 'none', 'mean' or 'sum'.")
    return code


def reduction_name(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """`reduction`, unless one of the two old flags is given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        name = "none"
    else:
        name = "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.",
        stacklevel=3,
    )
    return name
