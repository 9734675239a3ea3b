"""The contexts of `py_functionalize_impl`: a rule serves key, mode and transform (D69, D70).

A rule takes a context first and speaks to functionalization through it only: `wrap_tensors`,
`unwrap_tensors`, `functionalize`, `redispatch_to_next`, and the pieces of a write.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from maquette.dispatch.base import FUNCTIONALIZE_IMPLS, OperatorBase, TransformType
from maquette.dispatch.guards import ExcludeDispatchKeyGuard
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor
from maquette.transforms.functional import inspection
from maquette.transforms.functional.level import (
    KEY,
    FunctionalizeInterpreter,
    disable_functionalization,
    enable_functionalization,
    on_level,
    reapply_views,
)
from maquette.transforms.functional.mode import (
    FunctionalTensor,
    FunctionalTensorMode,
    dispatch_functionalize,
)
from maquette.transforms.functional.wrapper import (
    FUNCTIONALIZE,
    FunctionalWrapper,
    each,
    is_functional,
    wrap,
)

Function = Callable[..., Any]


class BaseFunctionalizeAPI(abc.ABC):
    """What a rule may ask of functionalization, whichever form it has."""

    @abc.abstractmethod
    def wrap_tensors(self, args: Any) -> Any:
        """Every plain tensor of a tree as one of this functionalization."""

    @abc.abstractmethod
    def unwrap_tensors(self, args: Any) -> Any:
        """Every tensor of this functionalization in a tree as its value, up to date."""

    @abc.abstractmethod
    def functionalize(self, inner_f: Function) -> Function:
        """A function of values that does what ``inner_f`` does, without mutation."""

    @abc.abstractmethod
    def redispatch_to_next(self) -> AbstractContextManager[object]:
        """For a block: calls go on below functionalization."""

    def _wrapper(self, t: Tensor) -> FunctionalWrapper:
        assert isinstance(t, FunctionalWrapper)
        return t

    def replace(self, input_tensor: Tensor, output_tensor: Tensor) -> None:
        """Exchange the value of a tensor."""
        inspection.replace(self._wrapper(input_tensor), self.unwrap_tensors(output_tensor))

    def commit_update(self, tensor: Tensor) -> None:
        """Tell a tensor's memory of its value."""
        inspection.commit_update(self._wrapper(tensor))

    def sync(self, tensor: Tensor) -> None:
        """Bring a tensor's value up to date."""
        self._wrapper(tensor).sync()

    def mark_mutation_hidden_from_autograd(self, tensor: Tensor) -> None:
        """Note that autograd need not know of the last write to a tensor."""
        inspection.mark_mutation_hidden_from_autograd(self._wrapper(tensor))


class PythonFunctionalizeAPI(BaseFunctionalizeAPI):
    """Under a `FunctionalTensorMode`, which is popped already; ``mode`` is it."""

    def __init__(
        self, mode: FunctionalTensorMode | None = None, pre_dispatch: bool = False
    ) -> None:
        super().__init__()
        self.mode = mode or FunctionalTensorMode(pre_dispatch)
        self.pre_dispatch = pre_dispatch

    def wrap_tensors(self, args: Any) -> Any:
        with self.mode:
            return each(
                Tensor,
                lambda t: (
                    t if isinstance(t, FunctionalTensor) else FunctionalTensor.to_functional(t)
                ),
                args,
            )

    def unwrap_tensors(self, args: Any) -> Any:
        return each(FunctionalTensor, FunctionalTensor.from_functional, args)

    def functionalize(self, inner_f: Function) -> Function:
        return dispatch_functionalize(inner_f, self.mode)

    def redispatch_to_next(self) -> AbstractContextManager[object]:
        return nullcontext()

    def _wrapper(self, t: Tensor) -> FunctionalWrapper:
        assert isinstance(t, FunctionalTensor)
        return t.elem


class CppFunctionalizeAPI(BaseFunctionalizeAPI):
    """At the key Functionalize."""

    def wrap_tensors(self, args: Any) -> Any:
        return each(Tensor, lambda t: t if is_functional(t, KEY) else wrap(t, KEY), args)

    def unwrap_tensors(self, args: Any) -> Any:
        return each(Tensor, lambda t: t.sync() if is_functional(t, KEY) else t, args)

    def functionalize(self, inner_f: Function) -> Function:
        @functools.wraps(inner_f)
        def functional(*args: Any, **kwargs: Any) -> Any:
            given, named = self.wrap_tensors((args, kwargs))
            st = tls.st
            sets = st.sets()
            st.set_exclude(st.exclude & ~FUNCTIONALIZE)
            views = reapply_views(False)  # of the program around
            disable_functionalization()
            enable_functionalization(reapply_views=True)
            try:
                return self.unwrap_tensors(inner_f(*given, **named))
            finally:
                reapply_views(views)
                st.put_back(sets)

        return functional

    def redispatch_to_next(self) -> AbstractContextManager[object]:
        return ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.Functionalize))


class FunctorchFunctionalizeAPI(BaseFunctionalizeAPI):
    """Under the transform `functionalize`; ``interpreter`` is its level."""

    def __init__(self, interpreter: FunctionalizeInterpreter) -> None:
        super().__init__()
        self.interpreter = interpreter

    def wrap_tensors(self, args: Any) -> Any:
        level = self.interpreter
        return each(Tensor, lambda t: t if is_functional(t, level) else wrap(t, level), args)

    def unwrap_tensors(self, args: Any) -> Any:
        levels = (*self.interpreter.continued, self.interpreter)

        def value_of(t: Any) -> Any:
            ours = isinstance(t, FunctionalWrapper) and t.owner() in levels
            return t.sync() if ours else t

        return each(Tensor, value_of, args)

    def functionalize(self, inner_f: Function) -> Function:
        level = self.interpreter
        return on_level(inner_f, copies=level.copies, continued=(*level.continued, level))

    def redispatch_to_next(self) -> AbstractContextManager[object]:
        return self.interpreter.lower()


def register(op: OperatorBase, fn: Function) -> None:
    """Register a rule ``fn(ctx, *args, **kwargs)`` of an operator for all three forms."""

    def at_key(*args: Any, **kwargs: Any) -> Any:
        return fn(CppFunctionalizeAPI(), *args, **kwargs)

    def under_mode(mode: FunctionalTensorMode, *args: Any, **kwargs: Any) -> Any:
        return fn(PythonFunctionalizeAPI(mode), *args, **kwargs)

    def under_transform(level: FunctionalizeInterpreter, *args: Any, **kwargs: Any) -> Any:
        return fn(FunctorchFunctionalizeAPI(level), *args, **kwargs)

    op.py_impl(DispatchKey.Functionalize)(at_key)
    op.py_impl(FunctionalTensorMode)(under_mode)
    op.py_impl(TransformType.Functionalize)(under_transform)


FUNCTIONALIZE_IMPLS[:] = [register]
