"""From tensors to plain arrays and back: how a page's array kernel serves a backend key.

A page's kernel is a function of arrays of a namespace ``xp``. The callable built here looks up the
shape rule's outcome (which validates the call), runs the kernel on the arrays of the tensors, and
lays the result out exactly as the outcome says. View operators need no kernel at all: their result
is the outcome's meta over the argument's storage.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from maquette.core.device import device
from maquette.core.dtype import float32, float64
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.ownership import held_only
from maquette.core.promotion import defaults
from maquette.core.remembered import EPOCH
from maquette.dispatch import keysets as K
from maquette.dispatch.call import NUMBERS
from maquette.dispatch.forms import Return, returns_of
from maquette.dispatch.generated import generate
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import find_packet
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.library.in_blocks import computed_in_blocks
from maquette.library.infer import (
    Outcome,
    key_function,
    key_source,
    lookup,
    metas_in,
    rule_argument,
)
from maquette.tensor.arrays import Array, NoArray, array_over
from maquette.tensor.backend import Backend, backend_of, known_backends, run_kernel
from maquette.tensor.keys import ADINPLACE, NOT_INHERITED, inference_keys, keys_for
from maquette.tensor.storage import MOVED, OBSERVERS, UntypedStorage, announce, nobody_watches
from maquette.tensor.tensor import Tensor, wrap
from maquette.tensor.up_to_date import relayout, resize_storage, up_to_date

_new = object.__new__
_CPU = device("cpu")
_DENSE = K.functionality_bits(DispatchKey.CPU)


def backend_at(ks: int) -> Backend | None:
    """The backend of a key set; None on ``meta``, where there is no data.

    Raises NotImplementedError where no array library holds data.
    """
    key = K.highest(ks & (K.BACKENDS | _DENSE))
    return None if key is DispatchKey.Meta else backend_of(_DEVICE_TYPES.get(key, "cpu"))


_DEVICE_TYPES = {K.key_parse(name): type_ for type_, name in K.BACKEND_OF_DEVICE.items()}


def backend_kernel(op: OpOverload, ks: int) -> Callable[..., object]:
    """The kernel at a backend's key: the array kernel on data, or metadata alone on ``meta``."""
    backend = backend_at(ks)
    if backend is None:
        return meta_kernel(op)
    if op.array_kernel is None:
        return _views_only(op)
    kinds = returns_of(op)
    if backend.array_type is not np.ndarray:
        return _elsewhere(op, kinds, backend)
    return _numpy_kernel(op, ks, kinds, backend)


def _numpy_kernel(
    op: OpOverload, ks: int, kinds: list[Return], backend: Backend
) -> Callable[..., object]:
    """The kernel on NumPy's arrays: generated for the common cases; `_general` is the oracle."""
    if kinds == [("fresh", -1)] and op._schema.returns[0].type.written == "Tensor":
        return _fast_single(op, ks, backend)
    if kinds == [("fresh", -1)] and op._schema.returns[0].type.written in _ANSWERS:
        return _fast_answer(op, backend)
    if len(kinds) == 1 and kinds[0][0] == "written":
        if op._schema.arguments[kinds[0][1]].type.written == "Tensor":
            return _fast_write(op, kinds, backend)
    types = [r.type.written for r in op._schema.returns]
    lists = [
        a for a in op._schema.arguments if a.type.written.startswith("Tensor") and a.type.is_list
    ]
    if len(kinds) > 1 and {*kinds} == {("fresh", -1)} and {*types} == {"Tensor"} and not lists:
        return _fast_several(op, backend)
    return _general(op, kinds, backend)


