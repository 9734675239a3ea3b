"""The steps of a long loop as one program of arrays: traced once, then run without tensors.

A step of small operators costs the calls of these operators, not their arithmetic. A function that
a loop calls many times is pure, so the graph of one call says what each call does: it is traced,
functionalized, and written out as lines that call the operators' array kernels one after another.
What data steers, what draws random numbers and what anybody watches runs call by call as before.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maquette.core.meta import TensorMeta
from maquette.dispatch.generated import generate
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tls import tls
from maquette.fx.node import Node
from maquette.library.arrays import backend_kernel
from maquette.tensor.backend import backend_of, run_kernel
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators

Function = Callable[..., Any]

LONG = 64
"""From how many steps on a trace, about 1.5 ms, costs less than it saves (2 operators a step)."""


class ArraySteps:
    """A function of tensors as a function of their arrays.

    `run` takes the carry and all rows, and gives the last carry and all outputs, stacked.
    """

    def __init__(self, function: Function, carry: Sequence[Tensor], rows: Sequence[Tensor]) -> None:
        """Trace a call of the function on a carry and slices of rows; `Untraceable` if it fails."""
        carried = len(carry)
        operands = [*carry, *[operators.select(x, 0, 0) for x in rows]]
        tracing = importlib.import_module("maquette.compile.tracing")
        programs = importlib.import_module("maquette.compile.program")
        self._tensor_of = importlib.import_module("maquette.compile.compiled").tensor_of
        try:
            traced = tracing.graph_of_call(function, [t.detach() for t in operands])
            inputs = [*traced.placeholders, *[node for node, _ in traced.constants]]
            program = programs.ArrayProgram(inputs, traced.outputs)
        except Exception as error:
            raise Untraceable from error  # the call itself, made as it stands, says what is wrong
        constants = [value for _, value in traced.constants]
        nodes = [*inputs, *program.nodes]
        plain = all(map(_is_plain, [*operands, *constants]))
        if not (plain and all(map(_is_plain_node, nodes))):
            raise Untraceable
        if any(map(_is_overridden, traced.graph.nodes)):
            raise Untraceable  # what a library registered is to run
        found = [node.meta["val"].meta for node in traced.outputs]
        self.carried, self.given = found[:carried], found[carried:]
        if any(not _same(m, t.meta) for m, t in zip(self.carried, operands)):
            raise Untraceable  # the carry changes
        self.constants = [t._mq_data for t in constants]
        self.backend = backend_of("cpu")
        self._run = _written_out(program, traced.placeholders, carried, self.backend)

    def run(
        self, carry: Sequence[Tensor], rows: Sequence[Tensor], before: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Go along the first dimension of ``rows``; ``before`` has the first step's outputs."""
        length = len(rows[0]._mq_data)  # type: ignore[arg-type]  # an array
        outs = [np.empty((length + 1, *m.shape), m.dtype.numpy) for m in self.given]
        for out, t in zip(outs, before):
            out[0] = t._mq_data
        arrays = [[t._mq_data for t in carry], [*map(_slices, rows)], [*map(_places, outs)]]
        try:
            last = run_kernel(self.backend.runner, self._run, self.constants, *arrays)
        except Exception as error:
            raise Untraceable from error  # calls one by one say which operator refuses its data
        # Copies: a carry may be a view of a row.
        made = [self._tensor_of(np.array(a), m) for a, m in zip(last, self.carried)]  # type: ignore[call-overload]  # a list
        whole = [m.fresh((length + 1, *m.shape)) for m in self.given]
        return made, [self._tensor_of(out, m) for out, m in zip(outs, whole)]


def _slices(t: Tensor) -> Any:
    """The arrays along the first dimension; NumPy itself gives numbers where they have no other."""
    array = t._mq_data
    assert array is not None
    return array if array.ndim > 1 else [array[i : i + 1].reshape(()) for i in range(len(array))]


def _places(out: Any) -> Any:
    """Where the outputs of the steps after the first go: arrays, also for numbers."""
    return out[1:] if out.ndim > 1 else out[1:, None]


class Untraceable(Exception):
    """The calls are to be made one by one, which tell of what fails."""


def _written_out(
    program: Any, placeholders: Sequence[Node], carried: int, backend: Any
) -> Callable[..., Any]:
    """The loop over a program's steps as source: 2 us a step less than a loop over its nodes."""
    names = {node: f"v{i}" for i, node in enumerate([*program.inputs, *program.nodes])}
    carry = [names[n] for n in placeholders[:carried]]
    rows = [names[n] for n in placeholders[carried:]]
    results = [names[n] for n in program.outputs]
    constants = [names[n] for n in program.inputs[len(placeholders) :]]
    slots = {node: f"o{k}" for k, node in enumerate(program.outputs[carried:])}
    outs = [f"o{k}" for k in range(len(results) - carried)]
    lines = [f"    {_joined(constants)} = constants"] if constants else []
    lines.append(f"    {_joined(carry)} = carry")
    lines.append(f"    for {_joined([*rows, *outs])} in zip(*rows, *outs):")
    steps = _StepLines(names, slots, backend)
    for i, (node, step) in enumerate(program.steps):
        lines += steps.of(i, node, step)
    copied = [(out, name) for out, name in zip(outs, results[carried:]) if out not in steps.filled]
    lines += [f"        {out}[...] = {name}" for out, name in copied]
    if carry != results[:carried]:
        lines.append(f"        {', '.join(carry)} = {', '.join(results[:carried])}")
    lines.append(f"    return [{', '.join(carry)}]")
    source = "def _steps(constants, carry, rows, outs):\n" + "\n".join(lines) + "\n"
    return generate(source, "_steps", "steps", steps.space)


