"""Kernels written in Python by users: called in the normalised form, their results checked.

A user's function gets positional parameters, keywords only for keyword-only ones, defaults dropped
unless the function requires them (D50, L28); what it returns must fit the schema (D51, L27).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from maquette.dispatch.abstract import TensorBase
from maquette.dispatch.keys import DispatchKeySet
from maquette.dispatch.matching import check_result, normalise
from maquette.dispatch.operator import OpOverload


def python_kernel(
    function: Callable[..., object], *, with_keyset: bool = False
) -> Callable[..., Callable[..., object]]:
    """A kernel factory for a user's Python function."""

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        schema = op._schema
        arguments = schema.arguments
        one_tensor = len(schema.returns) == 1 and schema.returns[0].type.written == "Tensor"
        plain = not any(
            a.kwarg_only or a.has_default_value() or "[" in a.type.written for a in arguments
        )
        if plain and one_tensor and not with_keyset:
            # The common case costs no normalisation: 0.4 us of 1.9 us a call (make bench).
            def direct(ks: int, *params: object) -> object:
                result = function(*params)
                if isinstance(result, TensorBase):
                    return result
                return check_result(schema, result)

            return direct
        required = _required(function)

        def kernel(ks: int, *params: object) -> object:
            args, kwargs = normalise(schema, params)
            for i in range(len(args), len(params)):
                a = arguments[i]
                if a.name in required and a.name not in kwargs and not a.kwarg_only:
                    args = (*args, params[i])
                elif a.name in required and a.name not in kwargs:
                    kwargs = {**kwargs, a.name: params[i]}
            if with_keyset:
                args = (DispatchKeySet.from_raw_repr(ks), *args)
            return check_result(schema, function(*args, **kwargs))

        return kernel

    return factory


def _required(function: Callable[..., object]) -> frozenset[str]:
    """Names of parameters that a function cannot do without."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    empty = inspect.Parameter.empty
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return frozenset(p.name for p in parameters if p.default is empty and p.kind not in kinds)