def _fast_single(op: OpOverload, ks: int, backend: Backend) -> Callable[..., object]:
    """One fresh tensor result: the generated common case."""
    schema = op._schema
    names = [f"p{i}" for i in range(len(schema.arguments))]
    types = [a.type.written for a in schema.arguments]
    single = [n for n, t in zip(names, types) if t in ("Tensor", "Tensor?")]
    passed = [
        f"_a{n}" if n in single else _array_expression(n, t, op.takes_numbers)
        for n, t in zip(names, types)
    ]
    free = op.free_devices is True
    shown = [
        _host_expression(n, op) if free and t == "Tensor" else "" for n, t in zip(names, types)
    ]
    arrays = "".join(
        f"    _a{n} = {shown[i] or _array_expression(n, types[i], op.takes_numbers)}\n"
        for i, n in enumerate(names)
        if n in single
    )
    source = f"""
def _kernel(_ks, {", ".join(names)}):
    try:
        _e = _cache[{key_source(op)}]
    except (KeyError, TypeError):
        _e = _lookup(_op, ({", ".join(names)},))
{arrays}    if _e.in_blocks:
        _r = _run(_quiet, _in_blocks, _op, _e.meta, _backend, ({", ".join(passed)},))
    else:
        try:
            _r = _quiet.run({", ".join(["_array", "_xp", *passed])})
        except RuntimeError as _error:
            _r = _quiet.again({", ".join(["_error", "_array", "_xp", *passed])})
    if (
        _r.__class__ is _ndarray
        and _r.base is None
        and _r.dtype is _e.np
        and _r.strides == _e.byte_strides
        and _r.shape == _e.shape
        {" ".join(f"and _r is not _a{n}" for n in single)}
    ):
        _s = _new(_Storage)
        _s._nbytes = _e.nbytes
        _s.device = _e.device
        _s.data = _r
        _s.foreign = False
        _s._id = 0
        _s._converted = None
        if _observers:
            _announce(_s)
    else:
        if not _e.shape and isinstance(_r, _generic) and _r.dtype is _e.np:
            # NumPy's functions of 0-dim arrays, and sums, give scalars: `settle`, written out.
            _r = _as_array(_r)
            _s = _new(_Storage)
            _s._nbytes = _e.nbytes
            _s.device = _e.device
            _s.data = _r
            _s.foreign = False
            _s._id = 0
            _s._converted = None
            if _observers:
                _announce(_s)
        else:
            _s, _r = _settle(_op, _e.meta, _r)
    _t = _new(_Tensor)
    _t.meta = _e.meta
    _t._keys = {"_e.keys & _mask" if ks & K.INFERENCE else "_e.keys"}
    _t._storage = _s
    _t._mq_data = _r
    _t._vc = None
    _t._base = None
    _t._ag = None
    _t._converted = None
    return _t
"""
    space: dict[str, object] = {
        "_cache": op.infer_cache,
        "_lookup": lookup,
        "_op": op,
        "_array": op.array_kernel,
        "_xp": backend.namespace,
        "_quiet": backend.runner,
        "_ndarray": np.ndarray,
        "_as_array": np.asarray,
        "_generic": np.generic,
        "_Storage": UntypedStorage,
        "_observers": OBSERVERS,
        "_announce": announce,
        "_Tensor": Tensor,
        "_new": _new,
        "_settle": settle,
        "_run": run_kernel,
        "_in_blocks": computed_in_blocks,
        "_backend": backend,
        "_host": host_array,
        "_defaults": defaults,
        "_NUMBERS": NUMBERS,
        "_mask": ~(ADINPLACE | K.AUTOGRAD),
    }
    return generate(source, "_kernel", "kernel", space)


def _fast_several(op: OpOverload, backend: Backend) -> Callable[..., object]:
    """Several fresh tensors: what stands before and after the kernel takes half the time."""
    types = {f"p{i}": a.type.written for i, a in enumerate(op._schema.arguments)}
    arrays = {n: _array_expression(n, t, op.takes_numbers) for n, t in types.items()}
    names, passed = ", ".join(types), ", ".join(arrays.values())
    source = f"""
def _kernel(_ks, {names}):
    try:
        _e = _cache[{key_source(op)}]
    except (KeyError, TypeError):
        _e = _lookup(_op, ({names},))
    try:
        _r = [*_quiet.run(_array, _xp, {passed})]
    except RuntimeError as _error:
        _r = [*_quiet.again(_error, _array, _xp, {passed})]
    return _several(_op, _e.value, _r)
"""
    space: dict[str, object] = {
        "_cache": op.infer_cache,
        "_lookup": lookup,
        "_op": op,
        "_array": op.array_kernel,
        "_xp": backend.namespace,
        "_quiet": backend.runner,
        "_NUMBERS": NUMBERS,
        "_defaults": defaults,
        "_several": _several,
    }
    return generate(source, "_kernel", "kernel", space)


