"""A page's derivative formulas, compiled for recording and running.

`DerivativePlan` knows, for one overload, which parameters are differentiable. For each subset of
them that requires grad, `variant` generates two functions: ``save`` packs exactly the values that
the formulas in play name, ``apply`` unpacks them (checking versions) and calls the formulas. Both
are made once, when a call with that subset is first recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maquette.autograd.formulas import Derivatives, Rule
from maquette.autograd.graph import PackedTensor, watch
from maquette.autograd.node import Grad, Node, OpNode, SavedOutput, SavedTensor, raise_modified
from maquette.dispatch.call import compiled
from maquette.dispatch.operator import OpOverload
from maquette.tensor.tensor import ADINPLACE, Tensor


class Variant:
    """Recording and backward for one subset of differentiable parameters."""

    __slots__ = ("apply", "save", "saves_tensors")

    def __init__(
        self,
        save: Callable[..., tuple[object, ...]],
        apply: Callable[[OpNode, list[Grad]], list[Grad]],
        saves_tensors: bool,
    ) -> None:
        self.save = save
        self.apply = apply
        self.saves_tensors = saves_tensors


class DerivativePlan:
    """How to record and differentiate calls of one overload."""

    def __init__(self, op: OpOverload, *, watched: bool = False) -> None:
        """watched: whether saved tensors go through hooks, and nodes remember their call."""
        self.op = op
        self.watched = watched
        arguments = op._schema.arguments
        self.arguments = arguments
        self.names = [a.name for a in arguments]
        self.index = {name: i for i, name in enumerate(self.names)}
        derivatives = op.derivatives
        assert isinstance(derivatives, Derivatives)
        self.rules = [r for r in derivatives.rules if set(r.wrt) <= set(self.names)]
        self.nondifferentiable = derivatives.nondifferentiable
        covered = {name for r in self.rules for name in r.wrt}
        self.wrt = [
            i
            for i, a in enumerate(arguments)
            if a.type.written.startswith("Tensor") and not a.is_out and a.name in covered
        ]
        self.lists = [i for i in self.wrt if "[]" in arguments[i].type.written]
        self.written = [i for i, a in enumerate(arguments) if a.is_write]
        saved = [n for r in self.rules for n in r.needs]
        self.saves_written = any(self.names[i] in saved for i in self.written)
        self._variants: dict[int, Variant] = {}
        self._check_names()

    def _check_names(self) -> None:
        known = {"grad", "grads", "needs", "result", *self.names}
        known |= {f"{name}_meta" for name in self.names}
        for rule in self.rules:
            for name in rule.needs:
                if name not in known and not name.removeprefix("result").isdigit():
                    raise RuntimeError(
                        f"{self.op.name()}: its derivative for {', '.join(rule.wrt)} asks for "
                        f"'{name}', which is no parameter of the operator. Formulas may name grad, "
                        f"grads, needs, result, result0, ... and {', '.join(self.names)}, or "
                        f"<parameter>_meta for its shape and dtype alone, which saves no data"
                    )

    def variant(self, mask: int) -> Variant:
        """The functions for the subset ``mask``: bit i for the i-th differentiable parameter."""
        known = self._variants.get(mask)
        if known is None:
            known = self._variants[mask] = self._make(mask)
        return known

    def _make(self, mask: int) -> Variant:
        wanted = {self.names[i] for bit, i in enumerate(self.wrt) if mask >> bit & 1}
        active = [r for r in self.rules if not wanted.isdisjoint(r.wrt)]
        needed = dict.fromkeys(n for r in active for n in r.needs)
        needed = {n: None for n in needed if n not in ("grad", "grads", "needs")}
        packs: list[str] = []
        slots: list[str] = []
        opens: list[str] = []
        saves_tensors = False
        for number, name in enumerate(needed):
            pack, names, opened, tensor = self._saved(name, f"s{number}")
            packs += pack
            slots += names
            opens += opened
            saves_tensors = saves_tensors or tensor
        params = ", ".join(f"p{i}" for i in range(len(self.arguments)))
        lines = [f"def _save(_result, {params}):" if params else "def _save(_result):"]
        lines += [f"    return ({', '.join(packs)}{',' if packs else ''})"]
        lines += ["def _apply(_node, _grads):", "    _saved = _node.saved"]
        lines += ["    if _saved is None:", "        _freed(_node)"]
        if slots:
            lines += [f"    {', '.join(slots)}, = _saved"]
        lines += self._leave_early()
        lines += [f"    {line}" for line in opens]
        named = {n: f"s{k}" for k, n in enumerate(needed)}
        named |= {"grad": "_grads[0]", "grads": "_grads"}
        answers, body = self._calls(active, named, wanted)
        lines += body
        lines += [f"    return [{', '.join(answers)}]"]
        return self._compile("\n".join(lines) + "\n", active, saves_tensors)

    def _leave_early(self) -> list[str]:
        nothing = ", ".join(
            f"*[None] * _node.list_sizes[{k}]" if i in self.lists else "None"
            for k, i in enumerate(self.wrt)
        )
        if len(self.op._schema.returns) == 1 and not self._returns_list():
            return ["    if _grads[0] is None:", f"        return [{nothing}]"]
        return ["    if all(g is None for g in _grads):", f"        return [{nothing}]"]

    def _returns_list(self) -> bool:
        return "[]" in self.op._schema.returns[0].type.written

    def _saved(self, name: str, slot: str) -> tuple[list[str], list[str], list[str], bool]:
        """Source that packs a value, names it unpacks to, source that opens it; is it a tensor."""
        i = self.index.get(name)
        if i is None and name.endswith("_meta"):
            return [f"_metas(p{self.index[name.removesuffix('_meta')]})"], [slot], [], False
        if i is None:
            number = int(name[6:] or 0)
            one = len(self.op._schema.returns) == 1 and not self._returns_list()
            value = "_result" if one else f"_result[{number}]"
            opened = f"{slot} = _open({slot}, _node)"
            return [f"_keep_output({value}, {number})"], [slot], [opened], True
        written = self.arguments[i].type.written
        if written == "Tensor" and not self.op.takes_numbers and not self.watched:
            version = f"0 if p{i}._vc is None else p{i}._vc.value"
            packs = [f"p{i} if p{i}._keys & _version_bit else _refuse(p{i})", version]
            check = (
                f"if (0 if {slot}._vc is None else {slot}._vc.value) != {slot}v: "
                f"_modified({slot}, {slot}.grad_fn, {slot}.output_nr, {slot}v)"
            )
            return packs, [slot, f"{slot}v"], [check], True
        if written.startswith("Tensor"):
            return [f"_keep(p{i})"], [slot], [f"{slot} = _open({slot}, _node)"], True
        return [f"p{i}"], [slot], [], False

    def _calls(
        self, active: list[Rule], named: dict[str, str], wanted: set[str]
    ) -> tuple[list[str], list[str]]:
        """Source of the formula calls, and of the flat list of gradients."""
        body: list[str] = []
        found: dict[str, str] = {}
        for k, rule in enumerate(active):
            flags = ", ".join(str(n in wanted) for n in rule.wrt)
            values = [f"[{flags}]" if n == "needs" else named[n] for n in rule.needs]
            targets = [f"a{k}_{j}" for j in range(len(rule.wrt))]
            left = f"({', '.join(targets)},)" if rule.joint else targets[0]
            body.append(f"    {left} = _f{k}({', '.join(values)})")
            found.update(zip(rule.wrt, targets, strict=True))
        answers: list[str] = []
        for k, i in enumerate(self.wrt):
            answer = found.get(self.names[i], "None")
            if self.names[i] not in wanted:
                answer = "None"
            if i in self.lists:
                answers.append(f"*_spread({answer}, _node.list_sizes[{k}])")
            else:
                answers.append(answer)
        return answers, body

    def _compile(self, source: str, active: list[Rule], saves_tensors: bool) -> Variant:
        space: dict[str, object] = {f"_f{k}": rule.function for k, rule in enumerate(active)}
        space |= {
            "_freed": _raise_freed,
            "_keep": _keep_watched if self.watched else _keep,
            "_keep_output": _keep_output_watched if self.watched else _keep_output,
            "_metas": _metas,
            "_open": _open,
            "_modified": raise_modified,
            "_refuse": _refuse,
            "_spread": _spread,
            "_version_bit": ADINPLACE,
        }
        exec(compiled(source, "derivative"), space)
        return Variant(space["_save"], space["_apply"], saves_tensors)  # type: ignore[arg-type]  # functions, just made


def _raise_freed(node: Node) -> None:
    raise RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed). Specify retain_graph=True if you need to backward "
        f"through the graph a second time. It failed in {node.name()}."
    )


def _refuse(t: Tensor) -> None:
    SavedTensor(t)  # raises the error of inference tensors


def _spread(answer: Sequence[Grad] | None, size: int) -> Sequence[Grad]:
    return [None] * size if answer is None else answer


def _keep(value: object) -> object:
    if isinstance(value, Tensor):
        return SavedTensor(value)
    if value.__class__ is tuple:
        return tuple([_keep(v) for v in value])
    return value


def _metas(value: object) -> object:
    """The meta of a tensor, metas of a list of them; None and numbers as they are."""
    if isinstance(value, Tensor):
        return value.meta
    if value.__class__ is tuple:
        return tuple([_metas(v) for v in value])
    return value


def _keep_output(value: object, number: int) -> object:
    return SavedOutput(value, number) if isinstance(value, Tensor) else value


def _keep_watched(value: object) -> object:
    if not watch.hooks:
        return _keep(value)
    if isinstance(value, Tensor):
        return PackedTensor(value, watch.hooks[-1])
    if value.__class__ is tuple:
        return tuple([_keep_watched(v) for v in value])
    return value


def _keep_output_watched(value: object, number: int) -> object:
    if not watch.hooks or not isinstance(value, Tensor):
        return _keep_output(value, number)
    return PackedTensor(value, watch.hooks[-1], number)


def _open(value: object, node: Node) -> object:
    if value.__class__ is SavedTensor or value.__class__ is SavedOutput:
        return value.unpack(node)
    if value.__class__ is tuple:
        return tuple([_open(v, node) for v in value])
    if value.__class__ is PackedTensor:
        return value.unpack(node)
    return value
