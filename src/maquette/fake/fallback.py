"""What serves an operator without any rule: the trivial rule, else its real kernel on zeros.

The trivial rule (F92) is for users' operators whose schema says all there is to say. The fallback
(F94, F95) allocates and runs for real, so it is only for operators that ship with a library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.fake.constants import running_for_real
from maquette.fake.exceptions import UnsupportedOperatorException
from maquette.fake.mode import FakeTensorMode, arguments_in_one_mode
from maquette.fake.tensor import tensors_in
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators

BUILTIN = frozenset({"aten", "prims", "prim"})
# Namespaces of libraries whose kernels are known to stand zeros.
RUNS_ON_ZEROS = BUILTIN | {"debugprims", "quantized", "torchaudio", "torchtext", "vision"}
_SPARSE = K.functionality_bits(DispatchKey.Sparse) | K.functionality_bits(DispatchKey.SparseCsr)


def without_rule(op: OpOverload) -> Callable[..., object]:
    """The kernel at Fake of an operator that has neither shape rule nor decomposition."""

    def kernel(ks: int, *params: object) -> object:
        mode, given = arguments_in_one_mode(op, params)
        if op.namespace not in BUILTIN and _is_trivial(op):
            return _trivial_result(op, given)
        if not _may_run(op, mode, given):
            raise UnsupportedOperatorException(op)
        return _run_on_zeros(op, mode, given)

    return kernel


def _is_trivial(op: OpOverload) -> bool:
    if Tag.out in op.tags or Tag.inplace in op.tags:
        return True
    return not op._schema.returns and any(a.is_write for a in op._schema.arguments)


def _trivial_result(op: OpOverload, params: Sequence[object]) -> object:
    """None, the out arguments or the first argument, as the schema has it."""
    if not op._schema.returns:
        return None
    if Tag.inplace in op.tags:
        return params[0]
    pairs = zip(op._schema.arguments, params, strict=True)
    outs = tuple([p for a, p in pairs if a.is_write and a.kwarg_only])
    return outs[0] if len(outs) == 1 else outs


def _may_run(op: OpOverload, mode: FakeTensorMode, params: Sequence[object]) -> bool:
    if not mode.allow_fallback_kernels or op.namespace not in RUNS_ON_ZEROS:
        return False
    if Tag.inplace_view in op.tags or not any(k in op._kernels for k in _REAL):
        return False
    return not any(t.meta.is_symbolic for t in tensors_in(params)) and not any(
        hasattr(i, "node") for p in params for i in (p if isinstance(p, tuple) else (p,))
    )


# An operator that has no kernel for a real device has nothing to run.
_REAL = (
    DispatchKey.CPU,
    DispatchKey.CUDA,
    DispatchKey.CompositeExplicitAutograd,
    DispatchKey.CompositeImplicitAutograd,
)


def _run_on_zeros(op: OpOverload, mode: FakeTensorMode, params: Sequence[object]) -> object:
    with running_for_real():
        zeros = [_zeros(p) for p in params]
        schema = op._schema.arguments
        pairs = list(zip(schema, zeros, strict=True))
        real = op.call_slow(
            tuple([z for a, z in pairs if not a.kwarg_only]),
            {a.name: z for a, z in pairs if a.kwarg_only},
        )
    fakes = {id(z): f for z, f in zip(tensors_in(zeros), tensors_in(params), strict=True)}
    storages = {id(z._storage) for z in tensors_in(zeros) if not z._keys & _SPARSE}
    for out in _new(real, fakes):
        if not out._keys & _SPARSE and id(out._storage) in storages:
            raise UnsupportedOperatorException(op)
    return _as_fakes(real, mode, fakes)


def _new(real: object, fakes: dict[int, Tensor]) -> Iterator[Tensor]:
    return (t for t in tensors_in((real,)) if id(t) not in fakes)


def _zeros(p: object) -> object:
    """A real tensor of zeros that lies as the fake does; in lists too; other values as given."""
    if isinstance(p, Tensor):
        meta = p.meta
        made = operators.empty_strided(
            meta.shape, meta.strides, dtype=meta.dtype, device=meta.device
        )
        return cast(Tensor, operators.zero_(made))
    return [_zeros(i) for i in p] if isinstance(p, tuple) else p


def _as_fakes(real: object, mode: FakeTensorMode, fakes: dict[int, Tensor]) -> object:
    if isinstance(real, Tensor):
        known = fakes.get(id(real))
        return mode.from_tensor(real) if known is None else known
    if isinstance(real, (tuple, list)):
        return type(real)([_as_fakes(r, mode, fakes) for r in real])
    return real
