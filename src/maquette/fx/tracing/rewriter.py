"""`RewritingTracer`: traces ``assert`` statements, by rewriting functions before they are run.

``assert x, "no"`` becomes ``torch._assert(x, "no")``, which a proxy can record, and an annotated
assignment hands its annotation on to the node (`torch.fx.experimental.rewriter`).
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

from maquette.api.checks import _assert
from maquette.dispatch.generated import defined_by
from maquette.fx.annotate import annotate
from maquette.fx.graph import Graph
from maquette.fx.tracing.tracer import Tracer
from maquette.nn.base import Module

_ASSERT, _ANNOTATE = "_traced_assert", "_traced_annotate"


class AST_Rewriter(ast.NodeTransformer):
    """Rewrites the source of a function."""

    def rewrite(self, fn: FunctionType) -> FunctionType:
        """The function with its assertions and annotations as calls; where it is, it stays."""
        lines, first = inspect.getsourcelines(fn)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        ast.increment_lineno(tree, first - 1)
        rewritten = ast.fix_missing_locations(self.visit(tree))
        # The function keeps its globals: what a trace diverts there is diverted for it, too.
        fn.__globals__.update({_ASSERT: _assert, _ANNOTATE: annotate})
        names = dict(fn.__globals__)
        code = compile(rewritten, inspect.getsourcefile(fn) or "<rewritten>", "exec")
        made = defined_by(code, fn.__name__, names)
        assert isinstance(made, FunctionType)
        return _like(fn, made)

    def visit_Assert(self, node: ast.Assert) -> Any:
        """``assert test, msg`` as a call."""
        message = node.msg or ast.Constant(value="")
        call = ast.Call(ast.Name(_ASSERT, ast.Load()), [node.test, message], [])
        return ast.copy_location(ast.Expr(value=call), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """``x: T = value`` as ``x = annotate(value, T)``."""
        if node.value is None:
            return node
        function = ast.Name(_ANNOTATE, ast.Load())
        call = ast.Call(function, [node.value, node.annotation], [])
        return ast.copy_location(ast.Assign(targets=[node.target], value=call), node)


def _like(old: FunctionType, new: FunctionType) -> FunctionType:
    """The new function's code with what the old one has besides."""
    made = FunctionType(new.__code__, old.__globals__, old.__name__, old.__defaults__)
    made.__kwdefaults__ = copy.copy(old.__kwdefaults__)
    made.__annotations__ = old.__annotations__
    return made


class RewritingTracer(Tracer):
    """A tracer for programs with ``assert``."""

    def trace(
        self,
        root: Module | Callable[..., Any],
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> Graph:
        """`Tracer.trace` of the rewritten function or module."""
        return super().trace(_rewritten(root), concrete_args)


def _rewritten(root: Module | Callable[..., Any]) -> Any:
    if isinstance(root, FunctionType):
        return AST_Rewriter().rewrite(root)
    assert isinstance(root, Module)
    return _rewritten_module(root)


def _rewritten_module(module: Module) -> Module:
    """A module of a class whose ``forward`` is rewritten, over the same attributes."""
    forward: Any = type(module).forward
    made: Any = copy.copy(module)
    if isinstance(forward, FunctionType) and not module.__module__.startswith(
        ("maquette.nn", "torch.nn")
    ):
        rewritten = AST_Rewriter().rewrite(forward)
        made.__class__ = type(type(module).__name__, (type(module),), {"forward": rewritten})
        made.__class__.__module__ = module.__module__
    for name, child in list(module.named_children()):
        setattr(made, name, _rewritten_module(child))
    return made
