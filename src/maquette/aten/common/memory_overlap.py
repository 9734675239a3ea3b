"""Refusing writes to memory that the same call reads (T41), for operators that allow no overlap.

Most operators may write over an operand that lies exactly where the result goes; those registered
here may not, since they read it in another order than they write.
"""

from __future__ import annotations

from collections.abc import Callable

from maquette.core.meta import TensorMeta
from maquette.core.warned import warn
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.library.advice import advised
from maquette.library.infer import lookup
from maquette.library.page import OperatorPage
from maquette.library.variants import check_writable
from maquette.tensor.aliasing import alias_kernel
from maquette.tensor.backend import Array
from maquette.tensor.tensor import Tensor


def warn_of_expanded(name: str, target: Array) -> None:
    """Warn of a mutation of an expanded tensor, where PyTorch still allows it."""
    strides = getattr(target, "strides", ())
    if 0 not in strides or 0 in target.shape:  # NumPy's empty arrays have strides of 0
        return
    if any(s == 0 and n > 1 for s, n in zip(strides, target.shape, strict=True)):
        warn(
            f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before "
            f"performing this operation. This also applies to advanced indexing e.g. "
            f"tensor[mask] = scalar"
        )


def refuse_overlap(
    page: OperatorPage | OpOverload,
    *names: str,
    unless: Callable[..., bool] | None = None,
    let_expanded: bool = False,
) -> None:
    """Refuse a call that writes to a tensor over itself or over one of the parameters ``names``.

    unless: asked with all parameters whether the call may do so this time. let_expanded: what is
    written may be an expanded tensor.
    """
    target_op = page if isinstance(page, OpOverload) else page.op

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        arguments = op._schema.arguments
        targets = [i for i, a in enumerate(arguments) if a.is_write]
        read = [i for i, a in enumerate(arguments) if a.name in names]
        below = alias_kernel(op, ks)
        assert below is not None

        def kernel(ks: int, *params: object) -> object:
            if unless is not None and unless(*params):
                return below(ks, *params)
            written = [params[i] for i in targets]
            if not let_expanded:
                _check_writable(op, written)
            if not _share(written, [params[i] for i in read]):
                return below(ks, *params)  # where nothing meets, nobody need know how it lies
            for target, geometry in zip(written, _geometries(op, params, written), strict=True):
                for i in read:
                    _check(op, target, geometry, params[i])
            return below(ks, *params)

        return kernel

    target_op.register(DispatchKey.ADInplaceOrView, Kernel(factory))


def _check_writable(op: OpOverload, written: list[object]) -> None:
    for target in written:
        assert isinstance(target, Tensor)
        check_writable(op._opname, target.meta)


def _share(written: list[object], read: list[object]) -> bool:
    """Whether a tensor that is read, or a member of a list of them, is over written memory."""
    storages = [target._storage for target in written]  # type: ignore[attr-defined]  # tensors
    for other in read:
        for t in other if isinstance(other, tuple) else (other,):
            if isinstance(t, Tensor) and t._storage in storages:
                return True
    return False


def _geometries(
    op: OpOverload, params: tuple[object, ...], written: list[object]
) -> list[TensorMeta]:
    """Where the written tensors lie when they are written: an ``out=`` may be resized first."""
    if op.shape_rule is None:
        return [target.meta for target in written if isinstance(target, Tensor)]
    value = lookup(op, params).value
    metas = [value] if isinstance(value, TensorMeta) else value
    return [meta for meta in metas if isinstance(meta, TensorMeta)]  # type: ignore[attr-defined]  # a tuple of metas, by the schema


def _check(op: OpOverload, target: object, geometry: TensorMeta, read: object) -> None:
    assert isinstance(target, Tensor)
    for other in read if isinstance(read, tuple) else (read,):
        if not isinstance(other, Tensor) or other._storage is not target._storage:
            continue
        same = other is target and (other.numel() or geometry.numel)
        if same or _meet(geometry, other.meta):
            error = RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before "
                "performing the operation."
            )
            raise advised(error, f"{op._opname} writes to {target.meta} and reads {other.meta}.")


def _meet(a: TensorMeta, b: TensorMeta) -> bool:
    """Whether the bytes from first to last element of two dense geometries meet."""
    if not a.numel or not b.numel:
        return False
    if a is b:
        return True
    if not (a.is_dense and b.is_dense):
        return False
    return a.offset * a.itemsize < b.storage_bytes and b.offset * b.itemsize < a.storage_bytes