def _several(op: OpOverload, metas: Sequence[object], results: list[object]) -> object:
    """The tensors of a kernel's results, which the list alone holds."""
    built: list[object] = []
    for n, meta in enumerate(metas):
        r, results[n] = results[n], None
        if (
            meta.__class__ is TensorMeta
            and r.__class__ is np.ndarray
            and r.base is None
            and r.dtype is meta.dtype.numpy
            and r.shape == meta.shape
            and r.strides == tuple([s * r.itemsize for s in meta.strides])
            and held_only(r, 1)  # no operand, and not given twice
        ):
            storage = UntypedStorage(meta.storage_bytes, meta.device, r)
            built.append(wrap(meta, storage, r, _new_keys(meta)))
        else:
            results[n] = lent(r)
            r = None  # so that a view's memory is known to be held by that alone
            built.append(_fresh(op, meta, results[n], fresh_from))
    return tuple(built)


def _fast_write(op: OpOverload, kinds: list[Return], backend: Backend) -> Callable[..., object]:
    """One written tensor that keeps its meta, as in-place operators do: generated too."""
    arguments = op._schema.arguments
    names = [f"p{i}" for i in range(len(arguments))]
    target = names[kinds[0][1]]
    passed = [
        _array_expression(n, a.type.written, op.takes_numbers) for n, a in zip(names, arguments)
    ]
    source = f"""
def _kernel(_ks, {", ".join(names)}):
    try:
        _e = _cache[{key_source(op)}]
    except (KeyError, TypeError):
        _e = _lookup(_op, ({", ".join(names)},))
    if {target}.meta is not _e.meta:
        return _slow(_ks, {", ".join(names)})
    try:
        _quiet.run({", ".join(["_array", "_xp", *passed])})
    except RuntimeError as _error:
        _quiet.again({", ".join(["_error", "_array", "_xp", *passed])})
    return {target}
"""
    space: dict[str, object] = {
        "_cache": op.infer_cache,
        "_lookup": lookup,
        "_op": op,
        "_array": op.array_kernel,
        "_xp": backend.namespace,
        "_quiet": backend.runner,
        "_slow": _general(op, kinds, backend),
        "_defaults": defaults,
        "_NUMBERS": NUMBERS,
    }
    return generate(source, "_kernel", "write", space)


_ANSWERS = frozenset({"bool", "int", "float", "Scalar"})


def _fast_answer(op: OpOverload, backend: Backend) -> Callable[..., object]:
    """One result that is no tensor, as of `equal`: generated too (4.3 to 1.3 us)."""
    arguments = op._schema.arguments
    names = [f"p{i}" for i in range(len(arguments))]
    passed = [
        _array_expression(n, a.type.written, op.takes_numbers) for n, a in zip(names, arguments)
    ]
    source = f"""
def _kernel(_ks, {", ".join(names)}):
    try:
        _cache[{key_source(op)}]
    except (KeyError, TypeError):
        _lookup(_op, ({", ".join(names)},))
    try:
        return _quiet.run({", ".join(["_array", "_xp", *passed])})
    except RuntimeError as _error:
        return _quiet.again({", ".join(["_error", "_array", "_xp", *passed])})
"""
    space: dict[str, object] = {
        "_cache": op.infer_cache,
        "_lookup": lookup,
        "_op": op,
        "_array": op.array_kernel,
        "_xp": backend.namespace,
        "_quiet": backend.runner,
        "_defaults": defaults,
        "_NUMBERS": NUMBERS,
    }
    return generate(source, "_kernel", "answer", space)


def _host_expression(name: str, op: OpOverload) -> str:
    """The array of an operand that may be on any device."""
    if op.takes_numbers:
        return f"({name} if {name}.__class__ in _NUMBERS else _host({name}))"
    return f"_host({name})"


