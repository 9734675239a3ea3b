"""What a backend supports, as objects that a partitioner asks of each node."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maquette.core.dtype import dtype
from maquette.fx.compatibility import compatibility
from maquette.fx.node import Node
from maquette.fx.passes.tools_common import get_node_target
from maquette.nn.base import Module

TargetTypeName = str
SupportedArgumentDTypes = tuple[Sequence[Sequence[dtype]], dict[str, Sequence[dtype]]] | None
SupportDict = Mapping[TargetTypeName, SupportedArgumentDTypes]
IsNodeSupported = Callable[[Mapping[str, Module], Node], bool]


@compatibility(is_backward_compatible=False)
class OperatorSupportBase(abc.ABC):
    """Says of each node whether a backend supports it."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether a node is supported; ``submodules``: the module's, by path."""
        raise NotImplementedError


@compatibility(is_backward_compatible=False)
class OperatorSupport(OperatorSupportBase):
    """Supports targets by name, each with the dtypes of its arguments.

    support_dict: by `get_node_target`'s name, None for any dtypes, or the dtypes that each
    positional argument may have and those of arguments by keyword.
    """

    _support_dict: SupportDict

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether a node is supported; placeholders and outputs are."""
        if node.op not in ("call_function", "call_method", "call_module"):
            return True
        name = get_node_target(submodules, node)
        if name not in self._support_dict:
            return False
        dtypes = self._support_dict[name]
        if dtypes is None:
            return True
        positional, named = dtypes
        pairs: list[tuple[Any, Sequence[dtype]]] = list(zip(node.args, positional))
        pairs += [(node.kwargs[k], allowed) for k, allowed in named.items() if k in node.kwargs]
        return all(_dtype_of(arg) in allowed for arg, allowed in pairs if isinstance(arg, Node))


def _dtype_of(node: Node) -> Any:
    meta = node.meta.get("tensor_meta", node.meta.get("val"))
    return getattr(meta, "dtype", node.meta.get("type"))


class _Asking(OperatorSupportBase):
    def __init__(self, ask: IsNodeSupported) -> None:
        self._ask = ask

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        return self._ask(submodules, node)


@compatibility(is_backward_compatible=False)
def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """Support as a function says it."""
    return _Asking(is_node_supported)


@compatibility(is_backward_compatible=False)
def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supported where all say so."""
    return _Asking(lambda modules, n: all(s.is_node_supported(modules, n) for s in op_support))


@compatibility(is_backward_compatible=False)
def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supported where one says so."""
    return _Asking(lambda modules, n: any(s.is_node_supported(modules, n) for s in op_support))


@compatibility(is_backward_compatible=False)
class OpSupports:
    """Supports that are often chained."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: dtype) -> OperatorSupportBase:
        """No node with an input of a dtype."""
        return _Asking(lambda _, n: all(_dtype_of(i) is not dtype for i in n.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """No node with one of these names."""
        return _Asking(lambda _, node: node.name not in disallow_set)


__all__ = [
    "OpSupports",
    "OperatorSupport",
    "OperatorSupportBase",
    "any_chain",
    "chain",
    "create_op_support",
]
