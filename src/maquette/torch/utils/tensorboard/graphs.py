"""What `SummaryWriter.add_graph` draws: a model's operators, in boxes of its modules.

The model runs once, for evaluation and without gradients; each operator that it calls is a node,
named after the module that called it. PyTorch traces it for TorchScript instead: its nodes are the
functions that are called, and each number has a node too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.step_stats_pb2 import DeviceStepStats, StepStats
from tensorboard.compat.proto.versions_pb2 import VersionDef

from maquette.autograd.grad_mode import no_grad
from maquette.core.pytree import tree_leaves
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.module_calls import Run, around_modules
from maquette.nn.base.module import Module
from maquette.tensor.tensor import Tensor
from maquette.torch.utils.tensorboard.summary import shape_of

_PRODUCER = 22  # of the form that the page reads
_BOX = "IO Node"


class _Recording(TorchDispatchMode):
    """Makes a node of each operator that is called."""

    def __init__(self, model: Module, given: object) -> None:
        super().__init__()
        self.nodes: list[NodeDef] = []
        self._names: dict[int, str] = {}  # of the nodes that make tensors, by the tensors' ids
        self._kept: list[Tensor] = []  # so that no id is another tensor's later
        self._within: list[str] = []
        self._scopes = _scopes(model)
        for module in model.modules():
            scope = self._scopes[module]
            members = {**module._parameters, **module._buffers}
            for name, member in members.items():
                if member is not None and id(member) not in self._names:
                    self._add(f"{scope}/{name}/{name}", "prim::GetAttr", (), [member])
        for number, t in enumerate(tensors_in(given)):
            self._add(f"input/input.{number}", _BOX, (), [t])

    def _add(self, name: str, op: str, given: object, made: object, text: str = "") -> None:
        results = tensors_in(made)
        attr = {"attr": AttrValue(s=text.encode())}
        if results:
            shapes = [shape_of(t.shape) for t in results]
            attr["_output_shapes"] = AttrValue(list=AttrValue.ListValue(shape=shapes))
        inputs = [self._names[id(t)] for t in tensors_in(given) if id(t) in self._names]
        self.nodes.append(NodeDef(name=name, op=op, input=inputs, attr=attr))
        for t in results:
            self._names[id(t)] = name
            self._kept.append(t)

    def add_outputs(self, made: object) -> None:
        """A node for each result of the whole."""
        for number, t in enumerate(tensors_in(made), 1):
            self._add(f"output/output.{number}", _BOX, [t], [t])

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        made = func(*args, **(kwargs or {}))
        kind, _, own = func._schema.name.partition("::")
        place = "/".join((*self._within[-1:], f"{own}.{len(self.nodes)}"))
        given = args, kwargs or {}
        plain = [repr(leaf) for leaf in tree_leaves(given) if not isinstance(leaf, Tensor)]
        self._add(place, f"{kind}::{own}", given, made, f"{{{', '.join(plain)}}}")
        return made

    def call(
        self, module: object, run: Run, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Call a module; the nodes that it makes are in its box."""
        if module not in self._scopes:
            return run(*args, **kwargs)
        self._within.append(self._scopes[module])
        try:
            return run(*args, **kwargs)
        finally:
            self._within.pop()


def tensors_in(value: object) -> list[Tensor]:
    """The tensors of nested tuples, lists and dicts."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def _scopes(model: Module) -> dict[object, str]:
    """What the page calls each module: ``Net/Sequential[layers]/Linear[0]``."""
    found: dict[object, str] = {model: type(model).__name__}
    for module in list(model.modules()):
        for name, child in module.named_children():
            found.setdefault(child, f"{found[module]}/{type(child).__name__}[{name}]")
    return found


def graph(model: Module, input_to_model: object, verbose: bool = False) -> GraphDef:
    """The operators that a model calls for these inputs, a tensor or a tuple of arguments."""
    args = input_to_model if isinstance(input_to_model, tuple | list) else (input_to_model,)
    training = {module: module.training for module in model.modules()}
    recording = _Recording(model, args)
    model.eval()
    try:
        with no_grad(), around_modules(recording.call), recording:
            made = model(*args)
    finally:
        for module, was in training.items():
            module.training = was
    recording.add_outputs(made)
    drawn = GraphDef(node=recording.nodes, versions=VersionDef(producer=_PRODUCER))
    if verbose:
        print(drawn)  # noqa: T201  # asked for
    return drawn


def run_metadata() -> RunMetadata:
    """Where it ran, which the page wants beside a graph: on one device."""
    return RunMetadata(step_stats=StepStats(dev_stats=[DeviceStepStats(device="/device:CPU:0")]))
