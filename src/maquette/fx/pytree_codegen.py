"""Functions of nested arguments: `PyTreeCodeGen` flattens them for the graph, and nests results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from maquette.core import pytree
from maquette.fx.codegen import CodeGen
from maquette.fx.node import Argument
from maquette.fx.pytree_spec import tree_flatten_spec


class _PyTreeInfo(NamedTuple):
    """Names of the function's own parameters, and how its arguments and result are nested.

    out_spec: None for a result that is handed on as it is.
    """

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


class PyTreeCodeGen(CodeGen):
    """A function whose parameters are trees; the graph has a placeholder for each leaf."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info: _PyTreeInfo = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        """The leaves of the arguments."""
        return pytree.tree_leaves(inputs)

    def process_outputs(self, out: Any) -> Any:
        """The result as the function nests it."""
        if not isinstance(out, list | tuple):
            out = [out]
        assert self.pytree_info.out_spec is not None
        return pytree.tree_unflatten(out, self.pytree_info.out_spec)

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The ``def``, and the lines that take the arguments apart."""
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
        own = list(self.pytree_info.orig_args)
        if own and own[0] == "self":  # a traced method: the module is among its arguments
            free_vars.insert(0, "self")
        definition = super().gen_fn_def(
            list(own), maybe_return_annotation, expanded_def=expanded_def
        )
        if not free_vars:
            return definition
        names = [v.split(":")[0].split("=")[0].strip().lstrip("*") for v in free_vars]
        typed = [v for v in free_vars if ":" in v.split("=")[0]]
        lines = [definition]
        nested = f"([{', '.join(own)}], {{}})" if self._takes_kwargs() else f"[{', '.join(own)}]"
        targets = "".join([f"{name}, " for name in names]).rstrip()
        lines.append(f"    {targets} = fx_pytree.tree_flatten_spec({nested}, self._in_spec)")
        lines += [f"    {annotated.split('=')[0].strip()}" for annotated in typed]
        return "\n".join(lines)

    def _takes_kwargs(self) -> bool:
        spec = self.pytree_info.in_spec
        return (
            spec.type is tuple
            and spec.num_children == 2
            and spec.child(0).type is tuple
            and spec.child(1).type is dict
        )

    def generate_output(
        self,
        output_args: Argument,
        *,
        descs: object | None = None,
        repr_fn: Callable[[object], str] | None = None,
    ) -> str:
        """The ``return``, nested as the function's result."""
        if self.pytree_info is not None and self.pytree_info.out_spec is not None:
            written = (repr_fn or repr)(output_args)
            return f"return pytree.tree_unflatten({written}, self._out_spec)"
        return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)


_PyTreeCodeGen = PyTreeCodeGen
__all__ = ["PyTreeCodeGen", "_PyTreeCodeGen", "_PyTreeInfo", "tree_flatten_spec"]
