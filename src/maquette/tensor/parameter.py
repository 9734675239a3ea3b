"""Parameters and buffers: the two kinds of tensors that a module owns.

A `Parameter` of real data is a `Tensor` subclass; what operators make of it is a plain tensor. A
fake tensor keeps its class and is marked instead, and so is any tensor of a user's own class: the
one idea is that ``isinstance(t, Parameter)`` asks for the class *or* the mark. A `Buffer` is always
a mark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar, cast

from maquette.dispatch.abstract import disabled_torch_function
from maquette.tensor.tensor import Tensor, alias, bits_of

T = TypeVar("T", bound=Tensor)
_new = object.__new__


class _ParameterType(type):
    """Makes tensors that carry the mark ``_is_param`` instances of `Parameter`."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and instance._is_param


class Parameter(Tensor, metaclass=_ParameterType, has_handlers=False):
    """A tensor that a module trains: an alias of ``data`` outside autograd, a leaf.

    Assigned to a module it is listed by ``parameters()``. ``data`` None gives an empty tensor. A
    fake tensor, or one of another subclass, keeps its class and is an instance all the same.
    """

    __slots__ = ()
    _is_param = True
    # Results are plain tensors (D136).
    __torch_function__: ClassVar[Callable[..., object]] = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        source = Tensor() if data is None else data
        if not isinstance(source, Tensor):
            raise TypeError(
                f"{cls.__name__}() takes a Tensor, got {type(source).__name__}; make one with "
                f"maquette.tensor(...)"
            )
        if source.fake_mode is not None or type(source) not in (Tensor, cls, Parameter):
            return _marked(source, requires_grad)
        made = of_class(cls, alias(source))
        if requires_grad:
            made._require_grad()
        return made


def of_class(cls: type[T], plain: Tensor) -> T:
    """An object of ``cls`` with the parts of ``plain``, a tensor that nobody else holds."""
    made = _new(cls)
    made.meta = plain.meta
    made._keys = plain._keys | bits_of(cls)
    made._storage = plain._storage
    made._mq_data = plain._mq_data
    made._vc = plain._vc
    made._base = None
    made._ag = None
    made._converted = None
    return made


def _marked(source: Tensor, requires_grad: bool) -> Parameter:
    made = alias(source) if source.fake_mode is not None else source.detach()
    if type(made) is not type(source):
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {type(source).__name__} requires that "
            f"detach() returns an instance of the same type, but it gave {type(made).__name__}"
        )
    made._require_grad(requires_grad)
    made._is_param = True
    return cast(Parameter, made)  # by its mark


class _BufferType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        # Not getattr: a tensor answers a missing name by looking for an operator.
        return isinstance(instance, Tensor) and bool(vars(instance).get("_is_buffer", False))


class Buffer(Tensor, metaclass=_BufferType, has_handlers=False):
    """`Buffer(data)` is an alias of ``data``, marked; assigning it to a module registers it.

    ``isinstance`` asks for the mark. persistent: whether the module's state dict holds it.
    """

    __slots__ = ()
    __torch_function__: ClassVar[Callable[..., object]] = disabled_torch_function

    def __new__(  # type: ignore[misc]  # the mark is on a tensor; there are no instances
        cls, data: Tensor | None = None, *, persistent: bool = True
    ) -> Tensor:
        source = Tensor() if data is None else data
        made = source.detach()._require_grad(source.requires_grad)
        marks = vars(made)
        marks["persistent"] = persistent
        marks["_is_buffer"] = True
        return made
