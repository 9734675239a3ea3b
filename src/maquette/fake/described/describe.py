"""What a tensor is like, as plain values: descriptions from which another can be made like it.

A `MetaTensorDescriber` numbers tensors and storages by identity and describes them; a description
holds the numbers of what it is about, never the tensor (unless it is asked to keep data). Making
tensors like the described ones is `meta_converter.py`.
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
from typing import Any, Generic, Protocol, TypeVar, cast

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout, mkldnn, sparse_coo, strided
from maquette.core.meta import TensorMeta
from maquette.dispatch.subclasses import is_traceable_wrapper_subclass
from maquette.fake.kinds import counts_as_inference, safe_is_leaf
from maquette.tensor.nested_ints import nested_int_of
from maquette.tensor.sparse import BY_ROWS, SPARSE_LAYOUTS, coo_parts, sparse_dims
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor
from maquette.transforms.functional.wrapper import FunctionalWrapper
from maquette.transforms.interpreter import stack, top
from maquette.transforms.wrappers import BatchedTensor, DualTensor, GradTrackingTensor, Wrapper

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


Visit = Callable[[int], int]


class ViewFunc:
    """How a view is laid over its root: applied to another root, it gives the like view of that.

    differs: PyTorch replays the chain of operators; a dense view is told by its geometry, so
    every size, stride and offset is shown to the visitor, and no tensor is.
    """

    @staticmethod
    def from_tensor(t: Tensor) -> ViewFunc:
        """The function that makes ``t`` of its root; of a fake it is stateless."""
        return _FakeTensorViewFunc() if t.fake_mode is not None else _CustomViewFunc(t.meta)

    def apply(
        self,
        t: Tensor,
        new_base: Tensor,
        symint_visitor_fn: Visit | None = None,
        tensor_visitor_fn: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """The view of ``new_base``; symint_visitor_fn may replace each size, stride and offset.

        There is no tensor but the root, so tensor_visitor_fn is never called.
        """
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True)
class _FakeTensorViewFunc(ViewFunc):
    """Replays the view that ``apply`` is given."""

    def apply(
        self,
        t: Tensor,
        new_base: Tensor,
        symint_visitor_fn: Visit | None = None,
        tensor_visitor_fn: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        return replayed(t.meta, new_base, symint_visitor_fn)


@dataclass(frozen=True)
class _CustomViewFunc(ViewFunc):
    """Replays the view that it was made from."""

    func: TensorMeta

    def apply(
        self,
        t: Tensor,
        new_base: Tensor,
        symint_visitor_fn: Visit | None = None,
        tensor_visitor_fn: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        return replayed(self.func, new_base, symint_visitor_fn)


def replayed(meta: TensorMeta, root: Tensor, visitor: Visit | None) -> Tensor:
    """A view of a root with this geometry; whether it fits the root's memory is not checked."""
    visit = visitor or (lambda number: number)
    shape, strides = tuple(map(visit, meta.shape)), tuple(map(visit, meta.strides))
    of_root = root if meta.dtype is root.dtype else root.view(meta.dtype)
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
    sparse_dim: int | None = None
    dense_dim: int | None = None
    is_coalesced: bool | None = None
    crow_indices: MetaTensorDesc | None = None
    col_indices: MetaTensorDesc | None = None
    ccol_indices: MetaTensorDesc | None = None
    row_indices: MetaTensorDesc | None = None
    values: MetaTensorDesc | None = None
    unwrapped: MetaTensorDesc | None = None
    bdim: int | None = None
    base: MetaTensorDesc | None = None
    attrs: dict[str, MetaTensorDesc] | None = None
    opaque_attrs: dict[str, object] | None = None
    creation_meta: CreationMeta | None = None
    grad: MetaTensorDesc | None = None
    ctx: object | None = None
    type: type | None = None
    fake_mode: object | None = None
    view_func: ViewFunc | None = None
    level: int | None = None
    current_level: int | None = None
    functorch_stack: list[object] | None = None
    autograd_meta_from: Tensor | None = None
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
            if value is f.default or (f.name not in _NEVER_TOLD and value == f.default):
                continue
            if f.name in _NEVER_TOLD:
                found[f.name] = None
            else:
                found[f.name] = repr(value) if f.name in _BY_REPR else _plain(value)
        return {**found, "describer_id": describer_id}


_BY_REPR = frozenset(
    ("ctx", "type", "fake_mode", "view_func", "level", "current_level", "functorch_stack",
     "nested_int")
)  # fmt: skip
_NEVER_TOLD = ("data", "autograd_meta_from")
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


