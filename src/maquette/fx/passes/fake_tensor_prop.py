"""`FakeTensorProp`: run a graph on fake tensors, and note in each node the fake that it gives."""

from __future__ import annotations

from typing import Any

from maquette.fake.detecting import detect_fake_mode
from maquette.fake.mode import FakeTensorMode
from maquette.fx.compatibility import compatibility
from maquette.fx.graph_module import GraphModule
from maquette.fx.interpreter import Interpreter
from maquette.fx.node import Node, map_aggregate
from maquette.fx.shapes import _extract_tensor_metadata
from maquette.symbolic.shape_env import ShapeEnv
from maquette.tensor.tensor import Tensor


@compatibility(is_backward_compatible=False)
class FakeTensorProp(Interpreter):
    """Runs a graph on fakes, and notes ``val`` and ``tensor_meta`` in each node's ``meta``.

    mode: whose fakes; a new one's where None is given. What a node gives beside tensors, a size
    say, is in ``val`` too.
    """

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode

    def run_node(self, n: Node) -> Any:
        """Run a node, and note what it gives."""
        result = super().run_node(n)
        found = False

        def noted(value: Any) -> Any:
            nonlocal found
            if isinstance(value, Tensor):
                found = True
                return _extract_tensor_metadata(value)
            return value

        described = map_aggregate(result, noted)
        if found:
            n.meta["tensor_meta"] = described
        n.meta["val"] = result
        return result

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The attribute; a tensor as a fake."""
        return self._fake(super().get_attr(target, args, kwargs))

    def _fake(self, value: Any) -> Any:
        return self._mode.from_tensor(value) if isinstance(value, Tensor) else value

    def propagate(self, *args: Any) -> Any:
        """Run on fakes of the arguments; the result."""
        return self.propagate_dont_convert_inputs(*map(self._fake, args))

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run on arguments that are fakes of the mode already."""
        with self._mode:
            return super().run(*args)


def fake_mode_of(*args: Any) -> FakeTensorMode:
    """The mode of the fakes among arguments, or a new one: sizes that data decides are symbols."""
    found = detect_fake_mode(args)
    return found or FakeTensorMode(
        allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True
    )


__all__ = ["FakeTensorProp", "fake_mode_of"]
