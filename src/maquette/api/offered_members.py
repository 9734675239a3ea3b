"""Methods and properties of `Tensor` written in Python, offered to ``__torch_function__``.

Functions over operators offer themselves (`from_schema.py`), at no cost for other calls; so do the
members that programs ask most (`tensor/geometry.py`). The others are wrapped here, in `Tensor`
itself: ``torch.Tensor.double(t)`` and a handler that a class got late are asked like any. A tensor
of a class without handlers pays 25 ns while no mode is active (timeit, CPython 3.11).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from maquette.dispatch.torch_function import (
    call_with_defaults,
    is_overridden,
    member_is_overridden,
    offered_in_python,
    offered_member,
    offered_method,
)
from maquette.tensor.tensor import Tensor

# PyTorch offers no call of these.
_IGNORED = frozenset("as_subclass reinforce meta fake_mode constant _typed_storage".split())
# Those that look for a handler themselves.
_ASKING_THEMSELVES = frozenset(
    "shape dtype device layout ndim is_cuda requires_grad dim numel nelement ndimension size "
    "stride is_contiguous is_floating_point __deepcopy__".split()
)
_PRIVATE = frozenset(
    "__dir__ __len__ __bool__ __float__ __int__ __index__ __complex__ __contains__ __repr__ "
    "__format__ __array__ __array_wrap__ __reduce_ex__ __setstate__ __reversed__ __dlpack__ "
    "__dlpack_device__ __cuda_array_interface__ __deepcopy__ _version _grad _grad_fn _cdata "
    "_backward_hooks _post_accumulate_grad_hooks _is_view _is_zerotensor".split()
)
# Their handlers are asked as well if the tensor has none and an argument has one.
_TAKING_TENSORS = frozenset("to is_set_to is_same_size map_ map2_ module_load".split())
_CONSTANTS = frozenset("is_nested is_quantized is_mkldnn".split())  # properties to programs
# PyTorch has these in Python: handlers get parameters with a default by name, all of them.
_BY_DEFAULT = frozenset(
    "norm __repr__ __array__ __array_wrap__ __dlpack__ backward lu stft module_load unique "
    "unique_consecutive".split()
)
# Modes alone are not asked: PyTorch shows them the members that these read.
_OF_CLASSES = frozenset(("__reduce_ex__",))
_TAKING_NOTHING = frozenset(
    "__bool__ __float__ __int__ __index__ __complex__ _is_view _is_zerotensor const_data_ptr "
    "data_ptr dequantize element_size get_device is_complex is_conj is_inference is_neg is_signed "
    "item new new_tensor storage_offset tolist untyped_storage".split()
)
# PyTorch matches what these are given, so a plain tensor is not among the classes that are told.
_MATCHED = frozenset(
    "to cpu cuda float double half bfloat16 byte char short int long bool cfloat cdouble chalf "
    "type is_pinned numpy requires_grad_ is_same_size is_set_to nonzero tensor_split polygamma "
    "where apply_ map_ map2_ record_stream".split()
)


def _members() -> Iterator[tuple[str, Any]]:
    for name in dir(Tensor):
        if name in _IGNORED or (name.startswith("_") and name not in _PRIVATE):
            continue
        yield name, inspect.getattr_static(Tensor, name)


def _ask_first() -> None:
    for name, member in _members():
        if isinstance(member, FunctionType) and member.__module__ != "maquette":
            member.__name__ = name
        if name in _ASKING_THEMSELVES:
            continue
        if isinstance(member, property):
            setattr(Tensor, name, _asking_property(name, member))
        elif name in _CONSTANTS:
            constant = property(functools.partial(_given, member))
            setattr(Tensor, name, _asking_property(name, constant))
        elif isinstance(member, FunctionType) and member.__module__ != "maquette":
            made = _asking_both if name in _TAKING_TENSORS else _asking_method
            setattr(Tensor, name, made(member))


def _name_methods() -> None:
    """Let the methods that stand in `Tensor` say so: pickle finds a function by that."""
    for name, member in vars(Tensor).items():
        if isinstance(member, FunctionType) and member.__module__ != "maquette":
            member.__module__, member.__qualname__ = "maquette", f"Tensor.{name}"


def _given(constant: object, t: Tensor) -> object:
    return constant


def _asking_both(function: FunctionType) -> Callable[..., Any]:
    """`_asking_method` for those that may be given a tensor as their first argument."""
    ask = _asking(function.__name__)
    give = call_with_defaults if function.__name__ in _BY_DEFAULT else None

    @functools.wraps(function)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        asks = self._asks
        if not asks and args and isinstance(args[0], Tensor):
            asks = args[0]._asks
        if asks and is_overridden((self, *args), kwargs):
            given = (self, *args), kwargs
            return ask(method, *(give(function, *given) if give else given))
        return function(self, *args, **kwargs)

    return method


def _asking(name: str) -> Callable[..., Any]:
    if name in _MATCHED:
        return offered_method
    return offered_member if name in _TAKING_NOTHING else offered_in_python


def _asking_method(function: FunctionType) -> Callable[..., Any]:
    give = call_with_defaults if function.__name__ in _BY_DEFAULT else None
    ask = _asking(function.__name__)
    for_modes = function.__name__ not in _OF_CLASSES

    @functools.wraps(function)
    def method(self: Tensor, *args: object, **kwargs: object) -> Any:
        if self._asks and (for_modes or self._class_bits) and is_overridden((self, *args), kwargs):
            given = (self, *args), kwargs
            return ask(method, *(give(function, *given) if give else given))
        return function(self, *args, **kwargs)

    return method


def _asking_property(name: str, member: property) -> property:
    read, write, delete = member.fget, member.fset, member.fdel
    assert read is not None

    def get(self: Tensor) -> Any:
        if self._asks and member_is_overridden(self):
            return offered_member(asking.__get__, (self,), {})
        return read(self)

    def put(self: Tensor, value: object) -> None:
        if self._asks and is_overridden((self, value), {}):
            offered_member(asking.__set__, (self, value), {})
        elif write is not None:
            write(self, value)

    def drop(self: Tensor) -> None:
        if self._asks and member_is_overridden(self):
            offered_member(asking.__delete__, (self,), {})
        elif delete is not None:
            delete(self)

    get.__name__ = name
    asking = property(
        get,
        None if write is None else put,
        None if delete is None else drop,
        member.__doc__,
    )
    return asking


_ask_first()
_name_methods()
