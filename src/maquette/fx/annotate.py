"""Types given to proxies by hand."""

from __future__ import annotations

from typing import Any

from maquette.fx.compatibility import compatibility
from maquette.fx.tracing.proxy import Proxy


@compatibility(is_backward_compatible=False)
def annotate(val: Any, type: Any) -> Any:
    """``val``; a proxy's node gets the type. TypeError where it has another already."""
    if isinstance(val, Proxy):
        if val.node.type:
            raise TypeError(
                f"Tried to annotate a value that already had a type on it! Existing type is "
                f"{val.node.type} and new type is {type}. This could happen if you tried to "
                f"annotate a function parameter value (in which case you should use the type slot "
                f"on the function signature) or you called annotate on the same value twice"
            )
        val.node.type = type
    return val
