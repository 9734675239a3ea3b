"""Kernels of operators for sparse tensors: by operators on the parts, at the layouts' keys.

`for_coo`, `for_compressed` and `for_sparse` register a function of tensors, which gets all schema
parameters in schema order, at ``SparseCPU``, ``SparseCsrCPU`` and their likes for each device. It
runs below autograd. Forms that write are derived from it. Where there is no data (fake and meta
tensors) operands specify nothing, so that every number of elements is known: it is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numpy as np

from maquette.core.dtype import from_numpy_dtype
from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.core.promotion import can_cast
from maquette.dispatch import keysets as K
from maquette.dispatch.forms import returns_of
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import find_packet
from maquette.dispatch.tls import tls
from maquette.library.arrays import arrays_of, backend_at, fresh_from
from maquette.library.data_dependent import self_describing
from maquette.library.page import OperatorPage, set_shape_rule
from maquette.tensor.arrays import Array
from maquette.tensor.backend import run_kernel
from maquette.tensor.keys import ADINPLACE, inference_keys, keys_for
from maquette.tensor.sparse import SPARSE_LAYOUTS, SparseStorage, emptied, parts_of, set_parts
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor, wrap

F = TypeVar("F", bound=Callable[..., Any])
_DEVICES = ("CPU", "CUDA", "Meta")
COO_KEYS = tuple(K.key_parse(f"Sparse{name}") for name in _DEVICES)
COMPRESSED_KEYS = tuple(K.key_parse(f"SparseCsr{name}") for name in _DEVICES)
_META = K.key_bits(DispatchKey.Meta) & K.BACKENDS
_ABOVE = K.AUTOGRAD | ADINPLACE


def overload(name: str) -> OpOverload:
    """The overload ``name`` or ``name.overload``, of aten unless a namespace stands before it."""
    base, _, which = name.partition(".")
    base = base if "::" in base else f"aten::{base}"
    packet = find_packet(base)
    assert packet is not None, f"there is no operator {base}"
    return cast(OpOverload, getattr(packet, which or "default"))


def for_coo(*names: str) -> Callable[[F], F]:
    """Register the kernel for COO tensors of these aten overloads, and of the forms that write."""
    return _registering(names, COO_KEYS)


def for_compressed(*names: str) -> Callable[[F], F]:
    """`for_coo` for CSR, CSC, BSR and BSC tensors."""
    return _registering(names, COMPRESSED_KEYS)


def for_sparse(*names: str) -> Callable[[F], F]:
    """`for_coo` for all sparse layouts."""
    return _registering(names, COO_KEYS + COMPRESSED_KEYS)


def _registering(names: tuple[str, ...], keys: tuple[DispatchKey, ...]) -> Callable[[F], F]:
    def register(function: F) -> F:
        for name in names:
            op = overload(name)
            op.register_for_good(keys, _kernel(function))
            for form in _writing_forms(op):
                if not form._kernels.get(keys[0]):
                    form.register_for_good(keys, _kernel(_writing(form, function)))
        return function

    return register


def _kernel(function: Callable[..., object]) -> Kernel:
    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        without_data = bool(ks & _META)

        def kernel(ks: int, *params: object) -> object:
            if without_data:
                params = specifying_nothing(op, params)
            # `AutoDispatchBelowADInplaceOrView`, written out: 2.4 us of a kernel's 7 less.
            st = tls.st
            added = _ABOVE & ~st.exclude
            if not added:
                return function(*params)
            st.add_exclude(added)
            try:
                return function(*params)
            finally:
                st.drop_exclude(added)

        return kernel

    return Kernel(factory, python=function, speaks_operators=True)


def specifying_nothing(op: OpOverload, params: tuple[object, ...]) -> tuple[object, ...]:
    """The parameters of a call where there is no data; views and what is written stay."""
    returns = op._schema.returns
    if any(kind != "fresh" for kind, _ in returns_of(op)) or not any(
        r.type.written.startswith("Tensor") for r in returns
    ):
        return params
    return tuple([_emptied(p) for p in params])


def _emptied(p: object) -> object:
    if isinstance(p, Tensor):
        return emptied(p) if p.meta.layout in SPARSE_LAYOUTS else p
    return tuple([_emptied(i) for i in p]) if p.__class__ is tuple else p


# --- forms that write ------------------------------------------------------------------------


def _writing_forms(op: OpOverload) -> Iterator[OpOverload]:
    """The in-place and ``out=`` forms that a page derived from a functional overload."""
    for form in op.facts.overloads:
        if form.functional_link is op:
            yield form


def _writing(form: OpOverload, function: Callable[..., object]) -> Callable[..., object]:
    """The kernel of a form that gives what ``function`` gives to one argument."""
    arguments = form._schema.arguments
    outs = [i for i, a in enumerate(arguments) if a.is_out]

    needs_coalesced = getattr(function, "needs_coalesced", False)

    def in_place(*params: Any) -> object:
        if needs_coalesced and not getattr(parts_of(params[0]), "coalesced", True):
            raise RuntimeError(f"{form._opname} requires coalesced input")
        return become(form, params[0], function(*params))

    def out(*params: Any) -> object:
        result = function(*[p for i, p in enumerate(params) if i not in outs])
        return become(form, params[outs[0]], result)

    return out if outs else in_place


def become(op: OpOverload, target: Tensor, result: object) -> Tensor:
    """Write a result: into the values where indices are the same, else as new parts.

    Raises RuntimeError where the dtype cannot be cast to the target's, or the layouts differ.
    """
    assert isinstance(result, Tensor)
    to, given = target.meta, result.meta
    if not can_cast(given.dtype, to.dtype):
        raise RuntimeError(
            f"{op._opname}: result type {given.dtype.scalar_name} can't be cast to the desired "
            f"output type {to.dtype.scalar_name}"
        )
    if given.layout is strided and to.layout is strided:
        return target.copy_(result)
    if to.layout is strided:
        return target.copy_(result.to_dense())
    if given.layout is not to.layout:
        raise RuntimeError(
            f"{op._opname}: a result of layout {given.layout} cannot be written to {to} of layout "
            f"{to.layout}"
        )
    if given.shape != to.shape:
        if not any(a.is_out for a in op._schema.arguments):
            raise RuntimeError(
                f"{op._opname}: output with shape {list(to.shape)} doesn't match the broadcast "
                f"shape {list(given.shape)}"
            )
        target.meta = given.with_dtype(to.dtype)
    old, new = parts_of(target), parts_of(result)
    if old[0] is new[0] and old.values.meta.shape == new.values.meta.shape:
        if old.values is not new.values:
            old.values.copy_(new.values)
    else:
        set_parts(target, new._replace(values=new.values.to(to.dtype)))
    return target


# --- what only data can count ----------------------------------------------------------------


def counting_nothing(page: OperatorPage, rule: Callable[..., object]) -> Callable[[F], F]:
    """Register the array kernel of an operator whose results say their own sizes.

    rule: its shape rule where there is no data, by which nothing is found.
    """
    set_shape_rule(page.op, rule)

    def register(function: F) -> F:
        page.facts.kernel = function
        page.op.register_for_good((DispatchKey.CPU, DispatchKey.CUDA), _counted(function))
        return function

    return register


def _counted(function: Callable[..., Any]) -> Kernel:
    """`self_describing`; on NumPy's arrays, without what only views and other devices need.

    14 us less for two results (timeit, CPython 3.11).
    """
    anywhere = self_describing(function, None, None)

    def factory(op: OpOverload, ks: int) -> Callable[..., object] | None:
        backend = backend_at(ks)
        if backend is None or backend.array_type is not np.ndarray:
            return anywhere.factory(op, ks)
        quiet, xp = backend.runner, backend.namespace

        def kernel(ks: int, *params: object) -> object:
            arrays = arrays_of(params)
            results = run_kernel(quiet, function, xp, *arrays)
            if results.__class__ is tuple:
                return tuple([_tensor_of(op, a, arrays) for a in cast("tuple[Array]", results)])
            return _tensor_of(op, cast(Array, results), arrays)

        return kernel

    return Kernel(factory, python=function)


def _tensor_of(op: OpOverload, array: Array, operands: list[object]) -> Tensor:
    """A contiguous tensor of an array that a kernel gives; copied where others hold its memory."""
    meta = TensorMeta.of(from_numpy_dtype(array.dtype), array.shape)
    given = False
    for a in operands:
        given |= a is array
    if given or array.base is not None or not array.flags.c_contiguous:
        return fresh_from(op, meta, array)
    keys = inference_keys(meta) if tls.st.inference else keys_for(meta)
    return wrap(meta, UntypedStorage(array.nbytes, meta.device, array), array, keys)


__all__ = [
    "SparseStorage",
    "become",
    "counting_nothing",
    "for_coo",
    "for_compressed",
    "for_sparse",
    "overload",
    "specifying_nothing",
]
