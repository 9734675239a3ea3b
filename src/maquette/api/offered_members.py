"""Methods and properties of `Tensor` written in Python, offered to ``__torch_function__``.

Functions over operators offer themselves (`from_schema.py`), at no cost for other calls. Reading
``t.shape`` or calling ``t.to(...)`` has no such place: a class with a handler of its own gets
members instead that ask the handler first. Modes do not see these calls on other tensors.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from maquette.dispatch.torch_function import call_with_defaults, is_overridden, offered
from maquette.tensor.tensor import SUBCLASSED, Tensor

# PyTorch offers no call of these.
_IGNORED = frozenset(("as_subclass", "new", "reinforce", "meta", "fake_mode", "constant"))
_SPECIAL = frozenset(
    "__len__ __bool__ __float__ __int__ __index__ __complex__ __contains__ __repr__ __format__ "
    "__array__ __array_wrap__ __deepcopy__ __reduce_ex__ __setstate__ __reversed__".split()
)
# PyTorch has these in Python: handlers get parameters with a default by name, all of them.
_BY_DEFAULT = frozenset("norm __repr__ __array__ __array_wrap__ backward".split())


def offer_members(cls: type) -> None:
    """Have a class with a handler asked about what it has from `Tensor`."""
    for name, member in _members().items():
        if inspect.getattr_static(cls, name) is inspect.getattr_static(Tensor, name):
            setattr(cls, name, member)


@functools.cache
def _members() -> dict[str, object]:
    found: dict[str, object] = {}
    for name in dir(Tensor):
        if name in _IGNORED or (name.startswith("_") and name not in _SPECIAL):
            continue
        member = inspect.getattr_static(Tensor, name)
        if isinstance(member, property):
            found[name] = _offered_property(name, member)
        elif isinstance(member, FunctionType) and member.__module__ != "maquette":
            member.__name__ = name
            found[name] = _offered_method(name, member)
    return found


def _offered_method(name: str, function: FunctionType) -> Callable[..., Any]:
    give = call_with_defaults if name in _BY_DEFAULT else _as_written

    @functools.wraps(function)
    def method(self: Tensor, *args: object, **kwargs: object) -> Any:
        if is_overridden((self, *args), kwargs):
            return offered(function, *give(function, (self, *args), kwargs))
        return function(self, *args, **kwargs)

    return method


# Methods written in Python that ask the handler themselves when called by `Tensor`'s own name on a
# tensor of a subclass, ``super().double()``. Not those that take less than a microsecond.
_ASKING = (
    "bfloat16 bool byte cdouble cfloat chalf char cpu cuda double float half int ipu long mtia "
    "short xpu to type tolist apply_ map_ map2_ lu module_load numpy pin_memory is_pinned "
    "record_stream resize resize_as share_memory_ is_shared storage untyped_storage dim_order "
    "int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale "
    "q_zero_point qscheme slice_inverse to_mkldnn nonzero norm polygamma stft tensor_split unique "
    "unique_consecutive where requires_grad_ is_distributed is_inference is_set_to "
    "__repr__ __format__ __contains__ "
    "__index__ __array_wrap__ __reduce_ex__"
).split()


def _asking(function: FunctionType) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(self: Tensor, *args: object, **kwargs: object) -> Any:
        if self.__class__ is not Tensor and is_overridden((self, *args), kwargs):
            return offered(method, (self, *args), kwargs)
        return function(self, *args, **kwargs)

    return method


def _ask_first() -> None:
    for name in _ASKING:
        function = inspect.getattr_static(Tensor, name, None)
        if isinstance(function, FunctionType):
            setattr(Tensor, name, _asking(function))


def _as_written(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    return args, kwargs


def _offered_property(name: str, member: property) -> property:
    def get(self: Tensor) -> Any:
        if is_overridden((self,), {}):
            return offered(member.__get__, (self,), {})
        return member.__get__(self)

    def put(self: Tensor, value: object) -> None:
        if is_overridden((self, value), {}):
            offered(member.__set__, (self, value), {})
        else:
            member.__set__(self, value)

    def drop(self: Tensor) -> None:
        if is_overridden((self,), {}):
            offered(member.__delete__, (self,), {})
        else:
            member.__delete__(self)

    has_put, has_drop = member.fset is not None, member.fdel is not None
    return property(get, put if has_put else None, drop if has_drop else None, member.__doc__)


SUBCLASSED.append(offer_members)
_ask_first()
