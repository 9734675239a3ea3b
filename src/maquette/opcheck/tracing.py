"""One call, forward and backward, run eagerly and as a functionalized graph.

The program writes no input and shares none: what happened to an input is a result like others.
First forward and backward are traced over fakes, below autograd; then that graph is traced again
through `functionalize`, which leaves neither writes nor views.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from maquette.opcheck.copies import Copier, map_tensors, tensors_in
from maquette.opcheck.framework import Framework
from maquette.opcheck.operators import CheckedOperator


class Run(NamedTuple):
    """What a call gave: its tensors and numbers, its inputs afterwards, and gradients."""

    outputs: Sequence[Any]
    inputs: Sequence[Any]
    gradients: Sequence[Any]


class Program:
    """A call as a function of its tensors alone, each given once."""

    def __init__(self, op: CheckedOperator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.op = op
        self.args, self.kwargs = tuple(args), dict(kwargs)
        self.tensors: list[Any] = []
        self.needs: list[bool] = []
        for t in tensors_in((self.args, self.kwargs), op.on):
            if not any(t is known for known in self.tensors):
                self.tensors.append(t)
                self.needs.append(t.requires_grad)
        self.counts = (0, 0, 0)

    def arguments(self, flat: Sequence[Any]) -> tuple[Any, Any]:
        """The call's arguments with these tensors in place of its own."""
        table = {id(t): f for t, f in zip(self.tensors, flat, strict=True)}

        def chosen(t: Any) -> Any:
            return table[id(t)]

        on = self.op.on
        return map_tensors(chosen, self.args, on), map_tensors(chosen, self.kwargs, on)

    def __call__(self, *flat: Any) -> list[Any]:
        """Outputs, the tensors after the call, and gradients, in one list; `counts` parts it."""
        torch = self.op.on.torch
        given = [self._leaf(t, needs) for t, needs in zip(flat, self.needs, strict=True)]
        args, kwargs = self.arguments(given)
        outputs = flat_results(self.op.on, self.op(*args, **kwargs))
        wanted = [t for t, needs in zip(given, self.needs, strict=True) if needs]
        loss = scalar_of(self.op.on, outputs)
        gradients: list[Any] = []
        if loss is not None and wanted:
            gradients = list(torch.autograd.grad(loss, wanted, allow_unused=True))
        kept = [self._plain(o) for o in outputs]
        after = [self._plain(t) for t in given] if self.op.written else []
        self.counts = (len(kept), len(after), len(gradients))
        return [*kept, *after, *gradients]

    def _leaf(self, t: Any, needs: bool) -> Any:
        plain = t.detach()
        if not needs:
            return plain
        # A leaf may not be written: a written input is a copy, as in a program that computed it.
        made = plain.requires_grad_()
        return made.clone() if self.op.written else made

    def _plain(self, value: Any) -> Any:
        return value.detach() if self.op.on.is_tensor(value) else value

    def parted(self, flat: Sequence[Any]) -> Run:
        """The results of a run, apart."""
        a, b, _ = self.counts
        return Run(flat[:a], flat[a : a + b], flat[a + b :])


def flat_results(on: Framework, value: Any) -> list[Any]:
    """Tensors and numbers among results, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in flat_results(on, v)]
    return [] if value is None else [value]


def scalar_of(on: Framework, outputs: Sequence[Any]) -> Any:
    """The sum of the absolute sums of the outputs that require grad; None without any."""
    total = None
    for t in outputs:
        if on.is_tensor(t) and t.requires_grad:
            part = t.sum().abs()
            total = part if total is None else total + part
    return total


def traced_runs(
    op: CheckedOperator, args: Sequence[Any], kwargs: Mapping[str, Any], *, dynamic: bool
) -> tuple[Run, Run]:
    """The call run eagerly, and as the graph that was traced and functionalized from it."""
    program = Program(op, args, kwargs)
    graph = traced(program, dynamic=dynamic)
    eager = program.parted(_run(op.on, program, program.tensors))
    return eager, program.parted(_run(op.on, graph, program.tensors))


def traced(program: Program, *, dynamic: bool) -> Callable[..., Any]:
    """The functionalized graph of a program."""
    on = program.op.on
    flat = _inputs(on, program.tensors)
    on.torch.manual_seed(0)
    graph = _graph(on, lambda *ts: program(*ts), flat, dynamic=dynamic)
    if on.name == "torch" and program.op.written and not program.op.builtin:
        return graph  # its `functionalize` refuses these operators
    return _graph(on, on.functionalize(lambda *ts: graph(*ts)), flat, dynamic=dynamic)


def _graph(
    on: Framework, function: Callable[..., Any], inputs: Sequence[Any], *, dynamic: bool
) -> Callable[..., Any]:
    """A function's graph over symbolic sizes, or over sizes that are numbers, all of them."""
    if dynamic:
        return cast(Callable[..., Any], on.make_fx(function, tracing_mode="symbolic")(*inputs))
    static = on.FakeTensorMode()  # without an environment, so that no size may be a symbol
    fakes = [static.from_tensor(t) if isinstance(t, on.torch.Tensor) else t for t in inputs]
    return cast(Callable[..., Any], on.make_fx(function, tracing_mode="fake")(*fakes))


def _run(on: Framework, function: Callable[..., Any], tensors: Sequence[Any]) -> list[Any]:
    on.torch.manual_seed(0)
    return list(function(*_inputs(on, tensors)))


def _inputs(on: Framework, tensors: Sequence[Any]) -> list[Any]:
    return [t.detach() for t in Copier(on)(list(tensors))]