def _array_expression(name: str, type_: str, takes_numbers: bool) -> str:
    if type_ == "Tensor":
        if takes_numbers:
            return f"({name} if {name}.__class__ in _NUMBERS else {name}._mq_data)"
        return f"{name}._mq_data"
    if type_ == "Tensor?":
        return f"(None if {name} is None else {name}._mq_data)"
    if type_.startswith("Tensor"):
        return f"[None if _t is None else _t._mq_data for _t in {name}]"
    return name


def host_array(t: Tensor) -> Array:
    """The array of a tensor on the host; of one without data, where devices are free, one of its
    shape.

    ``torch.zeros_like(meta_tensor, device="cpu")`` asks for sizes and dtype alone. What reads
    values refuses such a tensor in its shape rule.
    """
    data = t._mq_data
    if data is None:
        return np.broadcast_to(np.zeros((), t.meta.dtype.numpy), t.meta.shape)
    if isinstance(data, np.ndarray):
        return data
    return backend_of(t.meta.device.type).to_host(data)


def arrays_of(params: Sequence[object]) -> list[object]:
    """Canonical parameters with arrays in the place of tensors, as a kernel takes them."""
    return [_array_of(p) for p in params]


def _array_of(p: object) -> object:
    if isinstance(p, Tensor):
        if p._storage in MOVED:
            up_to_date(p)  # maybe by this very call, which resized another argument
        return p._mq_data
    if p.__class__ is tuple and any(isinstance(i, Tensor) for i in p):
        return [_array_of(i) for i in p]
    return p


def arrays_on(backend: Backend, on: device, params: Sequence[object]) -> list[object]:
    """`arrays_of` with all arrays of one library: those of another are copied to the device."""
    return [_array_on(backend, on, p) for p in params]


def _array_on(backend: Backend, on: device, p: object) -> object:
    if isinstance(p, Tensor):
        data = _array_of(p)
        if isinstance(data, backend.array_type):
            return data
        return backend.from_host(host_array(p), on)
    if p.__class__ is tuple and any(isinstance(i, Tensor) for i in p):
        return [_array_on(backend, on, i) for i in p]
    return p


def settle(op: OpOverload, meta: TensorMeta, result: object) -> tuple[UntypedStorage, Array]:
    """Lay a kernel's array out as the shape rule said: own memory, dtype, strides, device."""
    if isinstance(result, np.generic) and not meta.shape and meta.device is _CPU:
        # NumPy's functions of 0-dim arrays give scalars, of which an array is a copy.
        array = np.asarray(result)
        if array.dtype is meta.dtype.numpy:
            return UntypedStorage(meta.storage_bytes, _CPU, array), array
    backend = backend_of(meta.device.type)
    array = _host_first(result) if backend.array_type is np.ndarray else backend.as_array(result)
    if array.shape != tuple(meta.shape):
        raise RuntimeError(
            f"{op.name()}: its shape rule says {meta}, its kernel gave an array of shape "
            f"{array.shape}; one of the two is wrong"
        )
    backend.check_dtype(meta.dtype)
    if _is_own(meta, array):
        return UntypedStorage(meta.storage_bytes, meta.device, array.base), array
    memory, data = backend.laid_out(meta, array)
    return UntypedStorage(meta.storage_bytes, meta.device, memory), data


def _is_own(meta: TensorMeta, array: Array) -> bool:
    """Whether an array is all of some memory that nobody else holds, laid out as the meta says.

    A kernel's last step is often a reshape; without this its result would be copied (32 images of
    16 x 32 x 32 float32: 0.9 ms of a convolution's 3.8, benchmarks/kernels.py).
    """
    if array.__class__ is not np.ndarray or array.base.__class__ is not np.ndarray:
        return False
    size = array.itemsize
    return (
        array.dtype is meta.dtype.numpy
        and array.nbytes == array.base.nbytes == meta.storage_bytes
        and array.base.base is None
        and array.strides == tuple([s * size for s in meta.strides])
        and array.flags.writeable
        and held_only(array.base, 1)
    )


def lent(results: object) -> object:
    """A kernel's results as views, so that memory which a result owned is held by that alone."""
    if results.__class__ is tuple:
        return tuple([lent(r) for r in results])
    if results.__class__ is list:
        return [lent(r) for r in results]
    if results.__class__ is np.ndarray and results.base is None:
        return results[...]
    return results


