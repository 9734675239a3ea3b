"""The kernel at ADInplaceOrView: views are linked to their base, writes are counted.

Both facts are read off the schema, so they hold for every operator, a user's too. Below this key
nothing knows of versions or bases. Also here: the choice of a backend for operators that take a
``device`` (BackendSelect).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maquette.core.device import canonical, device
from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload, fall_through, set_fallback
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import ADINPLACE, AutogradMeta, Tensor, keys_for_device

BELOW = ~ADINPLACE
# Aliases that PyTorch does not call views (T18): they share storage and version, and have no base.
_NO_BASE = frozenset(("aten::detach", "aten::view.dtype", "aten::lift_fresh", "aten::lift"))


def alias_kernel(op: OpOverload, ks: int) -> Callable[..., object] | None:
    """The kernel at ADInplaceOrView: None (fall through) for operators without aliases."""
    arguments = op._schema.arguments
    written = [i for i, a in enumerate(arguments) if a.is_write]
    if written:
        return _writing(op, written)
    sources = [i for i, a in enumerate(arguments) if a.alias_info is not None]
    if len(sources) == 1:
        return _viewing(op, sources[0], base=op.name() not in _NO_BASE)
    return None


def _viewing(op: OpOverload, source: int, *, base: bool) -> Callable[..., object]:
    table, resolve = op._table, op.resolve

    def kernel(ks: int, *params: object) -> object:
        below = ks & BELOW
        result = (table.get(below) or resolve(below))(below, *params)
        origin = params[source]
        if result.__class__ is list or result.__class__ is tuple:
            for view in result:  # type: ignore[attr-defined]  # a list, by the line above
                _link(view, origin, base)
                if not tls.st.grad_enabled or origin._keys & K.REQUIRES_GRAD:  # type: ignore[attr-defined]  # a tensor
                    _created(view, "MULTI_OUTPUT_NODE")
        else:
            _link(result, origin, base)
        return result

    return kernel


def _link(view: object, origin: object, base: bool) -> None:
    if view is origin or not isinstance(view, Tensor) or not isinstance(origin, Tensor):
        return
    if view._storage is not origin._storage:
        return
    vc = origin._vc
    view._vc = origin._version_counter() if vc is None else vc
    if base:
        view._base = origin if origin._base is None else origin._base
        if origin._keys & K.REQUIRES_GRAD and not tls.st.grad_enabled:
            _created(view, "NO_GRAD_MODE")


def _created(view: object, how: str) -> None:
    if isinstance(view, Tensor):
        if view._ag is None:
            view._ag = AutogradMeta()
        view._ag.creation_meta = how


def _writing(op: OpOverload, written: Sequence[int]) -> Callable[..., object]:
    table, resolve = op._table, op.resolve
    only = written[0] if len(written) == 1 else -1

    def kernel(ks: int, *params: object) -> object:
        below = ks & BELOW
        if len(params) > 1:
            check_overlap(op, params, written)
        result = (table.get(below) or resolve(below))(below, *params)
        if only >= 0 and params[only].__class__ is not tuple:
            _bump(params[only])
        else:
            for i in written:
                p = params[i]
                for t in p if p.__class__ is tuple else (p,):  # type: ignore[attr-defined]  # a tuple
                    _bump(t)
        return result

    return kernel


def _bump(t: object) -> None:
    if isinstance(t, Tensor):
        vc = t._vc
        if vc is None:
            vc = t._version_counter()
        vc.value += 1


def check_overlap(op: OpOverload, params: Sequence[object], written: Sequence[int]) -> None:
    """Refuse a write into memory that another argument reads in part (T41)."""
    for i in written:
        target = params[i]
        if not isinstance(target, Tensor):
            continue
        for j, other in enumerate(params):
            if j != i and isinstance(other, Tensor) and other._storage is target._storage:
                _check_pair(op, target, other)


def _check_pair(op: OpOverload, target: Tensor, other: Tensor) -> None:
    a, b = target.meta, other.meta
    if a is b or not (a.is_dense and b.is_dense) or a.numel == 0 or b.numel == 0:
        return
    begin_a, end_a = a.offset * a.itemsize, (a.offset + a.numel) * a.itemsize
    begin_b, end_b = b.offset * b.itemsize, (b.offset + b.numel) * b.itemsize
    if end_a <= begin_b or end_b <= begin_a:
        return
    if (begin_a, end_a, a.strides) == (begin_b, end_b, b.strides):
        return
    if op._opname in _OVERLAP_ALLOWED:
        return
    raise RuntimeError(
        f"{op._opname}: unsupported operation: some elements of the input tensor and the written-to "
        f"tensor refer to a single memory location. Please clone() the tensor before performing the "
        f"operation. Written: {a} at offset {a.offset}, read: {b} at offset {b.offset}."
    )


_OVERLAP_ALLOWED = frozenset(("set_", "resize_as_", "as_strided_", "t_", "transpose_"))


def backend_select(op: OpOverload, ks: int) -> Callable[..., object] | None:
    """Choose the backend by the ``device`` argument, where the operator has one."""
    arguments = op._schema.arguments
    at = next((i for i, a in enumerate(arguments) if a.type.written in ("Device?", "Device")), -1)
    has_tensor = any(a.type.written.startswith("Tensor") for a in arguments)
    # A user's operator with tensors is dispatched by them, whatever its device argument means.
    if at < 0 or (has_tensor and op.namespace != "aten"):
        return None
    select = K.functionality_bits(DispatchKey.BackendSelect)

    def kernel(ks: int, *params: object) -> object:
        below = ks & ~select
        where = params[at]
        if where is None and not has_tensor:
            where = _CPU
        if isinstance(where, device):
            where = canonical(where)
            params = (*params[:at], where, *params[at + 1 :])
            below = (below & ~0xFFFF) | keys_for_device(where)
        return op.run(below, params)

    return kernel


_CPU = device("cpu")

for _key in K.runtime_keys(K.VISIBLE):
    if _key is DispatchKey.ADInplaceOrView:
        set_fallback(_key, alias_kernel)
    elif _key is DispatchKey.BackendSelect:
        set_fallback(_key, backend_select)
    elif _key.name.startswith("Autocast") or _key.name in (
        "PreDispatch",
        "PythonDispatcher",
        "Tracer",
    ):
        set_fallback(_key, fall_through)
