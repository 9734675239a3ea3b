"""What a tensor is like, as plain values: descriptions from which another can be made like it.

A `MetaTensorDescriber` numbers tensors and storages by identity and describes them; a description
holds the numbers of what it is about, never the tensor (unless it is asked to keep data). Making
tensors from descriptions is `meta_converter.py`. Of sparse tensors the parts are not described yet,
of nested and functorch-wrapped ones nothing is.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import json
import logging
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout, sparse_coo, strided
from maquette.core.meta import TensorMeta
from maquette.dispatch.subclasses import is_traceable_wrapper_subclass
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor

T = TypeVar("T")
_describers = itertools.count()
_log = logging.getLogger(__name__)


class CreationMeta(enum.Enum):
    """How a view came about, of which autograd knows what may not be written to."""

    DEFAULT = ""
    IN_CUSTOM_FUNCTION = "CUSTOM_FUNCTION"
    MULTI_OUTPUT_NODE = "MULTI_OUTPUT_NODE"
    NO_GRAD_MODE = "NO_GRAD_MODE"
    MULTI_OUTPUT_SAFE = "MULTI_OUTPUT_SAFE"
    INFERENCE_MODE = "INFERENCE_MODE"


class Numbers(Generic[T]):
    """Numbers 0, 1, ... for objects by identity: stable while they live, never given again."""

    __slots__ = ("_entries", "_next")

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[T], int]] = {}
        self._next = itertools.count()

    def of(self, value: T) -> int:
        """The number of ``value``, which is not kept alive."""
        key, entries = id(value), self._entries
        known = entries.get(key)
        if known is not None and known[0]() is value:
            return known[1]

        def forget(reference: weakref.ref[T]) -> None:
            standing = entries.get(key)
            if standing is not None and standing[0] is reference:
                del entries[key]

        number = next(self._next)
        entries[key] = (weakref.ref(value, forget), number)
        return number

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True)
class ViewFunc:
    """How a view is laid over its root: applied to another root, it gives the like view of that.

    differs: PyTorch replays the chain of operators; a dense view is told by its geometry as well.
    """

    meta: TensorMeta

    @staticmethod
    def from_tensor(t: Tensor) -> ViewFunc:
        """The function that makes ``t`` of its root."""
        return ViewFunc(t.meta)

    def apply(
        self,
        t: Tensor,
        new_base: Tensor,
        symint_visitor_fn: Callable[[int], int] | None = None,
        tensor_visitor_fn: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """The view of ``new_base``; symint_visitor_fn may replace each size, stride and offset.

        There is no tensor but the root, so tensor_visitor_fn is never called.
        """
        visit = symint_visitor_fn or (lambda number: number)
        meta = self.meta
        shape, strides = tuple(map(visit, meta.shape)), tuple(map(visit, meta.strides))
        of_root = new_base if meta.dtype is new_base.dtype else new_base.view(meta.dtype)
        made: Tensor = of_root.as_strided(shape, strides, visit(meta.offset))
        return made


@dataclass(frozen=True)
class MetaStorageDesc:
    """A storage: its number, its size in bytes, and, if data is kept, itself."""

    id: int
    size: int
    data: UntypedStorage | None

    def as_json(self, describer_id: int) -> dict[str, object]:
        """All but the data."""
        size = self.size if isinstance(self.size, int) else repr(self.size)
        return {"id": self.id, "describer_id": describer_id, "size": size}


@dataclass(frozen=True)
class MetaTensorDesc:
    """A tensor: what its queries answer, and descriptions of what belongs to it.

    ``base`` is the root of a view, ``attrs`` are the inner tensors of a wrapper subclass by name.
    """

    id: int
    ndim: int
    dtype: dtype
    device: device
    size: tuple[int, ...]
    dynamo_dynamic_indices: list[int]
    dynamo_hint_overrides: dict[int, int]
    layout: layout = strided
    is_inference: bool = False
    is_leaf: bool = False
    requires_grad: bool = False
    is_sparse: bool = False
    is_mkldnn: bool = False
    is_functorch_wrapped: bool = False
    is_batchedtensor: bool = False
    is_legacy_batchedtensor: bool = False
    is_gradtrackingtensor: bool = False
    is_view: bool = False
    is_nested: bool = False
    nested_int: int | None = None
    is_traceable_wrapper_subclass: bool = False
    is_functional: bool = False
    is_conj: bool = False
    is_neg: bool = False
    is_parameter: bool = False
    stride: tuple[int, ...] | None = None
    storage_offset: int = 0
    storage: MetaStorageDesc | None = None
    base: MetaTensorDesc | None = None
    attrs: dict[str, MetaTensorDesc] | None = None
    creation_meta: CreationMeta | None = None
    grad: MetaTensorDesc | None = None
    ctx: object | None = None
    type: type | None = None
    fake_mode: object | None = None
    view_func: ViewFunc | None = None
    data: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Another name of ``size``."""
        return self.size

    def as_json(self, describer_id: int) -> dict[str, object]:
        """The fields that say more than their defaults; what was described before, by its number.

        differs: a view function is told by the geometry it makes.
        """
        found: dict[str, object] = {}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if f.name == "dynamo_dynamic_indices" and not value:
                continue
            if f.name != "data" and value is not f.default and value != f.default:
                found[f.name] = _plain(value)
        if self.data is not None:
            found["data"] = None
        return {**found, "describer_id": describer_id}


