"""Refusing writes to memory that the same call reads (T41), for operators that allow no overlap.

Most operators may write over an operand that lies exactly where the result goes; those registered
here may not, since they read it in another order than they write.
"""

from __future__ import annotations

from collections.abc import Callable

from maquette.core.meta import TensorMeta
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.library.infer import lookup
from maquette.library.page import OperatorPage
from maquette.library.variants import check_writable
from maquette.tensor.aliasing import alias_kernel
from maquette.tensor.tensor import Tensor


def refuse_overlap(page: OperatorPage | OpOverload, *names: str) -> None:
    """Refuse a call whose written tensor overlaps itself or one of the parameters ``names``."""
    target_op = page.op if isinstance(page, OperatorPage) else page
    arguments = target_op._schema.arguments
    target = next(i for i, a in enumerate(arguments) if a.is_write)
    read = [i for i, a in enumerate(arguments) if a.name in names]

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        below = alias_kernel(op, ks)
        assert below is not None

        def kernel(ks: int, *params: object) -> object:
            written = params[target]
            assert isinstance(written, Tensor)
            check_writable(op._opname, written.meta)
            geometry = written.meta
            if op.shape_rule is not None:
                # The tensor may be resized first: what counts is where it will then lie.
                value = lookup(op, params).value
                geometry = value if isinstance(value, TensorMeta) else geometry
            for i in read:
                _check(op, written, geometry, params[i])
            return below(ks, *params)

        return kernel

    target_op.register(DispatchKey.ADInplaceOrView, Kernel(factory))


def _check(op: OpOverload, target: Tensor, geometry: TensorMeta, read: object) -> None:
    for other in read if isinstance(read, tuple) else (read,):
        if not isinstance(other, Tensor) or other._storage is not target._storage:
            continue
        if _meet(geometry, other.meta):
            raise RuntimeError(
                f"{op._opname}: unsupported operation: some elements of the input tensor and the "
                f"written-to tensor refer to a single memory location. Please clone() the tensor "
                f"before performing the operation. Written: {target.meta}, read: {other.meta}."
            )


def _meet(a: TensorMeta, b: TensorMeta) -> bool:
    """Whether the bytes from first to last element of two dense geometries meet."""
    if not a.numel or not b.numel:
        return False
    if a is b:
        return True
    if not (a.is_dense and b.is_dense):
        return False
    return a.offset * a.itemsize < b.storage_bytes and b.offset * b.itemsize < a.storage_bytes
