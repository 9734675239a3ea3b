"""What a function of tensors does as a program of NumPy's arrays, recorded once.

For work that is done again and again on tensors of the same metas and costs the calls of its
operators, not their arithmetic, such as the backward pass of a small graph. A mode sees the calls
of one run; each is written out as a line that calls the operator's array kernel, or lays a view
over memory. What follows from constants alone is computed once. Nothing is traced: there are no
fakes, no graph and no import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maquette.core.dtype import float32, float64
from maquette.core.meta import TensorMeta
from maquette.dispatch.generated import generate
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.matching import bind
from maquette.dispatch.tags import Tag
from maquette.library.arrays import backend_kernel, settle
from maquette.tensor.backend import backend_of, run_kernel
from maquette.tensor.keys import keys_for
from maquette.tensor.tensor import Tensor
from maquette.transforms.replayed import RECORD, Unrecordable

Array = Any
_UNFIT = {
    Tag.data_dependent_output,
    Tag.dynamic_output_shape,
    Tag.nondeterministic_seeded,
    Tag.inplace_view,
}
_BYTES = "fiub"  # kinds of arrays whose memory another array may be laid over
_MOST_ELEMENTS = 4096  # of a constant: what is computed once is kept


class _Recorder(TorchDispatchMode):
    """Sees the calls that reach a backend, with canonical parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[OpOverload, Sequence[object], object]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not isinstance(func, OpOverload):
            raise Unrecordable
        params = bind(func._schema, args, kwargs or {}, takes_numbers=func.takes_numbers)
        self.calls.append((func, params, result))
        return result


def recorded(
    function: Callable[[], Sequence[Tensor | None]],
    operands: Sequence[Tensor],
    constants: Sequence[Tensor],
) -> Callable[[Sequence[Array]], Sequence[Array]]:
    """``run(arrays of operands)``, which gives the arrays of what the function gave, each its own.

    They are laid out row by row; None stays None. operands, constants: the tensors that the
    function uses; constants have these values in every run. Raises Unrecordable where data decides,
    something is mutated or drawn, or a library's own kernel is to run.
    """
    with _Recorder() as recorder:
        results = function()
    program = _Program(operands, constants)
    for op, params, result in recorder.calls:
        program.call(op, params, result)
    run = program.written(results)
    runner = backend_of("cpu").runner
    given = [t._mq_data for t in operands]
    for found, t in zip(run_kernel(runner, run, given), results, strict=True):  # type: ignore[call-overload]  # a tuple
        # The engine's own answer is there: a program that differs from it is none.
        if t is not None and not np.array_equal(
            found, t._mq_data, equal_nan=found.dtype.kind in "fc"
        ):
            raise Unrecordable

    def quietly(arrays: Sequence[Array]) -> Any:
        try:
            return runner.run(run, arrays)
        except RuntimeError as error:  # `run_kernel`, written out
            return runner.again(error, run, arrays)

    return quietly


