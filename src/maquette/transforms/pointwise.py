"""A level of vmap, and the operators that need no rule there: the pointwise ones, which broadcast.

The hidden dimension goes in front of all tensors, the others stand at the end of as many as the
largest has. Where the batches are in front already and of one rank, which is nearly always, nothing
has to be moved, and the kernel that is written out for the operator sees that at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn, cast

from maquette.core.dtype import bool_
from maquette.core.promotion import result_type_of
from maquette.dispatch.base import TransformType
from maquette.dispatch.generated import generate
from maquette.dispatch.kernels import Boxed
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor
from maquette.transforms.interpreter import FRONT, PLAIN, TOP, VMAP_MODE, Interpreter, run_below
from maquette.transforms.wrappers import BatchedTensor, Wrapper, batched


class VmapInfo(NamedTuple):
    """What a batching rule is told: the size of the batch, and what random operators may do."""

    batch_size: int
    randomness: str


class VmapLevel(Interpreter):
    """What a level of vmap knows; `batch.VmapInterpreter` is one that runs operators."""

    __slots__ = ("_batch_size", "_info", "_randomness")

    transform = TransformType.Vmap
    bits = FRONT | VMAP_MODE

    def __init__(self, batch_size: int, randomness: str) -> None:
        self._batch_size = batch_size
        self._randomness = randomness
        self._info: VmapInfo | None = None

    @property
    def info(self) -> VmapInfo:
        """What its batching rules are told."""
        if self._info is None:
            self._info = VmapInfo(self._batch_size, self._randomness)
        return self._info

    def batch_size(self) -> int:
        """The size of the hidden dimension."""
        return self._batch_size

    def randomness(self) -> str:
        """What random operators may do: "error", "different" or "same"."""
        return self._randomness

    def get_state(self) -> tuple[object, ...]:
        return (*super().get_state(), *self.info)


Call = Callable[[VmapLevel, Sequence[object]], object]


def pointwise_call(op: OpOverload) -> Call:
    single = len(op._schema.returns) == 1
    compares = op._schema.name.rpartition("::")[2] in _COMPARISONS
    tensors = [i for i, a in enumerate(op._schema.arguments) if a.type.kind == "tensor"]
    seen = tensors if len(tensors) == 2 and not compares else []

    def call(level: VmapLevel, params: Sequence[object]) -> object:
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
            values = _aligned(level, params, max(rank, most), seen)
        result = run_below(level, op, values)
        if single:
            return batched(cast(Tensor, result), 0, level)
        return tuple([batched(r, 0, level) for r in cast(tuple[Tensor, ...], result)])

    return call


def _aligned(
    level: VmapLevel, params: Sequence[object], rank: int, seen: Sequence[int] = ()
) -> list[object]:
    """Values with the batch in front and their other dimensions at the end of ``rank`` of them.

    seen: where the two tensors are, or numbers, of whose dtypes modes see PyTorch's rule ask.
    """
    metas = [p.meta for p in params if isinstance(p, Tensor)]
    kind = None
    if len({m.dtype for m in metas}) > 1:
        kind = result_type_of([*metas, *(p for p in params if isinstance(p, _NUMBERS))])
    values: list[object] = []
    two = [params[i] for i in seen if i < len(params)] if tls.st.dispatch_modes else []
    looked_at = len({_is_batch_of_numbers(p, level) for p in two}) == 2
    with level.lower():
        for p in params:
            if p.__class__ is BatchedTensor and p._interpreter is level:
                t = p
                value = in_front(t._value, t._bdim)
                if not t.meta.ndim:
                    if looked_at:
                        value.select(0, 0)  # PyTorch's rule takes its dtype; modes see that
                    # A tensor of rank 0 has a weak say in the type of the result, a batch a full.
                    if kind is not None and t.meta.dtype is not bool_:
                        value = value.to(kind)
                values.append(in_front(value, 0, rank))
            else:
                values.append(p)
    return values


def _is_batch_of_numbers(p: object, level: VmapLevel) -> bool:
    """Whether a parameter is a tensor without dimensions for each member of the batch."""
    return p.__class__ is BatchedTensor and p._interpreter is level and not p.meta.ndim


_COMPARISONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))
_NUMBERS = (int, float, bool, complex)


def in_front(t: Tensor, dim: int, rank: int = 0) -> Tensor:
    """``t`` with dimension ``dim`` first, and the others behind as many 1s as ``rank`` asks."""
    if dim:
        order = [dim, *(i for i in range(t.meta.ndim) if i != dim)]
        t = t.permute(order)
    missing = rank + 1 - t.meta.ndim
    if missing > 0:
        shape = t.meta.shape
        t = t.view((shape[0], *[1] * missing, *shape[1:]))  # one view, as modes see in PyTorch
    return t


def in_place_call(op: OpOverload) -> Call:
    def call(level: VmapLevel, params: Sequence[object]) -> object:
        target = params[0]
        if target.__class__ is not BatchedTensor or cast(Wrapper, target)._interpreter is not level:
            refuse_unbatched_target(op)
        rank = cast(Tensor, target).meta.ndim
        others = [p.meta.ndim for p in params[1:] if isinstance(p, Tensor)]
        values = _aligned(level, params, max([rank, *others]))
        with level.lower():
            values[0] = in_front(target._value, target._bdim)
        run_below(level, op, values)
        return target

    return call


def refuse_unbatched_target(op: OpOverload) -> NoReturn:
    """The error of a write of a batch into a tensor that has none."""
    raise RuntimeError(
        "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor "
        "`other` in extra_args that has more elements than `self`. This happened due to `other` "
        "being vmapped over but `self` not being vmapped over in a vmap. Please try to use "
        "out-of-place operators instead of in-place operators. If said operator is being called "
        f"inside the PyTorch framework, consider using a different operator. It is {op.name()}"
    )


# --- written out ------------------------------------------------------------------------------


def written_out(op: OpOverload, otherwise: Boxed) -> Boxed:
    """The kernel of a pointwise operator for batches in front, of one rank, and numbers.

    Anything else goes to ``otherwise``, its plain form. `vmap` of a hundred additions takes 2.6 us
    each with it, 4.4 without (make bench).
    """
    arguments, returns = op._schema.arguments, op._schema.returns
    tensors = [i for i, a in enumerate(arguments) if a.type.written in ("Tensor", "Tensor?")]
    lists = any(a.type.written.startswith("Tensor") and "[" in a.type.written for a in arguments)
    if lists or not tensors or len(returns) != 1 or op.facts.shape is None:
        return otherwise
    passed = ", ".join(f"p{i}" for i in range(len(arguments)))
    values = ", ".join(f"_v{i}" if i in tensors else f"p{i}" for i in range(len(arguments)))
    lines = [
        f"def _kernel(_ks, {passed}):",
        "    _st = _tls.st",
        "    _level = _st.transforms[-1]",
        "    _keys = _rank = 0",
    ]
    for i in tensors:
        lines += [
            f"    _c = p{i}.__class__",
            "    if _c is _Batched:",
            f"        _v{i} = p{i}._value",
            f"        _n = len(_v{i}.meta.shape)",
            f"        if p{i}._interpreter is not _level or p{i}._bdim or _n != (_rank or _n):",
            f"            return _otherwise(_ks, {passed})",
            "        _rank = _n",
            f"        _keys |= _v{i}._keys",
            "    elif _c in _NUMBERS:",
            f"        _v{i} = p{i}",
            "    else:",
            f"        return _otherwise(_ks, {passed})",
        ]
    least = 1 if len(tensors) == 1 else 2  # of rank 0 tensors say less in promotion than numbers
    lines += [
        f"    _ks2 = (_keys | _level.include_below | _st.include & {~TOP}) & _st.keep",
        f"    if _ks2 & {~PLAIN} or _rank < {least} or _st.exclude != _level.exclude:",
        f"        return _otherwise(_ks, {passed})",
        f"    return _batched((_get(_ks2) or _resolve(_ks2))(_ks2, {values}), 0, _level)",
    ]
    space: dict[str, object] = {
        "_tls": tls,
        "_Batched": BatchedTensor,
        "_NUMBERS": frozenset((*_NUMBERS, type(None))),
        "_otherwise": otherwise,
        "_get": op._table.get,
        "_resolve": op.resolve,
        "_batched": batched,
    }
    return generate("\n".join(lines) + "\n", "_kernel", "batched", space)


__all__ = ["VmapInfo", "VmapLevel", "in_front", "in_place_call", "pointwise_call", "written_out"]
