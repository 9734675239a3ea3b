"""Compiled functions: a program for each combination of metas, run by an engine.

A call looks up its program by interned metas, structure and state; a second call with equal ones
traces nothing. Tensors that the program changes are the engine's memory between calls for as long
as nobody else mutates them (`lending.py`), and are donated, so that it is used again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maquette.api.creation import tensor
from maquette.autograd import Function as AutogradFunction
from maquette.autograd import is_grad_enabled, no_grad
from maquette.compile.capture import Call, Captured, check_not_aliased
from maquette.compile.engines import Engine, values_of
from maquette.compile.errors import CompileError
from maquette.compile.lending import (
    lend,
    lost,
    release,
    shown_by,
    tensor_like,
    tensor_of,
)
from maquette.compile.program import ArrayProgram
from maquette.compile.state import State
from maquette.compile.tracing import Draw
from maquette.core.dtype import float64
from maquette.core.meta import TensorMeta
from maquette.core.promotion import defaults
from maquette.core.pytree import (
    TreeSpec,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
)
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import ops
from maquette.fx.node import Node
from maquette.tensor.tensor import Tensor
from maquette.tensor.up_to_date import own_memory


class Compiled:
    """A function, or a module's call, run by an engine; what `compile` gives.

    programs: how many combinations of metas have been compiled. traces: how often it was traced.
    """

    def __init__(self, function: Callable[..., Any], engine: Engine) -> None:
        self.function = function
        self.engine = engine
        self.traces = 0
        self._state: State | None = None
        self._programs: dict[object, _Program] = {}

    @property
    def programs(self) -> int:
        """How many combinations of metas have been compiled."""
        return len(self._programs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        program, tensors = self._prepared(args, kwargs)
        return program.run(tensors)

    def __getattr__(self, name: str) -> Any:
        """A compiled module has the module's members (`parameters`, `train`, `state_dict` ...)."""
        if name.startswith("_") or "function" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.function, name)

    def lowered(self, *args: Any, **kwargs: Any) -> Any:
        """What the engine makes of this call: for JAX, a `jax.stages.Lowered`."""
        program, tensors = self._prepared(args, kwargs)
        return program.lowered(tensors)

    def _prepared(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[_Program, list[Tensor]]:
        if self._state is None:
            self._state = State(self.function)
        leaves, spec = tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        for t in tensors:
            if t._mq_data is None or t.meta.device.type != "cpu":
                raise CompileError(
                    f"compiled functions take tensors with data on the cpu, got {t.meta}"
                )
        held = self._state.tensors()
        key = self._key(leaves, spec, tensors, held)
        program = self._programs.get((key, None, None)) or self._special(key, tensors, held)
        if program is None:
            program = _Program(self, leaves, spec, tensors, self._state, _names(args, kwargs))
            held = self._state.tensors()  # the trace may have met more
            key = self._key(leaves, spec, tensors, held)
            there = _with_gradients(held) if program.reads_grads else None
            offsets = _offsets(tensors) if program.reads_offsets else None
            self._programs[key, there, offsets] = program
        return program, [*tensors, *held]

    def _special(
        self, key: object, tensors: Sequence[Tensor], held: Sequence[Tensor]
    ) -> _Program | None:
        """A program that depends on which gradients are there, or on where arguments lie."""
        there, offsets = _with_gradients(held), _offsets(tensors)
        choices = ((there, None), (None, offsets), (there, offsets))
        found = [self._programs.get((key, *choice)) for choice in choices]
        return next((program for program in found if program is not None), None)

    def _key(
        self,
        leaves: Sequence[Any],
        spec: TreeSpec,
        tensors: Sequence[Tensor],
        held: Sequence[Tensor],
    ) -> object:
        statics = tuple([_static(leaf) for leaf in leaves])
        assert self._state is not None
        metas = tuple([(_anywhere(t.meta), t.requires_grad) for t in tensors])
        mine = tuple([(t.meta, t.requires_grad) for t in held])
        shared = _sharing([*tensors, *held])
        state = self._state.shape(), self._state.bound()
        return spec, statics, metas, mine, shared, state, is_grad_enabled(), _defaults()


def _anywhere(meta: TensorMeta) -> TensorMeta:
    """A meta from the beginning of its memory: slices of one tensor are alike to most programs."""
    return meta.view(meta.shape, meta.strides, 0) if meta.offset else meta


def _offsets(tensors: Sequence[Tensor]) -> tuple[object, ...]:
    return tuple([t.meta.offset for t in tensors])


def _with_gradients(held: Sequence[Tensor]) -> tuple[bool, ...]:
    return tuple([t._grad is not None for t in held])


def _defaults() -> object:
    return defaults.float_dtype if hasattr(defaults, "float_dtype") else None


def _sharing(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """For each tensor the first over its storage; empty where each has a storage of its own."""
    storages = [id(t._storage) for t in tensors]
    if len(set(storages)) == len(storages):
        return ()
    return tuple([storages.index(s) for s in storages])


def _static(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return Tensor
    try:
        hash(leaf)
    except TypeError:
        return type(leaf), repr(leaf)
    return type(leaf), leaf


def _names(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """How each tensor among the arguments is called: "[0]", "['x']"."""
    found = []
    for values in (args, kwargs):
        for path, leaf in tree_flatten_with_path(values)[0]:
            if isinstance(leaf, Tensor):
                found.append(keystr(path))
    return found


class _Program:
    """One combination of metas: its graph, and what the engine made of it."""

    def __init__(
        self,
        owner: Compiled,
        leaves: Sequence[Any],
        spec: TreeSpec,
        tensors: Sequence[Tensor],
        state: State,
        names: Sequence[str],
    ) -> None:
        self.owner = owner
        self.engine = owner.engine
        self.state = state
        self.count = len(tensors)
        owner.traces += 1
        function = _of_tensors(owner.function, leaves, spec)
        call = Call(function, tensors, state, [])
        found = call.captured()
        while state.meet(value for _, value in found.traced.constants):
            found = Call(function, tensors, state, []).captured()
        held = state.tensors()
        self.names = [*names, *_state_names(state, held)]
        self.lent: set[int] = set()
        if held:
            call = Call(function, tensors, state, [_grad_to_trace(t) for t in held])
            found = call.captured()
        self.numbers = len(call.numbers) if held else 0
        self.reads_grads = _reads_gradients(found, len(tensors) + len(held) + self.numbers)
        self.grads = [False] * len(held)
        if self.reads_grads:  # gradients accumulate: what is there decides
            call.grads = [t._grad for t in held]
            self.grads = [t._grad is not None for t in held]
            found = call.captured()
        self.reads_offsets = _reads_offsets(found, tensors)
        check_not_aliased([*tensors, *held], found.changes)
        # A program that goes backward itself has freed what its results would need.
        self.needs_grad = any(found.needs) and not _goes_backward(found)
        if self.needs_grad:
            tangents = [r.meta["val"] for r, n in zip(found.results, found.needs) if n]
            try:
                found = call.captured([_like(t) for t in tangents])
            except RuntimeError as error:
                if "second time" not in str(error):
                    raise
                self.needs_grad = False  # it went backward from its results itself
        self.captured = found
        self._compile(found, [*tensors, *held])

    # --- building --------------------------------------------------------------------

    def _compile(self, found: Captured, tensors: Sequence[Tensor]) -> None:
        count = len(tensors) + self.numbers
        constants = found.traced.constants
        given = found.inputs[count:] if any(self.grads) else []
        self.inputs = [*found.inputs[:count], *given, *[n for n, _ in constants]]
        self.outputs = [r for r in found.results if isinstance(r, Node)]
        changes = [(c, c.node) for c in found.changes]
        values = [(c.number, node) for c, node in changes if c.kind == "value" and node is not None]
        self.values = [(number, node.meta["val"].meta) for number, node in values]
        self.others = [c for c in found.changes if c.kind != "value"]
        outputs: list[Node | None] = [*self.outputs, *[node for _, node in values]]
        outputs += [c.node for c in self.others if c.node is not None]
        names = [*self.names, *[f"constant {i}" for i in range(len(self.inputs))]]
        changed = [] if self.needs_grad else [v for v in self.values if v[0] >= self.count]
        self.donated = [number for number, _ in changed]
        self.released = [number for number, meta in changed if meta is tensors[number].meta]
        self.saved: list[Node] = []
        self.backward: Any = None
        if self.needs_grad:
            self._split(found, outputs)
        program = ArrayProgram(self.inputs, [*outputs, *self.saved])
        self.engine.check(program)
        self.forward = self.engine.runnable(program, self.donated, names)

    def _split(self, found: Captured, outputs: Sequence[Node | None]) -> None:
        """Part the graph: what tangents reach is backward, what it needs of the rest is saved."""
        late: set[Node] = set(found.tangents)
        for node in found.traced.graph.nodes:
            if node.op != "output" and any(n in late for n in node.all_input_nodes):
                late.add(node)
        grads = [g for g in found.grads if isinstance(g, Node)]
        needed: dict[Node, None] = {}
        waiting = list(grads)
        seen: set[Node] = set()
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in late:
                waiting += node.all_input_nodes
            else:
                needed[node] = None
        needed = {n: None for n in needed if n not in late}
        self.saved = list(needed)
        program = ArrayProgram([*self.saved, *found.tangents], list(found.grads))
        self.engine.check(program)
        self.backward = self.engine.runnable(program, [], [])

    # --- running ---------------------------------------------------------------------

    def run(self, tensors: Sequence[Tensor]) -> Any:
        if self.needs_grad:
            outs = _CompiledCall.apply(self, *tensors)
            results = iter(outs if isinstance(outs, tuple) else (outs,))
        else:
            results = iter(self._changed(tensors))
        found = self.captured
        values = [next(results) if isinstance(r, Node) else r for r in found.results]
        return tree_unflatten(values, found.spec)

    def _changed(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The results of a call whose memory the engine may use again."""
        arrays = self.arrays(tensors)
        given = [(tensors[i], arrays[i]) for i in self.released]
        given = [(t, array) for t, array in given if shown_by(self.engine, t) is array]
        for t, _ in given:
            release(t)
        try:
            return self._finished(self.forward(arrays), tensors)
        except BaseException:
            for t, array in given:
                if t._mq_data is None:
                    lost(self.engine, t, array)
            raise

    def lowered(self, tensors: Sequence[Tensor]) -> Any:
        return self.forward.lowered(self.arrays(tensors))  # type: ignore[attr-defined]

    def arrays(self, tensors: Sequence[Tensor]) -> list[Any]:
        """The arrays that the engine takes: those that tensors show still, others put there."""
        found = [self._array(i, t) for i, t in enumerate(tensors)]
        if self.numbers:
            found += [
                self.engine.given(tensor(n.value, dtype=float64), "") for n in self.state.numbers()
            ]
        if any(self.grads):
            held = tensors[self.count :]
            given = [t._grad for t, there in zip(held, self.grads) if there]
            found += [self._array(-1, g) for g in given if g is not None]
        at = len(found)
        for i, (_, value) in enumerate(self.captured.traced.constants):
            if isinstance(value, Draw):
                found.append(self.engine.given(value.numbers(), ""))
            else:
                found.append(self._array(at + i, value))
        if self.donated and len({id(a) for a in found}) < len(found):  # one memory given twice
            found = [a.copy() for a in found]
        return found

    def _array(self, number: int, t: Tensor) -> Any:
        array = shown_by(self.engine, t)
        if array is None:
            name = self.names[number] if 0 <= number < len(self.names) else ""
            if number < self.count:
                return self.engine.given(t, name)
            array = self.engine.put(t, name)
            # Once: what is mutated between calls is copied to the engine each time.
            if number >= self.count and number not in self.lent:
                self.lent.add(number)
                lend(self.engine, t, array)
        return array

    def _finished(self, arrays: Sequence[Any], tensors: Sequence[Tensor]) -> list[Tensor]:
        """Write what changed; the results as tensors."""
        engine, first, left = self.engine, self.count, iter(arrays)
        results = [tensor_like(engine, next(left), o.meta["val"]) for o in self.outputs]
        for (number, meta), array in zip(self.values, left):
            t = tensors[number]
            if number < first or t.meta is not meta or not lend(engine, t, array):
                _put_values(t, engine.taken(array), meta)
            t._version_counter().value += 1
        for change in self.others:
            held, value = tensors[first + change.number], change.plain
            if change.node is not None:
                value = tensor_like(engine, next(left), change.node.meta["val"])
            if change.kind == "grad":
                held.grad = value
            else:
                optimizer, key = change.key
                self.state.optimizers[optimizer].state[held][key] = value
        return results


class _CompiledCall(AutogradFunction):
    """A compiled forward whose backward is compiled too."""

    @staticmethod
    def forward(  # type: ignore[override]  # as `apply` calls it
        ctx: Any, program: _Program, *tensors: Tensor
    ) -> Any:
        arrays = program.forward(program.arrays(tensors))
        kept = len(arrays) - len(program.saved)
        ctx.program, ctx.saved = program, arrays[kept:]
        outs = program._finished(arrays[:kept], tensors)
        needs = iter(program.captured.needs)
        flags = [
            next(needs) if isinstance(r, (Node, Tensor)) else not next(needs)
            for r in program.captured.results
        ]
        ctx.mark_non_differentiable(*[o for o, f in zip(outs, flags) if not f])
        ctx.metas = [o.meta for o, f in zip(outs, flags) if f]
        ctx.places = [i for i, f in enumerate(flags) if f]
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        program = ctx.program
        engine = program.engine
        tangents = []
        for place, meta in zip(ctx.places, ctx.metas):
            g = grads[place]
            array = np.zeros(meta.shape, meta.dtype.numpy) if g is None else values_of(g)
            tangents.append(engine.put(tensor_of(np.ascontiguousarray(array), meta), ""))
        arrays = program.backward([*ctx.saved, *tangents])
        nodes = program.captured.grads
        found = [
            None if n is None else tensor_like(engine, a, n.meta["val"])
            for n, a in zip(nodes, arrays)
        ]
        return (None, *found)


def _put_values(t: Tensor, array: Any, meta: TensorMeta) -> None:
    """Write an array to a tensor; with the sizes and strides that the program gave it."""
    if t.meta is not meta and (t.meta.shape, t.meta.strides) != (meta.shape, meta.strides):
        with no_grad():
            if t._storage.nbytes() < meta.storage_bytes:
                ops.aten.resize_.default(t, [meta.storage_bytes // meta.itemsize])
            ops.aten.as_strided_.default(t, meta.shape, meta.strides, meta.offset)
    own_memory(t)
    assert t._mq_data is not None
    if t.is_conj() or t.is_neg():
        array = -array if t.is_neg() else np.conj(array)
    np.copyto(t._mq_data, array, casting="unsafe")


def _like(fake: Tensor) -> Tensor:
    meta = fake.meta
    return tensor_of(np.zeros(meta.shape, meta.dtype.numpy), meta)


def _of_tensors(
    function: Callable[..., Any], leaves: Sequence[Any], spec: TreeSpec
) -> Callable[..., Any]:
    """The function of the tensors among the leaves."""

    def run(*tensors: Tensor) -> Any:
        given = iter(tensors)
        filled = [next(given) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        call: Any = tree_unflatten(filled, spec)
        args, kwargs = call
        return function(*args, **kwargs)

    return run


def _grad_to_trace(t: Tensor) -> Tensor | None:
    """Zeros in the place of a gradient that may be there."""
    if not t.requires_grad:
        return None
    return tensor_of(np.zeros(t.meta.shape, t.meta.dtype.numpy), t.meta)


def _reads_gradients(found: Captured, count: int) -> bool:
    """Whether the program uses gradients from before it, or leaves them as they were."""
    return any(n.users for n in found.inputs[count:])


def _reads_offsets(found: Captured, tensors: Sequence[Tensor]) -> bool:
    """Whether it matters to the program where in their memory its arguments begin."""
    for change in found.changes:
        if change.kind == "value" and change.node is not None and change.number < len(tensors):
            meta, before = change.node.meta["val"].meta, tensors[change.number].meta
            if (meta.shape, meta.strides) != (before.shape, before.strides):
                return True
    return any(
        argument.name == "storage_offset"
        for node in found.traced.graph.nodes
        if isinstance(node.target, OpOverload)
        for argument in node.target._schema.arguments
    )


def _goes_backward(found: Captured) -> bool:
    """Whether the program computes gradients of the state itself."""
    return any(
        c.kind == "grad" and c.node is not None and c.node not in found.inputs
        for c in found.changes
    )


def _state_names(state: State, held: Sequence[Tensor]) -> list[str]:
    """A name for each tensor of a state: a parameter's, also for what an optimizer keeps of it."""
    names: dict[int, str] = {}
    for module in state.modules[:1]:
        for name, t in [*module.named_parameters(), *module.named_buffers()]:
            names[id(t)] = name
    for optimizer in state.optimizers:
        for parameter, values in optimizer.state.items():
            for value in values.values():
                if isinstance(value, Tensor) and value.meta.shape == parameter.meta.shape:
                    names[id(value)] = names.get(id(parameter), "")
    return [names.get(id(t), "") for t in held]


__all__ = ["Compiled"]