def safe_grad(t: Tensor | MetaTensorDesc) -> Tensor | MetaTensorDesc | None:
    """The gradient of a tensor, or of one described; None, without a warning, for a non-leaf."""
    if isinstance(t, MetaTensorDesc):
        return t.grad
    return None if t._ag is None else t._ag.grad


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

        recurse: describe the base of a view, and the parts of a compressed tensor, too. A tensor
        without memory of its own (sparse, of a function transform) has no storage; a sparse one has
        no strides either.
        """
        number = self.get_tensor_id(t)  # before those of what belongs to it
        meta = t.meta
        sparse = meta.layout in SPARSE_LAYOUTS
        wrapped = isinstance(t, Wrapper) and not isinstance(t, FunctionalWrapper)
        wraps = is_traceable_wrapper_subclass(t)
        rows = t.is_nested and not wraps  # of the strided layout
        stored = not (sparse or wrapped or rows or meta.layout is mkldnn)

        def inner(other: Tensor) -> MetaTensorDesc:
            return self.describe_tensor(other, trace=trace)

        grad = safe_grad(t)
        described = MetaTensorDesc(
            id=number,
            ndim=meta.ndim,
            dtype=meta.dtype,
            device=meta.device,
            size=tuple(meta.shape),
            dynamo_dynamic_indices=list(getattr(t, "_dynamo_dynamic_indices", ())),
            dynamo_hint_overrides=dict(getattr(t, "_dynamo_hint_overrides", {})),
            layout=meta.layout,
            is_inference=counts_as_inference(t),
            is_leaf=safe_is_leaf(t),
            requires_grad=t.requires_grad,
            is_sparse=meta.layout is sparse_coo,
            is_mkldnn=meta.layout is mkldnn,
            is_functorch_wrapped=wrapped,
            is_batchedtensor=isinstance(t, BatchedTensor),
            is_gradtrackingtensor=isinstance(t, (GradTrackingTensor, DualTensor)),
            is_view=t._is_view(),
            is_nested=t.is_nested,
            nested_int=nested_int_of(t),
            is_traceable_wrapper_subclass=wraps,
            is_functional=isinstance(t, FunctionalWrapper),
            is_conj=t.is_conj(),
            is_neg=t.is_neg(),
            is_parameter=t._is_param,
            stride=None if sparse or rows else tuple(meta.strides),
            storage_offset=meta.offset if stored else 0,
            storage=self.describe_storage(t._storage, trace=trace) if stored else None,
            base=inner(t._base) if recurse and t._base is not None else None,
            attrs=self._attributes(t, trace=trace) if wraps else None,
            creation_meta=_creation_of(t),
            grad=inner(grad) if isinstance(grad, Tensor) else None,
            ctx=cast(_Wrapper, t).__tensor_flatten__()[1] if wraps else None,
            type=type(t) if wraps else None,
            fake_mode=t.fake_mode,
            view_func=ViewFunc.from_tensor(t),
            data=t if self.copy_data else None,
            **self._of_layout(t, recurse=recurse, trace=trace),
            **self._of_transform(t, inner),
        )
        if trace:
            self._trace("describe_tensor", described)
        return described

    def _of_layout(self, t: Tensor, *, recurse: bool, trace: bool) -> dict[str, Any]:
        """What only sparse tensors have. Parts are described without what belongs to them."""
        if t.meta.layout not in SPARSE_LAYOUTS:
            return {}
        sparse, dense = sparse_dims(t)
        found: dict[str, Any] = {"sparse_dim": sparse, "dense_dim": dense}
        if t.meta.layout is sparse_coo:
            return {**found, "is_coalesced": coo_parts(t).coalesced}
        if recurse:
            by_rows = t.meta.layout in BY_ROWS
            names = ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices")
            for name in (*names, "values"):
                part = getattr(t, name)()
                found[name] = self.describe_tensor(part, recurse=False, trace=trace)
        return found

    def _of_transform(self, t: Tensor, inner: Callable[[Tensor], MetaTensorDesc]) -> dict[str, Any]:
        """What only tensors of function transforms, and functional tensors, have."""
        if not isinstance(t, Wrapper):
            return {}
        level = t._interpreter
        if isinstance(t, FunctionalWrapper):
            if t._steps:
                raise RuntimeError(f"a functional tensor that is a view cannot be described: {t}")
            value = inner(t.sync())
            current = top()
            if current is None:
                return {"unwrapped": value, "autograd_meta_from": t}
            return {"unwrapped": value, "current_level": current.number}
        found: dict[str, Any] = {
            "unwrapped": inner(t._value),
            "level": level.number if level.live else -2,
            "functorch_stack": list(stack()),
        }
        return {**found, "bdim": t._bdim} if isinstance(t, BatchedTensor) else found

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