_AS_WRITTEN = (bool, int, float, str)


def _plain(value: object) -> object:
    if isinstance(value, MetaTensorDesc | MetaStorageDesc):
        return value.id
    if isinstance(value, CreationMeta):
        return str(value)
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value if isinstance(value, _AS_WRITTEN) else repr(value)


def safe_is_leaf(t: Tensor | MetaTensorDesc) -> bool:
    """Whether a tensor, or one described, is a leaf; False where that cannot be told."""
    try:
        return t.is_leaf
    except RuntimeError:
        return False


def safe_grad(t: Tensor | MetaTensorDesc) -> Tensor | MetaTensorDesc | None:
    """The gradient of a tensor, or of one described; None, without a warning, for a non-leaf."""
    return t.grad


class _Wrapper(Protocol):
    def __tensor_flatten__(self) -> tuple[list[str], object]: ...


class MetaTensorDescriber:
    """Describes tensors, numbering them and their storages from 0.

    copy_data: let descriptions keep the tensors and storages themselves.
    """

    def __init__(self, *, copy_data: bool = False) -> None:
        self.id = next(_describers)
        self.copy_data = copy_data
        self.lookup_tensor: Numbers[Tensor] = Numbers()
        self.lookup_storage: Numbers[UntypedStorage] = Numbers()
        self._traced: set[tuple[str, int]] = set()

    def get_tensor_id(self, t: Tensor) -> int:
        """The number of a tensor object."""
        return self.lookup_tensor.of(t)

    def get_storage_id(self, s: UntypedStorage) -> int:
        """The number of a storage."""
        return self.lookup_storage.of(s)

    def describe_storage(self, s: UntypedStorage, *, trace: bool = False) -> MetaStorageDesc:
        """The description of a storage; trace: log it, the first time."""
        described = MetaStorageDesc(
            self.get_storage_id(s), s.nbytes(), s if self.copy_data else None
        )
        if trace:
            self._trace("describe_storage", described)
        return described

    def describe_tensor(
        self, t: Tensor, *, recurse: bool = True, trace: bool = False
    ) -> MetaTensorDesc:
        """The description of a tensor; trace: log it, and what belongs to it, the first time.

        recurse: describe the base of a view too. A tensor of a layout that is not strided has
        neither storage nor strides; its parts are not described yet.
        """
        meta = t.meta
        dense = meta.layout is strided
        base = None
        if recurse and t._base is not None:
            base = self.describe_tensor(t._base, trace=trace)
        grad = t.grad
        wraps = is_traceable_wrapper_subclass(t)
        described = MetaTensorDesc(
            id=self.get_tensor_id(t),
            ndim=meta.ndim,
            dtype=meta.dtype,
            device=meta.device,
            size=tuple(meta.shape),
            dynamo_dynamic_indices=list(getattr(t, "_dynamo_dynamic_indices", ())),
            dynamo_hint_overrides=dict(getattr(t, "_dynamo_hint_overrides", {})),
            layout=meta.layout,
            is_inference=t.is_inference(),
            is_leaf=safe_is_leaf(t),
            requires_grad=t.requires_grad,
            is_sparse=meta.layout is sparse_coo,
            is_view=t._is_view(),
            is_traceable_wrapper_subclass=wraps,
            is_conj=t.is_conj(),
            is_neg=t.is_neg(),
            is_parameter=t._is_param,
            stride=tuple(meta.strides) if dense else None,
            storage_offset=meta.offset if dense else 0,
            storage=self.describe_storage(t._storage, trace=trace) if dense else None,
            base=base,
            attrs=self._attributes(t, trace=trace) if wraps else None,
            creation_meta=_creation_of(t),
            grad=None if grad is None else self.describe_tensor(grad, trace=trace),
            ctx=cast(_Wrapper, t).__tensor_flatten__()[1] if wraps else None,
            type=type(t) if wraps else None,
            fake_mode=t.fake_mode,
            view_func=ViewFunc.from_tensor(t),
            data=t if self.copy_data else None,
        )
        if trace:
            self._trace("describe_tensor", described)
        return described

    def trace_source(self, described: MetaTensorDesc, source: object) -> None:
        """Log that a described tensor is what ``source`` names."""
        told = {"describer_id": self.id, "id": described.id, "source": str(source)}
        _log.debug("describe_source %s", json.dumps(told))

    def _attributes(self, t: Tensor, *, trace: bool) -> dict[str, MetaTensorDesc]:
        found: dict[str, MetaTensorDesc] = {}
        for name in cast(_Wrapper, t).__tensor_flatten__()[0]:
            inner = getattr(t, name)
            assert isinstance(inner, Tensor), (
                f"{type(t).__name__}.__tensor_flatten__ names {name!r}, which is of type "
                f"{type(inner).__name__}, no tensor"
            )
            found[name] = self.describe_tensor(inner, trace=trace)
        return found

    def _trace(self, what: str, described: MetaTensorDesc | MetaStorageDesc) -> None:
        if (what, described.id) not in self._traced:
            self._traced.add((what, described.id))
            _log.debug("%s %s", what, json.dumps(described.as_json(self.id)))


def _creation_of(t: Tensor) -> CreationMeta | None:
    if not t._is_view():
        return None
    return CreationMeta("" if t._ag is None else t._ag.creation_meta)
