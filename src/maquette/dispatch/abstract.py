"""What the dispatcher knows of a tensor: that it is one, and its key set.

Dispatch handles tensors without knowing their storage, shape or autograd state; those live in
the layer above, whose tensor class derives from `TensorBase`. The one idea: the dispatcher reads
`_keys` of a tensor and `_class_bits` of its class, and nothing else; members look at `_asks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, NoReturn, TypeVar

from maquette.dispatch.keysets import TORCH_FUNCTION, DispatchKeySet

_Class = TypeVar("_Class", bound=type)


ACTIVE: list[None] = []
"""Not empty as long as function modes are active, in whatever thread."""
HAS_HANDLER: Sequence[object] = (None,)
"""`TensorBase._asks` of classes that may have a handler."""


class TensorBase:
    """The class every tensor derives from; `_keys` is its dispatch key set as an int.

    ``_class_bits`` are the bits of it that its class adds: Python and PythonTLSSnapshot where the
    class has a ``__torch_dispatch__`` of its own, and the hidden bit TORCH_FUNCTION, but for
    classes of this package that have no handler and never get one. The bit says that a class may
    have a ``__torch_function__``, not that it has: a program may set or delete one at any time,
    and only a metaclass would learn of it, which every isinstance would pay for.
    """

    __slots__ = ()

    _keys: int
    _class_bits: ClassVar[int] = 0
    _asks: ClassVar[Sequence[object]] = ACTIVE
    """Not empty if a member of the tensor may have to ask somebody: the class has a handler, or
    function modes are active. It is the one look that such a member takes first."""


def disabled_torch_function(
    func: Callable[..., object],
    types: Sequence[type],
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
) -> NoReturn:
    """The marker: ``__torch_function__ = disabled_torch_function`` switches it off (D136)."""
    raise NotImplementedError("this class has disabled __torch_function__: do not call it")


def disabled_torch_dispatch(
    func: Callable[..., object],
    types: Sequence[type],
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
) -> object:
    """The marker: ``__torch_dispatch__ = disabled_torch_dispatch`` switches it off (D14).

    A class that calls it, as ``super().__torch_dispatch__``, gets what the operator gives for
    tensors without handlers.
    """
    from maquette.dispatch.guards import ExcludeDispatchKeyGuard  # noqa: PLC0415  # it is above

    with ExcludeDispatchKeyGuard("Python"):
        return func(*args, **(kwargs or {}))


def keys(tensor: TensorBase) -> DispatchKeySet:
    """The dispatch keys of a tensor (D14): backend, Autograd, Autocast, class and state.

    They do not depend on requires_grad: every tensor not born in inference mode has Autograd.
    """
    if not isinstance(tensor, TensorBase):
        raise TypeError(f"keys() takes a tensor, got {type(tensor).__name__}: {tensor!r}")
    return DispatchKeySet.from_raw_repr(tensor._keys)


def tensors_in(values: object) -> Iterator[TensorBase]:
    """The tensors among values, lists and tuples looked into, left to right."""
    if isinstance(values, TensorBase):
        yield values
    elif isinstance(values, _SEQUENCES):
        for value in values:  # a generator for each number among them would cost as much again
            if isinstance(value, TensorBase):
                yield value
            elif isinstance(value, _SEQUENCES):
                yield from tensors_in(value)


_SEQUENCES = (list, tuple)


def distinct_classes(found: Sequence[_Class]) -> tuple[_Class, ...]:
    """Each class once, subclasses before their bases, else left to right (D98)."""
    ordered: list[_Class] = []
    for cls in found:
        if cls not in ordered:
            base = (i for i, known in enumerate(ordered) if issubclass(cls, known))
            ordered.insert(next(base, len(ordered)), cls)
    return tuple(ordered)


def overrides_torch_function(cls: type) -> bool:
    """Whether objects of a class want to see calls on them (D135), as the class is now."""
    if issubclass(cls, TensorBase) and not cls._class_bits & TORCH_FUNCTION:
        return False
    function = getattr(cls, "__torch_function__", None)
    return function is not None and function is not disabled_torch_function


def torch_function_of(value: object) -> Callable[..., object] | None:
    """The handler that is asked about calls on an object: of its class, or set on it alone.

    None where there is none, or where it is disabled.
    """
    if isinstance(value, TensorBase) and not value._class_bits & TORCH_FUNCTION:
        return None
    function: Callable[..., object] | None = getattr(value, "__torch_function__", None)
    if function is None or getattr(function, "__func__", function) is disabled_torch_function:
        return None
    return function