def fresh_from(op: OpOverload, meta: TensorMeta, result: object, keys: int | None = None) -> Tensor:
    """A new tensor of ``meta`` with a kernel's values."""
    storage, data = settle(op, meta, result)
    return wrap(meta, storage, data, _new_keys(meta) if keys is None else keys)


def _new_keys(meta: TensorMeta) -> int:
    """The key set of a tensor born now: in inference mode, of an inference tensor (T63)."""
    return inference_keys(meta) if tls.st.inference else keys_for(meta)


def _host_first(result: object) -> Array:
    """A kernel's result as a NumPy array; arrays of other libraries come to the host."""
    if isinstance(result, (np.ndarray, np.generic)):
        return np.asarray(result)
    for backend in known_backends():
        if isinstance(result, backend.array_type):
            return backend.to_host(cast(Array, result))
    return np.asarray(result)


MOST_DIMS = 64  # NumPy's arrays have no more


def view_of(source: Tensor, meta: TensorMeta) -> Tensor:
    """A tensor of ``meta`` over the storage of ``source``."""
    keys = source._keys & NOT_INHERITED
    if meta.ndim > MOST_DIMS and source._storage.data is not None:
        # Refused when a kernel asks for it: shape rules need no array.
        why = f"{meta}: NumPy arrays have at most {MOST_DIMS} dims"
        missing = NoArray(why, NotImplementedError)
        return wrap(meta, source._storage, cast(Array, missing), keys)
    data = None if source._storage.data is None else array_over(source._storage, meta)
    return wrap(meta, source._storage, data, keys)


def build(
    op: OpOverload,
    kinds: list[Return],
    outcome: Outcome,
    params: Sequence[object],
    results: object,
    fresh: Callable[[OpOverload, TensorMeta, object], Tensor],
    view: Callable[[Tensor, TensorMeta], Tensor],
) -> object:
    """Assemble an operator's results from an outcome: fresh tensors, views, written arguments."""
    if not kinds:
        return None
    single = len(kinds) == 1
    metas = [outcome.value] if single else outcome.value
    values = [results] if single else results
    built: list[object] = []
    for n, (kind, source) in enumerate(kinds):
        meta = metas[n]  # type: ignore[index]  # one meta a return, by the schema
        if kind == "written":
            built.append(_written(params[source], meta))
        elif kind == "view" and source >= 0:
            built.append(_views(params[source], meta, view))
        else:
            value = None if values is None else values[n]  # type: ignore[index]  # as above
            built.append(_fresh(op, meta, value, fresh))
    return built[0] if single else tuple(built)


def _written(target: object, meta: object) -> object:
    if isinstance(target, tuple):
        return list(target)
    if isinstance(meta, TensorMeta) and isinstance(target, Tensor) and target.meta is not meta:
        relayout(target, meta)
    return target


def _views(source: object, meta: object, view: Callable[[Tensor, TensorMeta], Tensor]) -> object:
    if isinstance(meta, TensorMeta):
        assert isinstance(source, Tensor)
        return view(source, meta)
    assert isinstance(source, Tensor)
    assert isinstance(meta, (tuple, list))
    return [view(source, m) for m in meta]


def _fresh(
    op: OpOverload,
    meta: object,
    value: object,
    fresh: Callable[[OpOverload, TensorMeta, object], Tensor],
) -> object:
    if isinstance(meta, TensorMeta):
        return fresh(op, meta, value)
    if isinstance(meta, (tuple, list)):
        values = [None] * len(meta) if value is None else value
        return [_fresh(op, m, v, fresh) for m, v in zip(meta, values, strict=True)]  # type: ignore[call-overload]  # a list of arrays
    return meta if value is None or meta is None else value


def _general(op: OpOverload, kinds: list[Return], backend: Backend) -> Callable[..., object]:
    array_kernel = op.array_kernel
    assert array_kernel is not None
    xp, quiet = backend.namespace, backend.runner

    def kernel(ks: int, *params: object) -> object:
        outcome = lookup(op, params)
        resized = resize_outputs(op, kinds, outcome, params)
        try:
            results = lent(run_kernel(quiet, array_kernel, xp, *arrays_of(params)))
        except Exception:
            take_back(resized)
            raise
        return build(op, kinds, outcome, params, results, fresh_from, view_of)

    return kernel


