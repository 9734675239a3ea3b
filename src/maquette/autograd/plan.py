"""A page's derivative formulas, compiled for recording and running.

`DerivativePlan` knows, for one overload, which parameters are differentiable, what each formula must
save, and how to call the formulas in backward. It is made once, at the first recorded call.
"""

from __future__ import annotations

from collections.abc import Sequence

from maquette.autograd.formulas import Derivatives, Rule
from maquette.autograd.node import Grad, Node, OpNode, SavedOutput, SavedTensor
from maquette.dispatch.operator import OpOverload
from maquette.tensor.tensor import Tensor


class DerivativePlan:
    """How to record and differentiate calls of one overload."""

    def __init__(self, op: OpOverload) -> None:
        self.op = op
        arguments = op._schema.arguments
        self.names = [a.name for a in arguments]
        self.index = {name: i for i, name in enumerate(self.names)}
        derivatives = op.derivatives
        assert isinstance(derivatives, Derivatives)
        self.rules = [r for r in derivatives.rules if set(r.wrt) <= set(self.names)]
        self.nondifferentiable = derivatives.nondifferentiable
        covered = {name for r in self.rules for name in r.wrt}
        self.tensors = [
            i for i, a in enumerate(arguments) if a.type.written.startswith("Tensor") and not a.is_out
        ]
        self.wrt = [i for i in self.tensors if self.names[i] in covered]
        self.uncovered = [i for i in self.tensors if self.names[i] not in covered]
        self.written = [i for i, a in enumerate(arguments) if a.is_write]
        saved = [n for r in self.rules for n in r.needs]
        self.saves_written = any(self.names[i] in saved for i in self.written)
        self._check_names()

    def _check_names(self) -> None:
        known = {"grad", "grads", "needs", "result", *self.names}
        for rule in self.rules:
            for name in rule.needs:
                if name not in known and not name.removeprefix("result").isdigit():
                    raise RuntimeError(
                        f"{self.op.name()}: its derivative for {', '.join(rule.wrt)} asks for "
                        f"'{name}', which is no parameter of the operator. Formulas may name grad, "
                        f"grads, needs, result, result0, ... and {', '.join(self.names)}"
                    )

    def save(
        self, params: Sequence[object], outputs: Sequence[object], active: list[Rule]
    ) -> dict[str, object]:
        """The values that the active formulas name, tensors with their versions."""
        saved: dict[str, object] = {}
        for rule in active:
            for name in rule.needs:
                if name in saved or name in ("grad", "grads", "needs"):
                    continue
                i = self.index.get(name)
                if i is not None:
                    saved[name] = _keep(params[i])
                else:
                    number = int(name[6:] or 0)
                    saved[name] = _keep_output(outputs[number], number)
        return saved

    def apply(self, node: OpNode, grads: list[Grad]) -> Sequence[Grad]:
        """Run the formulas; gradients in the order of the node's edges."""
        saved = node.saved
        assert saved is not None
        values: dict[str, object] = {
            name: v.unpack(node)
            if v.__class__ in (SavedTensor, SavedOutput)
            else (_unpack_list(v, node) if v.__class__ is tuple else v)
            for name, v in saved.items()
        }
        values["grad"] = grads[0]
        values["grads"] = grads
        if all(g is None for g in grads):
            return [None] * len(node.edges)
        needs, sizes = self._needs(node, values)
        found: dict[str, object] = {}
        for rule in node.active:
            values["needs"] = [needs.get(name, False) for name in rule.wrt]
            answer = rule.function(*[values[name] for name in rule.needs])
            if rule.joint:
                found.update(zip(rule.wrt, answer, strict=True))  # type: ignore[call-overload]  # a joint formula gives a tuple
            else:
                found[rule.wrt[0]] = answer
        return self._flatten(found, sizes)

    def _needs(self, node: OpNode, values: dict[str, object]) -> tuple[dict[str, bool], list[int]]:
        needs: dict[str, bool] = {}
        sizes: list[int] = node.list_sizes
        position = 0
        for i, size in zip(self.wrt, sizes, strict=True):
            count = 1 if size < 0 else size
            edges = node.edges[position : position + count]
            needs[self.names[i]] = any(e is not None for e in edges)
            position += count
        return needs, sizes

    def _flatten(self, found: dict[str, object], sizes: list[int]) -> list[Grad]:
        flat: list[Grad] = []
        for i, size in zip(self.wrt, sizes, strict=True):
            answer = found.get(self.names[i])
            if size < 0:
                flat.append(answer)  # type: ignore[arg-type]  # a tensor or None
            elif answer is None:
                flat += [None] * size
            else:
                flat += list(answer)  # type: ignore[call-overload]  # one gradient a list member
        return flat


def _keep(value: object) -> object:
    if isinstance(value, Tensor):
        return SavedTensor(value)
    if value.__class__ is tuple and any(isinstance(v, Tensor) for v in value):  # type: ignore[attr-defined]  # a tuple
        return tuple([_keep(v) for v in value])  # type: ignore[attr-defined]  # a tuple
    return value


def _keep_output(value: object, number: int) -> object:
    return SavedOutput(value, number) if isinstance(value, Tensor) else value


def _unpack_list(value: object, node: Node) -> object:
    return tuple([v.unpack(node) if v.__class__ is SavedTensor else v for v in value])  # type: ignore[attr-defined]  # a tuple
