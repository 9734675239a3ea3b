"""`ShapeProp`: run a graph and note in each node the shape, dtype and strides of its result."""

from __future__ import annotations

import copy
import traceback
from typing import Any

from maquette.core import pytree
from maquette.fake.detecting import detect_fake_mode
from maquette.fake.mode import FakeTensorMode
from maquette.fx.compatibility import compatibility
from maquette.fx.graph_module import GraphModule
from maquette.fx.interpreter import Interpreter
from maquette.fx.node import Node, map_aggregate
from maquette.fx.shapes import TensorMetadata, _extract_tensor_metadata
from maquette.tensor.tensor import Tensor


@compatibility(is_backward_compatible=True)
class ShapeProp(Interpreter):
    """Runs a graph, and notes ``tensor_meta`` and ``type`` in each node's ``meta``.

    fake_mode: run on fakes of the module's tensors and the arguments, without data.
    """

    def __init__(self, gm: GraphModule, fake_mode: FakeTensorMode | None = None) -> None:
        super().__init__(gm)
        self.fake_mode = detect_fake_mode() if fake_mode is None else fake_mode
        if self.fake_mode is not None:
            self.fake_module: Any = _as_fake(gm, self.fake_mode)
        else:
            self.fake_module = None
        self.real_module = self.module

    def run_node(self, n: Node) -> Any:
        """Run a node, and note what it gives."""
        try:
            if self.fake_module is None:
                result = super().run_node(n)
            else:
                self.module = self.fake_module
                try:
                    with self.fake_mode:  # type: ignore[union-attr]  # there is a fake module
                        result = super().run_node(n)
                finally:
                    self.module = self.real_module
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from error
        found = False

        def described(value: Any) -> Any:
            nonlocal found
            if not isinstance(value, Tensor):
                return value
            found = True
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, described)
        if found:
            n.meta["tensor_meta"] = meta
        if self.fake_mode is not None and "example_value" not in n.meta:
            n.meta["example_value"] = n.meta["val"] = result
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run on arguments, fakes of them where there is a fake mode; the result."""
        if self.fake_mode is not None:
            convert = self.fake_mode.from_tensor
            args = tuple([convert(a) if isinstance(a, Tensor) else a for a in args])
        return super().run(*args)


def _as_fake(module: Any, mode: FakeTensorMode) -> Any:
    """A copy of a module with fakes of its tensors."""
    made = copy.copy(module)
    for name, parameter in list(made.named_parameters(recurse=False)):
        setattr(made, name, mode.from_tensor(parameter))
    for name, buffer in list(made.named_buffers(recurse=False)):
        setattr(made, name, mode.from_tensor(buffer))
    for name, child in list(made.named_children()):
        setattr(made, name, _as_fake(child, mode))
    return made


__all__ = ["ShapeProp", "TensorMetadata", "pytree"]
