"""`set_trace`: stop in the debugger when a graph runs."""

from __future__ import annotations

from maquette.fx.graph_module import GraphModule


def set_trace(gm: GraphModule) -> GraphModule:
    """Let the module's code call ``pdb.set_trace()`` before anything else; the module itself."""

    def with_stop(body: list[str]) -> list[str]:
        return ["import pdb; pdb.set_trace()\n", *body]

    gm.graph.on_generate_code(
        lambda before: lambda body: with_stop(before(body) if before is not None else body)
    )
    gm.recompile()
    return gm


__all__ = ["set_trace"]
