"""`torch._library.infer_schema`: schemas of functions, and which annotations they may have."""

from collections.abc import Sequence
from typing import Any, Union

from maquette.library.infer_schema import _NAMES, infer_schema
from maquette.tensor.tensor import Tensor

_NUMBER = int | float | bool
_SINGLE: dict[Any, str] = {**_NAMES, _NUMBER: "Scalar"}
_LISTS = (int, float, bool, _NUMBER)


def _parameter_types() -> dict[Any, str]:
    found = dict(_SINGLE)
    found |= {_or_none(kind): f"{text}?" for kind, text in _SINGLE.items()}
    for kind in (Tensor, _or_none(Tensor), *_LISTS):
        for sequence in (Sequence[kind], list[kind]):  # type: ignore[valid-type]  # a value
            found[sequence] = f"{found[kind]}[]"
            if kind in (int, float, bool):
                found[_or_none(sequence)] = f"{found[kind]}[]?"
    return found


def _or_none(kind: Any) -> Any:
    return Union[kind, None]  # noqa: UP007  # of a value


SUPPORTED_PARAM_TYPES = _parameter_types()
"""The schema's type of each annotation that a parameter may have, but for opaque objects."""
SUPPORTED_RETURN_TYPES: dict[Any, str] = {
    Tensor: "Tensor",
    list[Tensor]: "Tensor[]",
    int: "SymInt",
    float: "float",
    bool: "bool",
    _NUMBER: "Scalar",
}
"""The schema's type of each annotation that a result may have."""

__all__ = ["SUPPORTED_PARAM_TYPES", "SUPPORTED_RETURN_TYPES", "infer_schema"]
