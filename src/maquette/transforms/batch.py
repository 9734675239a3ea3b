"""A level of vmap: how an operator runs on tensors that hide a batch dimension.

`batched_call` decides once for an operator, by what its page says, best first: a kernel or a
batching rule of its own; its definition by other operators; the broadcasting that all pointwise
operators share; for forms that write, their functional twin; and at last a loop over the batch,
which warns once and names the operator. A rule ``(info, in_dims, *args, **kwargs) -> (outputs,
out_dims)`` gets the values and speaks operators, so that it works under every level below.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from maquette.core.dtype import bool_
from maquette.core.promotion import result_type_of
from maquette.dispatch.base import TransformType
from maquette.dispatch.forms import Form, returns_of
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.matching import normalise
from maquette.dispatch.operator import OpOverload, keys_of
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor
from maquette.transforms.interpreter import FRONT, VMAP_MODE, Interpreter, run_below
from maquette.transforms.randomness import random_call
from maquette.transforms.rules import POINTWISE, Decomposition, operators, rule_of
from maquette.transforms.wrappers import BatchedTensor, Wrapper, batched, revived

Dim = int | None


class VmapInfo(NamedTuple):
    """What a batching rule is told: the size of the batch, and what random operators may do."""

    batch_size: int
    randomness: str


class VmapInterpreter(Interpreter):
    """The level of one vmap."""

    __slots__ = ("info",)

    transform = TransformType.Vmap
    bits = FRONT | VMAP_MODE
    keeps_grad_mode = True

    def __init__(self, batch_size: int, randomness: str) -> None:
        self.info = VmapInfo(batch_size, randomness)

    def batch_size(self) -> int:
        """The size of the hidden dimension."""
        return self.info.batch_size

    def randomness(self) -> str:
        """What random operators may do: "error", "different" or "same"."""
        return self.info.randomness

    def get_state(self) -> tuple[object, ...]:
        return (*super().get_state(), *self.info)

    def process(self, op: OpOverload, params: Sequence[object]) -> object:
        return batched_call(op)(self, params)


Call = Callable[[VmapInterpreter, Sequence[object]], object]


def batched_call(op: OpOverload) -> Call:
    """How an operator runs at a level of vmap."""
    for key in (DispatchKey.FuncTorchBatched, DispatchKey.FuncTorchBatchedDecomposition):
        kernels = op._kernels.get(key)
        if kernels:
            return _by_kernel(op, kernels[-1])
    rule = rule_of(op)
    if rule is POINTWISE:
        return _pointwise(op)
    if isinstance(rule, Decomposition):
        function = rule.function
        return lambda level, params: function(*params)
    if rule is not None:
        return _by_rule(op, rule)
    definition = definition_of(op)
    if definition is not None:
        return _by_kernel(op, definition)
    if Tag.nondeterministic_seeded in op.tags:
        return random_call(op, _by_rule, _by_twin)
    return _by_form(op)


def definition_of(op: OpOverload) -> Kernel | None:
    """The kernel that defines an operator by others, if there is one."""
    for key in (
        DispatchKey.CompositeImplicitAutograd,
        DispatchKey.CompositeExplicitAutograd,
        DispatchKey.Autograd,
    ):
        kernels = op._kernels.get(key)
        if kernels and kernels[-1].speaks_operators:
            return kernels[-1]
    return None


def _by_form(op: OpOverload) -> Call:
    written = [i for i, a in enumerate(op._schema.arguments) if a.is_write]
    if Tag.dynamic_output_shape in op.tags:
        return _refusing(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted "
            f"to vmap over {op.name()}. Compute it outside of vmap, or with a fixed size"
        )
    if Tag.data_dependent_output in op.tags:
        return _refusing(
            f"vmap: the answer of {op.name()} depends on data, which differ over the batch; "
            "rewrite it with other operators, or call it outside of vmap"
        )
    if Tag.pointwise in op.tags:
        if not written:
            return _pointwise(op)
        if written == [0] and not op._schema.arguments[0].is_out:
            return _pointwise_in_place(op)
    if written:
        return _by_twin(op)
    return _loop(op)


def _refusing(message: str) -> Call:
    def call(level: VmapInterpreter, params: Sequence[object]) -> object:
        raise RuntimeError(message)

    return call


# --- by a kernel, a definition or a rule ------------------------------------------------------


def _by_kernel(op: OpOverload, kernel: Kernel) -> Call:
    """Run a kernel on the batched tensors themselves, at their level."""
    built = kernel.factory(op, 0)

    def call(level: VmapInterpreter, params: Sequence[object]) -> object:
        if built is None:
            return run_below(level, op, params)
        return built(tls.st.effective_keys(keys_of(params)), *params)

    return call


def _by_rule(op: OpOverload, rule: Callable[..., Any]) -> Call:
    arguments = op._schema.arguments
    keywords = [a.name for a in arguments if a.kwarg_only]
    count = len(arguments) - len(keywords)
    writes = any(a.is_write for a in arguments)

    def call(level: VmapInterpreter, params: Sequence[object]) -> object:
        dims: list[object] = []
        values = [_opened(p, level, dims) for p in params]
        if any(d is not None for d in dims[count:]):  # rules are not told of these
            return _loop(op)(level, params)
        kwargs = dict(zip(keywords, values[count:]))
        with level.lower():
            result, out_dims = rule(level.info, tuple(dims[:count]), *values[:count], **kwargs)
        wrapped = _closed(result, out_dims, level)
        return _same_arguments(op, params, wrapped) if writes else wrapped

    return call


def _opened(p: object, level: Interpreter, dims: list[object]) -> object:
    """The value of a parameter; its batch dimension, None or a list of such, goes to ``dims``."""
    if isinstance(p, Wrapper) and not p._interpreter.live:
        p = revived(p)
    if p.__class__ is BatchedTensor and p._interpreter is level:
        dims.append(p._bdim)
        return p._value
    if p.__class__ is tuple and any(isinstance(t, Tensor) for t in cast(tuple[object, ...], p)):
        inner: list[object] = []
        values = [_opened(t, level, inner) for t in cast(tuple[object, ...], p)]
        dims.append(inner)
        return values
    dims.append(None)
    return p


def _closed(result: object, dims: object, level: Interpreter) -> object:
    """Results with their batch dimension hidden; one dimension may stand for several results."""
    if isinstance(result, Tensor):
        if dims is None:
            return result
        assert isinstance(dims, int)
        return batched(result, dims % max(result.meta.ndim, 1), level)
    if isinstance(result, (tuple, list)):
        each = dims if isinstance(dims, (tuple, list)) else [dims] * len(result)
        return type(result)([_closed(r, d, level) for r, d in zip(result, each, strict=True)])
    return result


def _same_arguments(op: OpOverload, params: Sequence[object], result: object) -> object:
    """What an operator that writes gives: written arguments are themselves."""
    kinds = returns_of(op)
    results = (result,) if len(kinds) == 1 else cast(Sequence[object], result)
    found = [params[k.source] if k.kind == "written" else r for k, r in zip(kinds, results)]
    return found[0] if len(kinds) == 1 else tuple(found) if kinds else None


# --- pointwise operators ----------------------------------------------------------------------


def _pointwise(op: OpOverload) -> Call:
    single = len(op._schema.returns) == 1

    def call(level: VmapInterpreter, params: Sequence[object]) -> object:
        rank = most = -1
        values: list[object] = []
        simple = True
        for p in params:
            if p.__class__ is BatchedTensor and p._interpreter is level:
                t = p
                own = t.meta.ndim
                simple = simple and t._bdim == 0 and (rank < 0 or own == rank)
                rank = own if own > rank else rank
                values.append(t._value)
            else:
                if isinstance(p, Tensor):
                    most = p.meta.ndim if p.meta.ndim > most else most
                values.append(p)
        # Batches in front and of one rank broadcast as they are; the rank 0 of a result of
        # promotion would not be the rank that they show.
        if not simple or most > rank or (rank == 0 and len(values) > 1):
            values = _aligned(level, params, max(rank, most))
        result = run_below(level, op, values)
        if single:
            return batched(cast(Tensor, result), 0, level)
        return tuple([batched(r, 0, level) for r in cast(tuple[Tensor, ...], result)])

    return call


def _aligned(level: VmapInterpreter, params: Sequence[object], rank: int) -> list[object]:
    """Values with the batch in front and their other dimensions at the end of ``rank`` of them."""
    metas = [p.meta for p in params if isinstance(p, Tensor)]
    kind = None
    if len({m.dtype for m in metas}) > 1:
        kind = result_type_of([*metas, *(p for p in params if isinstance(p, _NUMBERS))])
    values: list[object] = []
    with level.lower():
        for p in params:
            if p.__class__ is BatchedTensor and p._interpreter is level:
                t = p
                value = in_front(t._value, t._bdim, rank)
                # In rank 0 a tensor has a weak say in the type of the result, a batch has a full.
                if kind is not None and not t.meta.ndim and t.meta.dtype is not bool_:
                    value = value.to(kind)
                values.append(value)
            else:
                values.append(p)
    return values


_NUMBERS = (int, float, bool, complex)


def in_front(t: Tensor, dim: int, rank: int = 0) -> Tensor:
    """``t`` with dimension ``dim`` first, and the others behind as many 1s as ``rank`` asks."""
    if dim:
        order = [dim, *(i for i in range(t.meta.ndim) if i != dim)]
        t = t.permute(order)
    missing = rank + 1 - t.meta.ndim
    if missing > 0:
        t = t[(slice(None), *[None] * missing)]
    return t


def _pointwise_in_place(op: OpOverload) -> Call:
    def call(level: VmapInterpreter, params: Sequence[object]) -> object:
        target = params[0]
        if target.__class__ is not BatchedTensor or cast(Wrapper, target)._interpreter is not level:
            refuse_unbatched_target(op)
        rank = cast(Tensor, target).meta.ndim
        others = [p.meta.ndim for p in params[1:] if isinstance(p, Tensor)]
        values = _aligned(level, params, max([rank, *others]))
        t = cast(BatchedTensor, target)
        with level.lower():
            values[0] = in_front(t._value, t._bdim)
        run_below(level, op, values)
        return target

    return call


def refuse_unbatched_target(op: OpOverload) -> None:
    """The error of a write of a batch into a tensor that has none."""
    raise RuntimeError(
        f"vmap: {op.name()}(self, *extra_args) is not possible because there exists a Tensor "
        "`other` in extra_args that has more elements than `self`. This happened due to `other` "
        "being vmapped over but `self` not being vmapped over in a vmap. Please try to use "
        "out-of-place operators instead of in-place operators. If said operator is being called "
        "inside the PyTorch framework, consider using a different operator"
    )


# --- forms that write, and the rest -----------------------------------------------------------


def _by_twin(op: OpOverload) -> Call:
    """Compute by the functional form, then copy into what is written."""
    functional = op.functional_call
    if functional is None:
        return _loop(op)
    if rule_of(functional.twin) is None and definition_of(functional.twin) is not None:
        return _loop(op)  # the twin may be defined by this form
    resizes = op.form is Form.OUT

    def call(level: VmapInterpreter, params: Sequence[object]) -> object:
        args, kwargs = normalise(functional.twin._schema, functional.parameters(params))
        result = functional.twin(*args, **kwargs)
        for at, value in functional.new_values(result):
            _copy_into(params[at], value, resizes=resizes)
        results = functional.results(result)
        found = [
            params[r.source] if r.kind == "written" else results[n]
            for n, r in enumerate(functional.returns)
        ]
        return found[0] if len(found) == 1 else tuple(found)

    return call


def _copy_into(target: object, value: object, *, resizes: bool) -> None:
    if isinstance(target, tuple) and isinstance(value, (tuple, list)):
        for t, v in zip(target, value, strict=True):
            _copy_into(t, v, resizes=resizes)
    elif isinstance(target, Tensor) and isinstance(value, Tensor):
        if target is not value:
            if resizes and target.meta.shape != value.meta.shape:
                target.resize_(value.meta.shape)
            target.copy_(value)


_WARNED: set[str] = set()


def _loop(op: OpOverload) -> Call:
    """Call the operator on one member of the batch after another, and stack the results."""
    arguments = op._schema.arguments
    written = [i for i, a in enumerate(arguments) if a.is_write]

    def call(level: VmapInterpreter, params: Sequence[object]) -> object:
        if op.name() not in _WARNED:
            _WARNED.add(op.name())
            warnings.warn(
                "There is a performance drop because we have not yet implemented the batching rule "
                f"for {op.name()}: it is called once for each member of the batch. Register one "
                f"with maquette.library.register_vmap('{op.name()}', ...)",
                UserWarning,
                stacklevel=2,
            )
        dims: list[object] = []
        values = [_opened(p, level, dims) for p in params]
        if any(dims[i] is None for i in written):
            refuse_unbatched_target(op)
        with level.lower():
            rows = [_row(op, values, dims, i) for i in range(level.info.batch_size)]
            result = _stacked(op, rows, level) if op._schema.returns else None
        return _same_arguments(op, params, result) if written else result

    return call


def _row(op: OpOverload, values: Sequence[object], dims: Sequence[object], i: int) -> object:
    params = [_member(v, d, i) for v, d in zip(values, dims)]
    return op.run(tls.st.effective_keys(keys_of(params)), params)


def _member(value: object, dim: object, i: int) -> object:
    if isinstance(dim, int):
        return cast(Tensor, value).select(dim, i)
    if isinstance(dim, list):
        return tuple([_member(v, d, i) for v, d in zip(cast(list[object], value), dim)])
    return value


def _stacked(op: OpOverload, rows: Sequence[object], level: Interpreter) -> object:
    if not rows:
        raise RuntimeError(
            f"vmap: {op.name()} has no batching rule, and a loop over a batch of size 0 gives no "
            f"result to take the shape from"
        )
    first = rows[0]
    if isinstance(first, Tensor):
        return batched(operators.stack(rows), 0, level)
    if isinstance(first, (tuple, list)):
        columns = zip(*cast(Sequence[Sequence[object]], rows))
        return type(first)([_stacked(op, list(c), level) for c in columns])
    return first


__all__ = ["VmapInfo", "VmapInterpreter", "batched_call", "in_front"]