def _elsewhere(op: OpOverload, kinds: list[Return], backend: Backend) -> Callable[..., object]:
    """The kernel on arrays of another library than NumPy: what lives elsewhere is brought there.

    Operands that may be on other devices (0-dim ones, indices, the source of a copy) are copied to
    the device of the backend; a target that lives elsewhere is written at the end.
    """
    array_kernel = op.array_kernel
    assert array_kernel is not None
    targets = [source for kind, source in kinds if kind == "written"]
    if targets and not backend.mutable:
        raise NotImplementedError(
            f"{op.name()} mutates an argument, and {backend.name} arrays cannot be changed; use "
            f"its functional form, or functionalize the program (maquette.func.functionalize)"
        )

    def kernel(ks: int, *params: object) -> object:
        outcome = lookup(op, params)
        resized = resize_outputs(op, kinds, outcome, params)
        on = _place(params, outcome, backend)
        arrays = arrays_on(backend, on, params)
        try:
            results = backend.run(on, array_kernel, backend.namespace, *arrays)
        except Exception:
            take_back(resized)
            raise
        for i in targets:
            _write_back(params[i], arrays[i], backend)
        return build(op, kinds, outcome, params, results, fresh_from, view_of)

    return kernel


def _place(params: Sequence[object], outcome: Outcome, backend: Backend) -> device:
    value = outcome.value
    results = value if isinstance(value, (tuple, list)) else (value,)
    return device_of([*[rule_argument(p) for p in params], *results], backend)


def device_of(values: Sequence[object], backend: Backend) -> device:
    """Where a call computes: the device of a backend that the first of the metas is on."""
    for meta in metas_in(values):
        if meta.device.type != "meta" and backend_of(meta.device.type) is backend:
            return meta.device
    return _CPU


def _write_back(target: object, array: object, backend: Backend) -> None:
    if isinstance(target, Tensor) and target._mq_data is not array:
        home = backend_of(target.meta.device.type)
        host = backend.to_host(cast(Array, array))
        home.copy_to(cast(Array, target._mq_data), home.from_host(host, target.meta.device))


def resize_outputs(
    op: OpOverload, kinds: list[Return], outcome: Outcome, params: Sequence[object]
) -> Sequence[tuple[Tensor, TensorMeta]]:
    """Bring written arguments to the meta that the rule gives them before a kernel writes.

    The arguments that were laid anew, with the metas they had: for `take_back`.
    """
    resized: list[tuple[Tensor, TensorMeta]] | None = None
    for n, (kind, source) in enumerate(kinds):
        if kind != "written":
            continue
        target = params[source]
        meta = outcome.value if len(kinds) == 1 else outcome.value[n]  # type: ignore[index]  # one meta a return
        if isinstance(target, Tensor) and isinstance(meta, TensorMeta) and target.meta is not meta:
            if op._schema.arguments[source].is_out:
                _check_input_keeps_shape(op, params, source, meta)
                warn_resized(target.meta, meta.shape)
            if meta.storage_bytes > target._storage.nbytes():
                resize_storage(target, meta.storage_bytes)
            resized = [*(resized or ()), (target, target.meta)]
            relayout(target, meta)
    return resized or ()


def take_back(resized: Sequence[tuple[Tensor, TensorMeta]]) -> None:
    """Lay outputs as they were: the kernel refused the call, for its elements (an index, say)."""
    for target, meta in resized:
        relayout(target, meta)


def _check_input_keeps_shape(
    op: OpOverload, params: Sequence[object], source: int, meta: TensorMeta
) -> None:
    """Refuse to resize an output that is an input as well: its elements are still to be read."""
    target = cast(Tensor, params[source])
    if Tag.pointwise in op.tags and target.meta.shape != meta.shape:
        check(
            not any(p is target for i, p in enumerate(params) if i != source),
            lambda: (
                f"output with shape {list(target.meta.shape)} doesn't match the broadcast shape "
                f"{list(meta.shape)}: it is an input of {op.name()} too, so it is not resized"
            ),
        )


