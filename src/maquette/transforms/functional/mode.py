"""Functionalization for tracers: tensors of a class of their own, and the mode that answers them.

A `FunctionalTensor` holds a wrapper of the key Functionalize (`level.py`). It lies at Python, so
autograd and other modes above see a program of ordinary tensors, and modes below
`FunctionalTensorMode`, a tracer say, see operators that mutate nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from maquette.core.pytree import tree_flatten
from maquette.dispatch import keysets as K
from maquette.dispatch.higher_order import EFFECTS
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.modes import (
    PYTHON,
    SNAPSHOT,
    TorchDispatchMode,
    get_dispatch_mode,
    set_dispatch_mode,
    unset_dispatch_mode,
)
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.pre_dispatch import TorchDispatchModeKey
from maquette.dispatch.registry import ops
from maquette.dispatch.schemas.matching import bind
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.tensor.keys import ADINPLACE
from maquette.tensor.tensor import Tensor
from maquette.transforms.functional import inspection
from maquette.transforms.functional.kernel import Handler, functionalized, on_values
from maquette.transforms.functional.level import (
    KEY,
    from_functional_tensor,
    mirror_autograd_meta_to,
    reapply_views,
    to_functional_tensor,
)
from maquette.transforms.functional.wrapper import (
    FUNCTIONALIZE,
    FunctionalWrapper,
    each,
    is_functional,
)

_SHOWN = K.BACKENDS | K.AUTOGRAD | ADINPLACE
_new = object.__new__


class FunctionalTensor(Tensor):
    """A tensor of a program that `FunctionalTensorMode` functionalizes; ``elem`` is its wrapper.

    It has the wrapper's memory, so what shares memory in the program does so here.
    """

    elem: FunctionalWrapper
    _mode_key: ClassVar[TorchDispatchModeKey] = TorchDispatchModeKey.FUNCTIONAL

    def __new__(cls, elem: Tensor, mode: FunctionalTensorMode | None = None) -> FunctionalTensor:
        if not is_functional(elem, KEY):
            raise AssertionError(
                f"FunctionalTensor holds a functional tensor, got {type(elem).__name__}; "
                f"FunctionalTensor.to_functional makes one"
            )
        t = _new(cls)
        t.elem = elem
        t.meta = elem.meta
        t._keys = elem._keys & _SHOWN | PYTHON | SNAPSHOT
        t._storage = elem._storage
        t._mq_data = t._vc = t._base = t._ag = None
        return t

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # a marker in Tensor, a method in subclasses
        cls,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if any(not issubclass(t, (FunctionalTensor, Tensor)) for t in types):
            return NotImplemented
        raise RuntimeError(
            f"{func}: Attempting to use FunctionalTensor on its own. Instead, please use it with a "
            f"corresponding FunctionalTensorMode()"
        )

    def __repr__(self) -> str:
        return f"FunctionalTensor({self.elem!r})"

    @staticmethod
    def to_functional(t: Tensor) -> FunctionalTensor:
        """A functional tensor of a plain one, which takes its place in autograd too."""
        assert not isinstance(t, FunctionalTensor), "the tensor is functional already"
        mode = get_dispatch_mode(TorchDispatchModeKey.FUNCTIONAL)
        made = FunctionalTensor(to_functional_tensor(t), mode)  # type: ignore[arg-type]  # of its kind
        mirror_autograd_meta_to(t, made)
        return made

    def from_functional(self) -> Tensor:
        """The value, up to date."""
        self.elem.sync()
        return from_functional_tensor(self.elem)

    def is_base_tensor(self) -> bool:
        """Whether it is no view of another."""
        return not self.elem._steps

    def replace_(self, output: Tensor) -> None:
        """Exchange the value."""
        inspection.replace(self.elem, _inner(output))

    def commit_update(self) -> None:
        """Tell the memory of the value."""
        self.elem.commit()

    def sync(self) -> None:
        """Bring the value up to date."""
        self.elem.sync()

    def mark_mutation_hidden_from_autograd(self) -> None:
        """Note that autograd need not know of the last write."""
        inspection.mark_mutation_hidden_from_autograd(self.elem)

    def tolist(self) -> Any:
        return self.from_functional().tolist()

    def _alias(self) -> FunctionalTensor:
        other = FunctionalTensor(self.elem._alias())
        other._vc = self._version_counter()
        return other

    def is_conj(self) -> bool:
        return self.elem.is_conj()

    def is_neg(self) -> bool:
        return self.elem.is_neg()


def functional_tensor(t: Tensor) -> FunctionalTensor:
    """A functional tensor of a plain one; a functional one is itself."""
    return t if isinstance(t, FunctionalTensor) else FunctionalTensor.to_functional(t)


def _inner(t: Tensor) -> Tensor:
    """A value: what a functional tensor holds, or the tensor itself."""
    return t.from_functional() if isinstance(t, FunctionalTensor) else t


class FunctionalTensorMode(TorchDispatchMode):
    """Functionalize what is called in the block on functional tensors; factories give them.

    pre_dispatch, export, _allow_token_discovery, _disable_functionalization: as tracers set them.
    """

    _mode_key = TorchDispatchModeKey.FUNCTIONAL

    def __init__(
        self,
        pre_dispatch: bool = False,
        export: bool = False,
        _allow_token_discovery: bool = False,
        _disable_functionalization: bool = False,
    ) -> None:
        super().__init__(DispatchKey.PreDispatch if pre_dispatch else None)
        self.export = export
        self.pre_dispatch = pre_dispatch
        self.is_on_stack = False
        self.enter_stack: list[bool] = []
        self._tokens: dict[Any, Tensor] = {}
        self._tokens_forward_output: dict[Any, Tensor] = {}
        self._allow_token_discovery = _allow_token_discovery
        self._disable_functionalization = _disable_functionalization
        self._handlers: dict[OpOverload, Handler] = {}

    def __enter__(self) -> FunctionalTensorMode:
        """Enter the mode; it does nothing where it is active already."""
        active = get_dispatch_mode(TorchDispatchModeKey.FUNCTIONAL) is self
        self.enter_stack.append(not active)
        return self if active else super().__enter__()

    def __exit__(self, *exc: object) -> None:
        if self.enter_stack.pop():
            super().__exit__(*exc)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """A thread has at most one of these."""
        return True

    def __torch_dispatch__(
        self,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if any(t is not FunctionalTensor for t in types):
            return NotImplemented
        if not isinstance(func, OpOverload):
            return func(*args, **kwargs)
        effectful = EFFECTS[0](self, func, args, kwargs) if EFFECTS else NotImplemented
        if effectful is not NotImplemented:
            return effectful
        if func._can_decompose() and not self._keeps_whole(func):
            with self:
                return func.decompose(*args, **kwargs)
        given: Any = each(FunctionalTensor, lambda t: t.elem, (args, kwargs))
        params = bind(func._schema, *given, takes_numbers=func.takes_numbers)
        handler = self._handlers.get(func)
        if handler is None:
            whole = func._can_decompose()
            handler = self._handlers[func] = on_values(func) if whole else functionalized(func)
        with _functionalizing():
            result = handler(KEY, tuple(params))
        return self._answer(args, kwargs, result)

    def _keeps_whole(self, func: OpOverload) -> bool:
        """Whether an exported program has this composite operator: it neither aliases nor mutates.

        After autograd none is left but dropout, which programs look for by its name.
        """
        if not self.export:
            return False
        if func is _dropout:
            return True
        aliases = any(a.alias_info for a in func._schema.arguments)
        unsafe = Tag.maybe_aliasing_or_mutating in func.tags
        return self.pre_dispatch and not (aliases or unsafe)

    def _answer(self, args: Any, kwargs: Any, result: Any) -> Any:
        """The results as functional tensors; a mutated argument is itself, with its new meta."""
        mine = {id(t.elem): t for t in _functional_tensors((args, kwargs))}
        for t in mine.values():
            t.meta, t._storage = t.elem.meta, t.elem._storage

        def of_class(t: Any) -> Any:
            if not is_functional(t, KEY):
                return t
            return mine[id(t)] if id(t) in mine else FunctionalTensor(t)

        return each(FunctionalWrapper, of_class, result)


_dropout = ops.aten.dropout.default


def _functional_tensors(values: Any) -> list[FunctionalTensor]:
    return [t for t in tree_flatten(values)[0] if isinstance(t, FunctionalTensor)]


@contextmanager
def _functionalizing() -> Iterator[None]:
    """For a block inside of a handler: the key acts again, and values may share memory."""
    st = tls.st
    exclude = st.exclude
    st.set_exclude(exclude & ~FUNCTIONALIZE)
    before = reapply_views(True)
    try:
        yield
    finally:
        reapply_views(before)
        st.set_exclude(exclude)


@contextmanager
def disable_functional_mode() -> Iterator[Any]:
    """Without the functional mode for the block, which gets it."""
    mode = unset_dispatch_mode(TorchDispatchModeKey.FUNCTIONAL)
    try:
        yield mode
    finally:
        if mode is not None:
            set_dispatch_mode(mode)  # type: ignore[arg-type]  # of its kind


def dispatch_functionalize(
    func: Callable[..., Any], mode: FunctionalTensorMode | None = None
) -> Callable[..., Any]:
    """``func`` run on functional tensors under a mode, its results taken out again."""
    mode = FunctionalTensorMode() if mode is None else mode

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with disable_functional_mode(), mode:
            given = each(Tensor, functional_tensor, (args, kwargs))
            result = func(*given[0], **given[1])
            return each(FunctionalTensor, FunctionalTensor.from_functional, result)

    return wrapped


__all__ = [
    "FunctionalTensor",
    "FunctionalTensorMode",
    "disable_functional_mode",
    "dispatch_functionalize",
    "functional_tensor",
]
