"""What fake and real runs of an operator gave, compared (F99), or the one made of the other (F100).

Strides are not compared: a shape rule of users' may lay its results out otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.core.strides import is_dense, packed_strides
from maquette.dispatch.operator import OpOverload
from maquette.fake.exceptions import MetadataMismatchError
from maquette.fake.tensor import fresh_fake, tensors_in
from maquette.symbolic.numbers import SymNumber
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fake.mode import FakeTensorMode


def check_results(
    op: OpOverload, given: tuple[Sequence[object], Sequence[object]], fake: object, real: object
) -> None:
    """MetadataMismatchError, with the place in the results, unless fake and real ones agree.

    given: the fake arguments and the real ones, whose memory results may share.
    """
    for path, f, r in _pairs("output", fake, real, op):
        if isinstance(f, Tensor) and isinstance(r, Tensor):
            _check_tensor(op, path, f, r)
        elif (f is None) != (r is None) or isinstance(f, Tensor) != isinstance(r, Tensor):
            _differ(op, "an output", f, r, path)
        elif isinstance(r, (int, float)) and not _fits(f, r):
            _differ(op, "an output value", f"output value {f}", f"output value {r}", path)
    _check_aliasing(op, given, fake, real)


def _differ(op: OpOverload, what: str, fake: object, real: object, path: str) -> NoReturn:
    raise MetadataMismatchError(
        f"Real tensor propagation found {what} mismatch between fake {fake} and real {real}, at "
        f"{path}, for func: {op}"
    )


def _pairs(
    path: str, fake: object, real: object, op: OpOverload
) -> Iterator[tuple[str, object, object]]:
    """What stands at the same place of both results, with the place."""
    if not isinstance(real, (tuple, list)):
        yield path, fake, real
        return
    if not isinstance(fake, (tuple, list)) or len(fake) != len(real):
        _differ(op, "an output structure", f"output {_shown(fake)}", f"output {_shown(real)}", path)
    for i, (f, r) in enumerate(zip(fake, real, strict=True)):
        yield from _pairs(f"{path}[{i}]", f, r, op)


def _shown(value: object) -> str:
    return f"of {len(value)} values" if isinstance(value, (tuple, list)) else repr(value)


def _check_tensor(op: OpOverload, path: str, fake: Tensor, real: Tensor) -> None:
    f, r = fake.meta, real.meta
    if f.dtype is not r.dtype or f.layout is not r.layout or f.ndim != r.ndim:
        _differ(op, "a metadata", f"tensor {f} ({f.layout})", f"tensor {r} ({r.layout})", path)
    for i, (a, b) in enumerate(zip(f.shape, r.shape, strict=True)):
        if not _fits(a, b):
            _differ(op, "an output size", f"shape {a}", f"shape {b}", f"{path}.size({i})")
    if f.layout is strided and not _fits(f.offset, r.offset):
        place = f"{path}.storage_offset()"
        _differ(op, "an output offset", f"offset {f.offset}", f"offset {r.offset}", place)


def _fits(fake: object, real: Any) -> bool:
    """Whether a number, perhaps a symbolic one, may be what the real run gave."""
    if not isinstance(fake, SymNumber):
        return bool(fake == real or (fake != fake and real != real))
    env, form = fake.node.shape_env, fake.node.current
    if env is None:
        return True
    value = env.value_in_real_run(form)
    if value is None:
        return True
    outside = any(s in env.real_values and not _in_range(env, s) for s in form.symbols)
    return bool(value == real) and not outside


def _in_range(env: Any, symbol: Any) -> bool:
    value = env.real_values[symbol]
    return value != value or value in env.facts.range_of(symbol)


def _check_aliasing(
    op: OpOverload, given: tuple[Sequence[object], Sequence[object]], fake: object, real: object
) -> None:
    fakes, reals = list(tensors_in(_flat(fake))), list(tensors_in(_flat(real)))
    of_fakes, of_reals = list(tensors_in(given[0])), list(tensors_in(given[1]))
    for i, (f, r) in enumerate(zip(fakes, reals, strict=True)):
        others = [*zip(of_fakes, of_reals, strict=True), *zip(fakes[:i], reals[:i], strict=True)]
        for g, s in others:
            if _has_memory(r) and _has_memory(s) and _relation(f, g) != _relation(r, s):
                told = [f"output {t.meta} ({_relation(t, o)})" for t, o in ((f, g), (r, s))]
                _differ(op, "an aliasing", told[0], told[1], f"tensor {i} of the output")


def _flat(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _has_memory(t: Tensor) -> bool:
    return t.meta.layout is strided and t._storage._nbytes > 0


def _relation(a: Tensor, b: Tensor) -> str:
    if a is b:
        return "the same tensor as another"
    return "shares memory" if a._storage is b._storage else "memory of its own"


def inferred_fakes(
    op: OpOverload, mode: FakeTensorMode, real: object, known: Mapping[int, Tensor]
) -> object:
    """Fakes like real results, whose sizes only data tells; the order of strides is kept (F100).

    Raises RuntimeError for results that are no tensors, begin later in their storage or are not
    dense: a fake implementation has to say what those are. known: the fakes of real arguments, by
    the identity of those.
    """
    if isinstance(real, (tuple, list)):
        return type(real)([inferred_fakes(op, mode, r, known) for r in real])
    if not isinstance(real, Tensor):
        raise RuntimeError(
            f"propagate_real_tensors: we don't support operators that return non-Tensors. Got "
            f"{op._schema}; give it a fake implementation with torch.library.register_fake"
        )
    if id(real) in known:
        return known[id(real)]
    meta = real.meta
    if meta.offset != 0:
        _cannot_infer(op, f"a non-zero storage offset {meta.offset}")
    if meta.layout is not strided or not is_dense(meta.shape, meta.strides):
        _cannot_infer(op, f"memory that is not dense (sizes {meta.shape} strides {meta.strides})")
    env = mode.shape_env
    assert env is not None
    shape: Any = tuple([env.new_size(0) for _ in meta.shape])
    order = sorted(range(meta.ndim), key=lambda d: (meta.strides[d], -d))
    strides = packed_strides(shape, order)
    return fresh_fake(mode, TensorMeta.of(meta.dtype, shape, strides, 0, meta.device))


def _cannot_infer(op: OpOverload, why: str) -> NoReturn:
    raise RuntimeError(
        f"propagate_real_tensors: we cannot infer a Fake kernel (meta kernel) for operator "
        f"{op.name()} because a return has {why}. Please use torch.library.register_fake to add a "
        f"Fake kernel."
    )
