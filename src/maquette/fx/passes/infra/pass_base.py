"""`PassBase`: a change of a graph module, with checks before and after."""

from __future__ import annotations

import abc
from typing import NamedTuple

from maquette.fx.compatibility import compatibility
from maquette.fx.graph_module import GraphModule


@compatibility(is_backward_compatible=False)
class PassResult(NamedTuple):
    """What a pass gives: the module, and whether it is another than before."""

    graph_module: GraphModule
    modified: bool


@compatibility(is_backward_compatible=False)
class PassBase(abc.ABC):
    """A pass; subclasses define `call`."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        """Run the pass between its checks."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Change the module; None stands for "nothing to say"."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027  # it need not be defined
        """Raise if the module is not what the pass can change."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027  # it need not be defined
        """Raise if the module is not what the pass promises."""
