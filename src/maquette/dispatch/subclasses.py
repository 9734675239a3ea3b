"""Wrapper subclasses: taking them apart, and keeping their aliases right (spec D105-D106).

A wrapper holds other tensors and answers operators in ``__torch_dispatch__``; how one is made is
the tensor package's. The one idea: a class that has ``__tensor_flatten__`` and
``__tensor_unflatten__`` can be taken apart and rebuilt by anybody, and the schema says which
results must share what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

from maquette.dispatch.abstract import TensorBase
from maquette.dispatch.modes import no_dispatch
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.matching import bind
from maquette.dispatch.schemas.schema import AliasInfo
from maquette.dispatch.tags import Tag


class _Wrapper(Protocol):
    """What is asked of a tensor here."""

    shape: tuple[int, ...]
    meta: object
    _storage: object

    def stride(self) -> tuple[int, ...]: ...

    def __tensor_flatten__(self) -> tuple[Sequence[str], object]: ...


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether ``t`` is of a wrapper class that can be taken apart and rebuilt."""
    return is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(cls: type) -> bool:
    """Whether a class is a tensor subclass with the two methods of the flatten protocol."""
    both = hasattr(cls, "__tensor_flatten__") and hasattr(cls, "__tensor_unflatten__")
    return both and issubclass(cls, TensorBase)


def transform_subclass(
    t: TensorBase,
    callback: Callable[[str, object], object],
    outer_size: tuple[int, ...] | None = None,
    outer_stride: tuple[int, ...] | None = None,
) -> TensorBase:
    """Rebuild a wrapper from ``callback(name, inner)`` of each of its inner tensors.

    outer_size, outer_stride: of the result; by default those of ``t``. AssertionError if the class
    gives it another geometry.
    """
    wrapper = cast(_Wrapper, t)
    size = tuple(wrapper.shape if outer_size is None else outer_size)
    stride = tuple(wrapper.stride() if outer_stride is None else outer_stride)
    names, context = wrapper.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, size, stride)  # type: ignore[attr-defined]  # it has it
    given = (tuple(made.shape), tuple(made.stride()))
    assert given == (size, stride), (
        f"{type(t).__name__}.__tensor_unflatten__ was asked for shape {size} and stride {stride}, "
        f"and made shape {given[0]} and stride {given[1]}"
    )
    return cast(TensorBase, made)


def return_and_correct_aliasing(
    func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object] | None, out: object
) -> object:
    """What a wrapper's handler should return for the results ``out`` that it has computed.

    A result that the schema calls a view gets the storage of the argument it views; one that is a
    written argument is that argument itself; an operator tagged inplace_view updates the metadata
    of the wrapper it writes. RuntimeError where only some of several results are written.
    """
    schema = func._schema
    infos = [r.alias_info for r in schema.returns]
    written = [info is not None and info.is_write for info in infos]
    if any(written) and not all(written):
        raise RuntimeError(
            f"return_and_correct_aliasing: either all returns of an operator must be written "
            f"arguments, or none; that is not so in {schema}"
        )
    params = bind(schema, args, kwargs or {}, takes_numbers=func.takes_numbers)
    if func.is_view:
        _share_storage(infos, params, func, out)
    if not any(written):
        return out
    targets = [_aliased(func, params, info) for info in infos]
    if Tag.inplace_view in func.tags:
        with no_dispatch():
            func(*args, **(kwargs or {}))
    return targets[0] if len(targets) == 1 else tuple(targets)


def _share_storage(
    infos: Sequence[AliasInfo | None], params: Sequence[object], func: OpOverload, out: object
) -> None:
    results = out if len(infos) > 1 and isinstance(out, tuple | list) else (out,)
    for info, result in zip(infos, cast(Sequence[object], results), strict=True):
        source = None if info is None else _aliased(func, params, info)
        for view in result if isinstance(result, list | tuple) else (result,):
            if source is not None and view is not source:
                _alias(func, source, view)


def _alias(func: OpOverload, source: object, view: object) -> None:
    assert type(source) is type(view), (
        f"{func}: a view of a {type(source).__name__} is due, and its handler made a "
        f"{type(view).__name__}"
    )
    cast(_Wrapper, view)._storage = cast(_Wrapper, source)._storage


def _aliased(func: OpOverload, params: Sequence[object], info: AliasInfo | None) -> object:
    """The argument whose alias set a return is in."""
    sets = _sets(info)
    for argument, value in zip(func._schema.arguments, params, strict=True):
        if sets & _sets(argument.alias_info):
            return value
    return None


def _sets(info: AliasInfo | None) -> frozenset[str]:
    if info is None:
        return frozenset()
    return info.before_set.union(*map(_sets, info.contained))