class _StepLines:
    """The lines of nodes, what these call by name, and the slots of outputs that they fill."""

    def __init__(self, names: dict[Node, str], slots: dict[Node, str], backend: Any) -> None:
        self.names = names
        self.slots = slots
        self.filled: set[str] = set()
        self.space: dict[str, object] = {"_array": np.ndarray}
        self.space |= {"_backend": backend, "_xp": backend.namespace}

    def of(self, i: int, node: Node, step: Any) -> list[str]:
        """A node's lines: a kernel with one result is called as it stands, else the step is."""
        kernel, meta = getattr(step, "kernel", None), getattr(step, "metas", None)
        if kernel is None or not isinstance(meta, TensorMeta):
            return self._called(i, node, step)
        known = step.ufunc if meta.ndim > 0 else None  # of no dimensions it gives a number
        if known is not None:
            return self._ufunc(i, node, *known)
        name, passed = self.names[node], [self._passed(i, k, p) for k, p in enumerate(step.params)]
        self.space |= {f"_kernel{i}": kernel, f"_settled{i}": step.settled}
        self.space |= {f"_dtype{i}": meta.dtype.numpy, f"_shape{i}": tuple(meta.shape)}
        return [
            f"        {name} = _kernel{i}(_xp, {', '.join(passed)})",
            f"        if {name}.__class__ is not _array or {name}.dtype is not _dtype{i} "
            f"or {name}.shape != _shape{i}:",
            f"            {name} = _settled{i}(_backend, {name})",
        ]

    def _ufunc(self, i: int, node: Node, name: str, operands: Sequence[object]) -> list[str]:
        """One function of the namespace, straight to the slot of the output if it is one.

        `sin` of 16 elements takes 0.6 us, where its kernel, checks and a copy take 2.2 (timeit).
        """
        self.space[f"_ufunc{i}"] = getattr(self.space["_xp"], name)
        passed = [self._passed(i, k, p) for k, p in enumerate(operands)]
        slot = self.slots.get(node)
        if slot is not None:
            self.filled.add(slot)
            passed.append(slot)
        return [f"        {self.names[node]} = _ufunc{i}({', '.join(passed)})"]

    def _called(self, i: int, node: Node, step: Any) -> list[str]:
        inputs = list(enumerate(node.all_input_nodes))
        self.space |= {f"_step{i}": step} | {f"_node{i}_{k}": n for k, n in inputs}
        used = ", ".join(f"_node{i}_{k}: {self.names[n]}" for k, n in inputs)
        return [f"        {self.names[node]} = _step{i}(_backend, {{{used}}})"]

    def _passed(self, i: int, k: int, value: object) -> str:
        """What the lines pass: a node's name, or a name that stands for the value."""
        if isinstance(value, tuple) and any(isinstance(v, Node) for v in value):
            items = [self._named(f"_given{i}_{k}_{j}", v) for j, v in enumerate(value)]
            return f"[{', '.join(items)}]"
        return self._named(f"_given{i}_{k}", value)

    def _named(self, name: str, value: object) -> str:
        if isinstance(value, Node):
            return self.names[value]
        self.space[name] = value
        return name


def _joined(names: Sequence[str]) -> str:
    """The names as a tuple's, also one or none."""
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _is_plain(t: object) -> bool:
    """Whether a tensor is its array: nobody overrides or records, values are as they stand."""
    return (
        isinstance(t, Tensor)
        and not t._class_bits
        and t._mq_data is not None
        and _is_real(t.meta)
        and not t.is_neg()
        and not (t.requires_grad and tls.st.grad_enabled)
    )


def _is_plain_node(node: Node) -> bool:
    metas = node.meta["val"]
    metas = metas if isinstance(metas, (tuple, list)) else [metas]
    return all(isinstance(t, Tensor) and _is_real(t.meta) for t in metas)


def _is_overridden(node: Node) -> bool:
    """Whether data on the cpu is served by another kernel than the one of the operator's page."""
    op = node.target
    if not isinstance(op, OpOverload) or op.array_kernel is None:
        return False
    kernel, above = op.kernel_at(DispatchKey.CPU), op.kernel_at(DispatchKey.AutogradCPU)
    return (
        kernel is None
        or kernel.factory is not backend_kernel
        or (above is not None and above.python is not None)
    )


def _same(a: TensorMeta, b: TensorMeta) -> bool:
    return a.shape == b.shape and a.dtype is b.dtype


def _is_real(meta: TensorMeta) -> bool:
    """No complex numbers, whose conjugates are lazy, and nothing but strided arrays on the cpu."""
    return meta.device.type == "cpu" and not meta.dtype.is_complex


__all__ = ["LONG", "ArraySteps", "Untraceable"]
