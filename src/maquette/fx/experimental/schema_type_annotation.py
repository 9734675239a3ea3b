"""`AnnotateTypesWithSchema`: nodes get the types that functions and modules say they give."""

from __future__ import annotations

import functools
import typing
from typing import Any

from maquette.fx.graph_module import GraphModule, _get_attr
from maquette.fx.interpreter import Transformer
from maquette.nn.parameter import Parameter
from maquette.tensor.tensor import Tensor


class AnnotateTypesWithSchema(Transformer):
    """Annotates calls with the types that their signatures say, and attributes with theirs.

    annotate_functionals: functions of `nn.functional`; annotate_modules: modules of `nn`;
    annotate_get_attrs: parameters, buffers and other attributes.
    """

    def __init__(
        self,
        module: GraphModule,
        annotate_functionals: bool = True,
        annotate_modules: bool = True,
        annotate_get_attrs: bool = True,
    ) -> None:
        super().__init__(module)
        self.annotate_functionals = annotate_functionals
        self.annotate_modules = annotate_modules
        self.annotate_get_attrs = annotate_get_attrs

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function, annotated."""
        made = super().call_function(target, args, kwargs)
        if self.annotate_functionals and getattr(target, "__module__", "").startswith(
            ("maquette.nn.functional", "torch.nn.functional")
        ):
            return _annotated(made, _result_type(target))
        return made

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a module, annotated."""
        made = super().call_module(target, args, kwargs)
        kind = type(self.fetch_attr(target))
        if self.annotate_modules and kind.__module__.startswith(("maquette.nn", "torch.nn")):
            return _annotated(made, _result_type(kind.forward))
        return made

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute, annotated with `Tensor`, or with what its class is."""
        made = super().get_attr(target, args, kwargs)
        if not self.annotate_get_attrs:
            return made
        *parents, name = target.split(".")
        owner = _get_attr(self.module, ".".join(parents)) if parents else self.module
        value = getattr(owner, name)
        return _annotated(made, _shown_type(value))


def _annotated(made: Any, kind: Any) -> Any:
    if made.node.type is None and kind is not None:
        made.node.type = kind
    return made


def _shown_type(value: Any) -> Any:

    return Tensor if type(value) is Parameter else type(value)


@functools.lru_cache(1024)
def _result_type(function: Any) -> Any:
    """The type that a function says it gives; None where it says none."""
    try:
        return typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return None


__all__ = ["AnnotateTypesWithSchema"]
