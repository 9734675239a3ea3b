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
from maquette.symbolic.program.bindings import compute_unbacked_bindings, rebind_unbacked
from maquette.symbolic.shape_env import ShapeEnv
from maquette.tensor.tensor import Tensor


@compatibility(is_backward_compatible=False)
class FakeTensorProp(Interpreter):
    """Runs a graph on fakes, and notes ``val`` and ``tensor_meta`` in each node's ``meta``.

    mode: whose fakes; a new one's where None is given. What a node gives beside tensors, a size
    say, is in ``val`` too. Sizes that data decides are noted in ``unbacked_bindings``; when the
    graph runs again, its fresh symbols become those of the first run. A new one raises the epoch
    of its mode by 1.
    """

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode
        self._mode.epoch += 1
        self._mode.reset_nt_tensor_id_counter()

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
        env = self._mode.shape_env
        rebind_unbacked(env, n, result)
        n.meta["val"] = map_aggregate(result, _snapshot)
        bindings = compute_unbacked_bindings(env, result)
        if bindings:
            n.meta["unbacked_bindings"] = bindings
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


def _snapshot(value: Any) -> Any:
    """A tensor without its history, which later nodes that write to it leave as it is."""
    return value.detach() if isinstance(value, Tensor) else value


def fake_mode_of(*args: Any) -> FakeTensorMode:
    """The mode of the fakes among arguments, or a new one: sizes that data decides are symbols."""
    found = detect_fake_mode(args)
    return found or FakeTensorMode(
        allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True
    )


__all__ = ["FakeTensorProp", "fake_mode_of"]
