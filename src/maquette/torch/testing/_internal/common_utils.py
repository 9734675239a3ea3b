"""`torch.testing._internal.common_utils`: the class of tests that programs' own tests compare with.

The rest of PyTorch's module serves its own tests and is not here.
"""

from __future__ import annotations

import unittest
from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

import maquette as mq
from maquette.torch.testing.closeness import assert_close
from maquette.torch.testing.making import make_tensor as make_tensor


class TestCase(unittest.TestCase):
    """A test whose ``assertEqual`` compares tensors, arrays and numbers by tolerances."""

    def assertEqual(
        self,
        first: Any,
        second: Any,
        msg: Any = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool = True,
        exact_device: bool = False,
        exact_layout: bool = False,
        exact_stride: bool = False,
    ) -> None:
        """AssertionError unless the two agree; mappings and sequences are gone into.

        atol, rtol: as `assert_close` takes them. A number beside a tensor is one of its dtype.
        """
        rules: dict[str, Any] = {
            "atol": atol,
            "rtol": rtol,
            "equal_nan": equal_nan,
            "check_dtype": exact_dtype,
            "check_device": exact_device,
            "check_layout": exact_layout,
            "check_stride": exact_stride,
        }
        self._compare(first, second, msg, rules)

    def _compare(self, first: Any, second: Any, msg: Any, rules: dict[str, Any]) -> None:
        same = super().assertEqual
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            same(set(first), set(second), msg)
            for key in first:
                self._compare(first[key], second[key], msg, rules)
        elif _is_sequence(first) and _is_sequence(second):
            same(len(first), len(second), msg)
            for one, other in zip(first, second, strict=True):
                self._compare(one, other, msg, rules)
        elif _is_numeric(first) and _is_numeric(second):
            assert_close(*_alike(first, second), **rules, msg=msg)
        else:
            same(first, second, msg)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_numeric(value: Any) -> bool:
    return isinstance(value, mq.Tensor | np.ndarray | Number)


def _alike(first: Any, second: Any) -> tuple[Any, Any]:
    """The two, a number beside a tensor as a tensor of its dtype."""
    if isinstance(first, mq.Tensor) and isinstance(second, Number):
        return first, mq.tensor(second, dtype=first.dtype, device=first.device)
    if isinstance(second, mq.Tensor) and isinstance(first, Number):
        return mq.tensor(first, dtype=second.dtype, device=second.device), second
    return first, second


run_tests = unittest.main

__all__ = ["TestCase", "run_tests"]
