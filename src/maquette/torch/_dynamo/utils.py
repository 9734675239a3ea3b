"""`torch._dynamo.utils`: questions that libraries ask of a compiler, which is not here; copies."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maquette.autograd import no_grad
from maquette.core.dtype import dtype as DType
from maquette.core.layout import strided
from maquette.core.strides import overlaps
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators

counters: collections.defaultdict[str, collections.Counter[str]] = collections.defaultdict(
    collections.Counter
)
"""What the compiler counted: nothing."""
_WARNED: set[str] = set()


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warn with a message the first time that it is given."""
    if msg not in _WARNED:
        _WARNED.add(msg)
        warnings.warn(msg, stacklevel=stacklevel + 1)


@contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Nothing: no compiled code is kept."""
    yield


def is_compile_supported(device_type: str) -> bool:
    """False: nothing is compiled for any device."""
    return False


def clone_input(x: Tensor, *, dtype: DType | None = None) -> Tensor:
    """A copy of an input with its strides and, for a leaf, its gradient; a fake is itself."""
    if x.fake_mode is not None:
        return x
    with no_grad():
        if x.layout is not strided or type(x) is not Tensor or overlaps(x.shape, x.stride()):
            copy = x.clone()
        else:
            copy = operators.new_empty_strided(x, x.size(), x.stride(), dtype=dtype or x.dtype)
            copy.copy_(x)
        if x.is_leaf:
            copy.requires_grad_(x.requires_grad)
            copy.grad = None if x.grad is None else clone_input(x.grad, dtype=dtype)
    return copy


def clone_inputs(example_inputs: Any) -> Any:
    """Copies of the tensors in a list or a dict of inputs, or of tuples of them."""
    if isinstance(example_inputs, dict):
        return {
            name: clone_inputs(value) if isinstance(value, tuple) else clone_input(value)
            for name, value in example_inputs.items()
        }
    return [clone_input(x) if isinstance(x, Tensor) else x for x in example_inputs]
