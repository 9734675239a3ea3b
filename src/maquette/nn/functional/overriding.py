"""Calls of these functions are offered to ``__torch_function__``: each as one call, by its name.

So a handler, or a trace, sees ``cross_entropy`` and not the operators that it is made of.
"""

import functools
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from maquette.api.from_schema import find_function
from maquette.dispatch.torch_function import overridable

# Those that only call an operator and that models call often are the operator's own function.
_OPERATORS = frozenset(("linear", "gelu"))
# PyTorch's own are operators: handlers get their arguments as they were written.
_AS_WRITTEN = frozenset(
    "adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear channel_shuffle conv1d conv2d "
    "conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity "
    "hardshrink logsigmoid native_channel_shuffle one_hot pairwise_distance pdist "
    "pixel_shuffle pixel_unshuffle prelu scaled_dot_product_attention softplus softshrink "
    "celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_ selu_ threshold_".split()
)
# Python over calls that offer themselves: PyTorch's are not offered either.
_NOT_OFFERED = frozenset(
    "assert_int_or_pair sigmoid tanh upsample upsample_bilinear upsample_nearest".split()
)


def offer(names: dict[str, Any]) -> None:
    """Have the functions among the names of `maquette.nn.functional` offered."""
    for name, function in list(names.items()):
        if not isinstance(function, FunctionType) or not function.__module__.startswith(
            __package__
        ):
            continue
        if function is offer or name in _NOT_OFFERED:
            continue
        if name.startswith("_"):  # helpers are no calls of their own
            continue
        operator = find_function(name) if name in _OPERATORS else None
        if operator is not None:
            operator.__dict__["as_written"] = True
        offered: Callable[..., Any] = (
            overridable(
                function,
                as_written=name in _AS_WRITTEN,
                told_as=functools.partial(_with_indices, names, name),
            )
            if operator is None
            else functools.update_wrapper(operator, function)
        )
        names[name] = offered
        setattr(sys.modules[function.__module__], name, offered)  # where pickle looks for it


def _with_indices(
    names: dict[str, Any], name: str, kwargs: dict[str, object]
) -> Callable[..., object] | None:
    """What handlers are told of a pooling that gives indices too: the function that always does."""
    return names.get(f"{name}_with_indices") if kwargs.get("return_indices") else None