class _Program:
    """The lines of a program; every tensor of the recording has a name."""

    def __init__(self, operands: Sequence[Tensor], constants: Sequence[Tensor]) -> None:
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.kept: list[object] = []  # what has a name lives, so that no other takes its id
        self.roots: dict[int, tuple[str, TensorMeta]] = {}  # by storage: an array over all of it
        self.own: set[str] = set()  # arrays that the program made and owns
        self.space: dict[str, object] = {"_nd": np.ndarray, "_array": np.array, "_lay": _laid_out}
        self.space["_xp"] = backend_of("cpu").namespace
        self.operands = [f"v{i}" for i in range(len(operands))]
        self.count = len(operands)
        for name, t in zip(self.operands, operands):
            self._name(t, name)
        for t in constants:
            self._constant(t)

    def call(self, op: OpOverload, params: Sequence[object], result: object) -> None:
        """Add a call of an operator."""
        if op._schema.is_mutable or not _UNFIT.isdisjoint(op.tags) or _is_overridden(op):
            raise Unrecordable
        results = _tensors(result)
        for t in results:
            if t._keys != keys_for(t.meta) or not _is_plain(t.meta):
                raise Unrecordable
        if not any(self._varies(p) for p in params):
            for t in results:
                self._constant(t)
            return
        given = [t for p in params for t in _tensors(p)]
        if op.array_kernel is None:
            for t in results:
                self._view(t, given)
            return
        self._kernel(op, params, result, results)

    def written(self, results: Sequence[Tensor | None]) -> Callable[[Sequence[Array]], Any]:
        """The function that runs the lines."""
        found: list[str] = []
        for t in results:
            name = "None" if t is None else self._named(t)
            if name != "None" and (name not in self.own or name in found):
                self.lines.append(f"    r{len(found)} = _array({name}, order='C')")
                name = f"r{len(found)}"
            elif name != "None":
                # Also where the kernel gave an operand as it stands, or was laid out otherwise.
                self.lines.append(
                    f"    if {name}.base is not None or not {name}.flags.c_contiguous:"
                )
                self.lines.append(f"        {name} = _array({name}, order='C')")
            found.append(name)
        taken = [f"    {', '.join(self.operands)}, = arrays"] if self.operands else []
        answer = f"    return ({', '.join(found)},)"
        source = "\n".join(["def _run(arrays):", *taken, *self.lines, answer]) + "\n"
        return generate(source, "_run", "recorded", self.space)

    # --- names -----------------------------------------------------------------------

    def _name(self, t: Tensor, name: str) -> None:
        self.names[id(t)] = name
        self.kept.append(t)
        meta = t.meta
        if meta.is_contiguous and meta.dtype.numpy.kind in _BYTES:
            self.roots.setdefault(id(t._storage), (name, meta))

    def _fresh(self, t: Tensor) -> str:
        name = f"v{self.count}"
        self.count += 1
        self._name(t, name)
        return name

    def _constant(self, t: Tensor) -> None:
        if t.meta.numel > _MOST_ELEMENTS and t.meta.storage_bytes > _MOST_ELEMENTS * 8:
            raise Unrecordable
        name = f"c{len(self.space)}"
        self.space[name] = t._mq_data
        self.names[id(t)] = name
        self.kept.append(t)

    def _named(self, t: Tensor) -> str:
        name = self.names.get(id(t))
        if name is None:
            raise Unrecordable  # it came from elsewhere
        return name

    def _varies(self, p: object) -> bool:
        return any(self._named(t).startswith("v") for t in _tensors(p))

    def _passed(self, p: object) -> str:
        if isinstance(p, Tensor):
            return self._named(p)
        if isinstance(p, (tuple, list)) and any(isinstance(v, Tensor) for v in p):
            return f"[{', '.join(map(self._passed, p))}]"
        return self._put(p)

    def _put(self, value: object) -> str:
        name = f"k{len(self.space)}"
        self.space[name] = value
        return name

    # --- lines -----------------------------------------------------------------------

    def _view(self, t: Tensor, given: Sequence[Tensor]) -> None:
        """Lay a view over the memory of the array that it is a view of."""
        root = self.roots.get(id(t._storage))
        meta = t.meta
        if root is None or all(t._storage is not g._storage for g in given):
            raise Unrecordable
        over, whole = root
        size = meta.itemsize
        offset = meta.offset - whole.offset
        # Both ends in elements of the storage; the root's are all that its array has.
        inside = meta.storage_bytes <= whole.storage_bytes and offset >= 0
        if meta.dtype is not whole.dtype or not inside or not meta.numel or meta.ndim > 64:
            raise Unrecordable
        strides = tuple([s * size for s in meta.strides])
        parts = [self._put(v) for v in (tuple(meta.shape), meta.dtype.numpy)]
        rest = [over, str(offset * size), self._put(strides)]
        self.lines.append(f"    {self._fresh(t)} = _nd({', '.join([*parts, *rest])})")

    def _kernel(
        self, op: OpOverload, params: Sequence[object], result: object, results: list[Tensor]
    ) -> None:
        passed = [self._passed(p) for p in params]
        if isinstance(result, Tensor):
            known = _ufunc(op, params, result.meta)
            name = self._fresh(result)
            self.own.add(name)
            function = self._put(op.array_kernel if known is None else known[0])
            given = ["_xp", *passed] if known is None else passed[: known[1]]
            self.lines.append(f"    {name} = {function}({', '.join(given)})")
            self.lines += self._settled(op, name, result.meta, checked=known is None)
            given = [self._named(t) for p in params for t in _tensors(p)]
            if known is None and given:  # a kernel may give its operand as it stands
                same = " or ".join(f"{name} is {p}" for p in given)
                self.lines += [f"    if {same}:", f"        {name} = {name}.copy()"]
            return
        if not isinstance(result, (tuple, list)) or any(
            r is not None and not isinstance(r, Tensor) for r in result
        ):
            raise Unrecordable
        names = [f"_{i}" if r is None else self._fresh(r) for i, r in enumerate(result)]
        function = self._put(op.array_kernel)
        self.lines.append(f"    {', '.join(names)}, = {function}({', '.join(['_xp', *passed])})")
        for name, r in zip(names, result):
            if isinstance(r, Tensor):
                self.lines += self._settled(op, name, r.meta, checked=True)

    def _settled(self, op: OpOverload, name: str, meta: TensorMeta, *, checked: bool) -> list[str]:
        """Lines that lay a kernel's result out as the shape rule says, where it is not so."""
        strides = self._put(tuple([s * meta.itemsize for s in meta.strides]))
        wrong = f"{name}.strides != {strides}"
        if checked:
            shape, kind = self._put(tuple(meta.shape)), self._put(meta.dtype.numpy)
            wrong = (
                f"{name}.__class__ is not _nd or {name}.dtype is not {kind} or {wrong} "
                f"or {name}.shape != {shape}"
            )
        laid_out = f"_lay({self._put(op)}, {self._put(meta)}, {name})"
        return [f"    if {wrong}:", f"        {name} = {laid_out}"]


def _laid_out(op: OpOverload, meta: TensorMeta, result: object) -> Array:
    return settle(op, meta, result)[1]


def _ufunc(
    op: OpOverload, params: Sequence[object], meta: TensorMeta
) -> tuple[Callable[..., Array], int] | None:
    """The function of NumPy that the kernel comes to for these parameters, and of how many.

    None where there is none, where something is promoted, and where it would give a number.
    """
    known, kind = op.facts.ufunc, meta.dtype
    if known is None or known[0] is not op.array_kernel or not meta.ndim:
        return None
    if kind is not float32 and kind is not float64:
        return None
    function = getattr(np, known[1])
    count: int = function.nin
    for p in params[:count]:
        of_kind = isinstance(p, Tensor) and p.meta.dtype is kind and p.meta.ndim > 0
        if not (of_kind or type(p) in (int, float)):
            return None
    rest = op._schema.arguments[count:]
    if not isinstance(params[0], Tensor) or [*params[count:]] != [a.default for a in rest]:
        return None
    return function, count


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in _tensors(v)]
    return []


def _is_plain(meta: TensorMeta) -> bool:
    return meta.device.type == "cpu" and not meta.dtype.is_complex


def _is_overridden(op: OpOverload) -> bool:
    """Whether data on the cpu is served by another kernel than the one of the operator's page."""
    kernel = op.kernel_at(DispatchKey.CPU)
    return kernel is None or kernel.factory is not backend_kernel


RECORD[:] = [recorded]