def warn_resized(out: TensorMeta, shape: Sequence[int]) -> None:
    """Warn where ``out=`` names a tensor with elements and another shape than the result (T36)."""
    if out.numel and out.shape != shape:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape "
            f"{list(out.shape)}, which does not match the required output shape {list(shape)}. "
            f"This behavior is deprecated, and in a future PyTorch release outputs will not be "
            f"resized unless they have zero elements. You can explicitly reuse an out tensor t by "
            f"resizing it, inplace, to zero elements with t.resize_(0).",
            UserWarning,
            stacklevel=2,
        )


def _views_only(op: OpOverload) -> Callable[..., object]:
    kinds = returns_of(op)
    if len(kinds) == 1 and kinds[0][0] == "view":
        source = kinds[0][1]
        known, key = op.infer_cache, key_function(op)

        def kernel(ks: int, *params: object) -> object:
            # As `lookup` begins, where there is no symbol: 0.5 us of 2.1 less (`view`, timeit).
            try:
                outcome = known.get(key(*params))
            except TypeError:  # symbolic sizes have no hash
                outcome = None
            meta = (outcome if isinstance(outcome, Outcome) else lookup(op, params)).value
            if meta.__class__ is TensorMeta:
                return view_of(cast(Tensor, params[source]), meta)
            return _views(params[source], meta, view_of)

        return kernel
    if all(kind == "written" for kind, _ in kinds):

        def relay(ks: int, *params: object) -> object:
            outcome = lookup(op, params)
            resize_outputs(op, kinds, outcome, params)
            return build(op, kinds, outcome, params, None, fresh_from, view_of)

        return relay
    op._raise_no_kernel(DispatchKey.CPU)


def meta_kernel(op: OpOverload) -> Callable[..., object]:
    """The kernel on ``meta`` tensors: storages without data, made by the shape rule alone."""
    kinds = returns_of(op)

    def kernel(ks: int, *params: object) -> object:
        outcome = lookup(op, params)
        resize_outputs(op, kinds, outcome, params)
        return build(op, kinds, outcome, params, None, _fresh_meta, view_of)

    return kernel


def _fresh_meta(op: OpOverload, meta: TensorMeta, result: object) -> Tensor:
    return wrap(meta, UntypedStorage(meta.storage_bytes, meta.device), None, _new_keys(meta))


# --- where only results count ----------------------------------------------------------------


def run_as_on_page(tensors: Sequence[Tensor | None], operators: str) -> bool:
    """Whether calls of the operators on these tensors are seen by nobody, so that results count.

    The tensors are plain ones on cpu, in single or double precision; no mode, transform, hook of
    saved tensors, autocast region or observer is in force; and the kernels are those of the
    operators' pages. operators: names of aten's with their overloads, apart by blanks.
    """
    return nobody_watches() and all(map(_is_plain, tensors)) and _are_of_page(operators)


def _is_plain(t: Tensor | None) -> bool:
    return t is None or (
        not t._class_bits
        and t._mq_data is not None
        and t.meta.dtype in (float32, float64)
        and t.meta.device.type == "cpu"
        and not t.is_neg()
    )


@functools.cache
def _named(operators: str) -> tuple[OpOverload, ...]:
    split = [name.partition(".") for name in operators.split()]
    packets = [(find_packet(f"aten::{name}"), overload) for name, _, overload in split]
    return tuple([getattr(packet, overload or "default") for packet, overload in packets])


def _are_of_page(operators: str) -> bool:
    """Asked again after a registration (of 24 operators 16 us)."""
    known = _OF_PAGE.get(operators)
    if known is None or known[0] != EPOCH[0]:
        since = EPOCH[0]
        known = _OF_PAGE[operators] = since, all(map(_is_of_page, _named(operators)))
    return known[1]


_OF_PAGE: dict[str, tuple[int, bool]] = {}


def _is_of_page(op: OpOverload) -> bool:
    """Whether data on the cpu is served by the kernel of the operator's page."""
    kernel, above = op.kernel_at(DispatchKey.CPU), op.kernel_at(DispatchKey.AutogradCPU)
    return (
        kernel is not None
        and kernel.factory is backend_kernel
        and (above is None or above.python is None)
    )
