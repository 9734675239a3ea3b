"""A page's derivative formulas, compiled for recording and running.

`DerivativePlan` knows, for one overload, which parameters are differentiable. For each subset of
them that requires grad, `node_class` makes a class of nodes with generated functions: ``save``
packs exactly the values that the formulas in play name; ``formulas`` and ``step`` unpack them
(checking versions) and call the formulas. ``formulas`` gives the list of gradients, ``step`` hands
each to the node it is for, as the engine does. All are made when first needed. `plain_gradients`
says in plain Python what both compute.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from maquette.autograd.engine import Run, conform
from maquette.autograd.node import (
    AccumulateGrad,
    Grad,
    Node,
    OpNode,
    SavedOutput,
    SavedTensor,
    raise_detached,
    raise_freed,
    raise_modified,
    reattached,
)
from maquette.autograd.node_names import node_name
from maquette.autograd.saved.hooks import PackedTensor, watch
from maquette.autograd.saved.values import linked_sizes, saved_properties, unsaved_properties
from maquette.dispatch import keysets as K
from maquette.dispatch.call import NUMBERS
from maquette.dispatch.generated import Text, generate, indented
from maquette.dispatch.operator import OpOverload
from maquette.tensor.keys import ADINPLACE
from maquette.tensor.tensor import Tensor


class Saved(NamedTuple):
    """Source for one value that formulas need: what packs it, the names it unpacks to, what
    opens it, and whether it is a tensor, whose memory a node can let go."""

    packs: list[str]
    names: list[str]
    opens: list[str]
    tensor: bool


class Held(enum.Enum):
    """What an opened saved value can be.

    TENSOR: always a tensor. OPERAND: a tensor or a number. NUMBER: a number of any class, or
    None. VALUE: plain and of one class, or None. OTHER: anything, lists of tensors among it.
    """

    TENSOR = enum.auto()
    OPERAND = enum.auto()
    NUMBER = enum.auto()
    VALUE = enum.auto()
    OTHER = enum.auto()


_PLAIN = frozenset(("int", "symint", "str", "dtype", "layout", "memory_format", "device"))
_KINDS_OF_NUMBERS = frozenset(("scalar", "float", "bool"))


class AtHand(NamedTuple):
    """What the source of a step has where its formulas would run: names of local variables.

    plain: whether ``_grads`` is the only gradient, else a list for all outputs. saved: gives the
    opened saved values; beside an operand ``s0``, ``s0v`` is None if that is a number. bits: of
    which differentiable parameters gradients are wanted; the meta of the third is ``_m3``. None
    where parameters are lists, for all members that the links of the node have. Also there are
    ``_node`` and ``_run``.
    """

    plain: bool
    saved: Callable[[], dict[str, Held]]
    bits: tuple[int, ...] | None


class Shortcut(NamedTuple):
    """Source that may know the gradients of a node without its formulas.

    lines: give those that set ``_known``, to None where the formulas have to run. answer: an
    expression for the wanted gradients, a tuple, made to fit their inputs. outline: gives lines
    that return what the answer depends on but for the gradients, if all is fakes of ``_m``. space:
    the globals that all use.
    """

    lines: Callable[[], list[str]]
    answer: str
    outline: Callable[[], list[str]]
    space: dict[str, object]


# Makes the shortcuts of steps; a higher layer fills it in.
SHORTCUT: list[Callable[[AtHand], Shortcut] | None] = [None]


def _returned(op: OpOverload, written: list[int]) -> list[int]:
    """Of the arguments that are written those that are results, all where none is.

    Others are written as a side effect: formulas want what is there after the call.
    """
    effects = _effects(op)
    return [i for i in written if i not in effects] or written


def _effects(op: OpOverload) -> list[int]:
    """The arguments that are written but are no results, such as running statistics."""
    results = {name for r in op._schema.returns if r.alias_info for name in r.alias_info.before_set}
    infos = [a.alias_info for a in op._schema.arguments]
    return [i for i, x in enumerate(infos) if x and x.is_write and not x.before_set & results]


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
        assert derivatives is not None
        # A form for numbers shares the formulas; those for what is no tensor here are not its own.
        tensors = {a.name for a in arguments if a.type.base.kind == "tensor"}
        self.rules = [r for r in derivatives.rules if tensors.issuperset(r.wrt)]
        self.nondifferentiable = derivatives.nondifferentiable
        self.of_reals = derivatives.of_reals
        covered = {name for r in self.rules for name in r.wrt}
        self.wrt = [
            i
            for i, a in enumerate(arguments)
            if a.type.written.startswith("Tensor") and not a.is_out and a.name in covered
        ]
        # Stands for what requires grad but has nowhere to take it: recorded, with nothing saved. An
        # operator with one such parameter saves all the same, and checks it, as in PyTorch.
        self.dead_bit = len(self.wrt) if len(self.wrt) > 1 else 0
        self.lists = [i for i in self.wrt if "[]" in arguments[i].type.written]
        written = [i for i, a in enumerate(arguments) if a.is_write]
        self.written = _returned(op, written)
        self.has_effects = len(self.written) < len(written)
        effects = _effects(op)
        # Arguments that may not require grad, since no formula says their gradient. Operators that
        # only formulas call are given what the forward call computed, too, which is no constant.
        self.constant = [
            i
            for i, a in enumerate(arguments)
            if a.type.written in ("Tensor", "Tensor?")
            and not (a.name in covered or op._opname.endswith("_backward"))
            and (not a.is_write or i in effects)
        ]
        returns = op._schema.returns
        self.one_output = len(returns) == 1 and "[]" not in returns[0].type.written
        saved = [n for r in self.rules for n in r.needs]
        self.saves_result = any(n.startswith("result") for n in saved)
        self.classes: dict[int, type[OpNode]] = {}
        self.watched_twin: DerivativePlan | None = None
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

    @property
    def facts(self) -> tuple[object, ...]:
        """What the texts of its kernels and nodes are written from (`generated.Text`)."""
        rules = tuple([(r.wrt, r.needs, r.joint) for r in self.rules])
        return self.op.form_facts, self.watched, tuple(self.constant), rules, self.of_reals

    def output_name(self, needed: str) -> str:
        """The name in the schema of a result that formulas need; none of an argument."""
        if needed.removesuffix("_meta") in self.index or not needed.startswith("result"):
            return ""
        return self.op._schema.returns[int(needed[6:] or 0)].name or needed

    def helpers(self) -> dict[str, object]:
        """What generated functions call."""
        return _WATCHED_HELPERS if self.watched else _HELPERS

    def save_source(self, mask: int) -> str:
        """Source of what a call keeps, over ``_r``, ``p0, p1, ...``, `number_lines`, `helpers`."""
        return _Maker(self, mask).save_source()

    def number_lines(self) -> list[str]:
        """Lines that ask which operands are Python numbers: ``_is_p0``, where any may be one."""
        if not self.op.takes_numbers:
            return []
        tensors = [i for i, a in enumerate(self.arguments) if a.type.written == "Tensor"]
        return [f"_is_p{i} = p{i}.__class__ in _NUMBERS" for i in tensors]

    def node_class(self, mask: int) -> type[OpNode]:
        """The nodes for the subset ``mask``: bit i for the i-th differentiable parameter."""
        known = self.classes.get(mask)
        if known is None:
            known = self.classes[mask] = _Maker(self, mask).node_class()
        return known


def plain_gradients(
    plan: DerivativePlan,
    mask: int,
    params: Sequence[object],
    result: object,
    grads: Sequence[Grad],
) -> list[Any]:
    """What the generated ``formulas`` and ``step`` of a node compute, in plain Python.

    The gradient of each differentiable parameter, a list for a list; None for what ``mask`` leaves
    out. Nothing is saved or checked: params and result are those of the call. The tests' oracle.
    """
    results = [result] if plan.one_output else cast(Sequence[object], result)
    values: dict[str, object] = {"grad": grads[0], "grads": grads, "result": results[0]}
    values |= {f"result{n}": r for n, r in enumerate(results)}
    for name, param in zip(plan.names, params, strict=True):
        values |= {name: param, f"{name}_meta": _metas(param)}
    return _answers(plan, mask, values)


def _answers(plan: DerivativePlan, mask: int, values: dict[str, object]) -> list[Any]:
    """What the formulas in play give of the values that they name."""
    wanted = {plan.names[i] for bit, i in enumerate(plan.wrt) if mask >> bit & 1}
    found: dict[str, object] = {}
    for rule in plan.rules:
        if not wanted.isdisjoint(rule.wrt):
            values["needs"] = [name in wanted for name in rule.wrt]
            answer = rule.function(*[values[name] for name in rule.needs])
            each = cast("tuple[object, ...]", answer) if rule.joint else (answer,)
            found.update(zip(rule.wrt, each, strict=True))
    names = [plan.names[i] for i in plan.wrt]
    return [found.get(name) if name in wanted else None for name in names]


_PLAIN_CALLS = 8
"""How many calls of formulas need no function of their own, which takes the time of eight to make.

The engine's steps have formulas written out: most are asked for where fakes' gradients are learnt.
"""


Formulas = Callable[[OpNode, list[Grad]], list[Grad]]


class _Maker:
    """Generates the class of nodes for one subset of differentiable parameters."""

    def __init__(self, plan: DerivativePlan, mask: int) -> None:
        self.plan = plan
        self.mask = mask
        self.wanted = {plan.names[i] for bit, i in enumerate(plan.wrt) if mask >> bit & 1}
        self.active = [r for r in plan.rules if not self.wanted.isdisjoint(r.wrt)]
        names = dict.fromkeys(n for r in self.active for n in r.needs)
        # As PyTorch saves them: by name, arguments before results. Hooks see them in this order.
        self.needed = sorted(
            names.keys() - {"grad", "grads", "needs"}, key=lambda n: (plan.output_name(n), n)
        )
        # The metas of differentiable parameters are in the node's links: not saved twice.
        self.linked = {
            f"{plan.names[i]}_meta": f"_m{bit}"
            for bit, i in enumerate(plan.wrt)
            if not (plan.lists or plan.op.takes_numbers)
            and plan.arguments[i].type.written == "Tensor"
        }
        self.saved = {
            name: self._saved(name, f"s{number}")
            for number, name in enumerate(self.needed)
            if name not in self.linked
        }

    def node_class(self) -> type[OpNode]:
        """The class, its ``save`` made; the others make themselves when first called."""
        op = self.plan.op
        label = node_name(op)
        kind = label.rpartition("::")[2]
        shown = unsaved_properties(self.plan.rules) | saved_properties(
            self.saved, self._watched_class
        )
        shown |= linked_sizes({n: int(m[2:]) for n, m in self.linked.items() if n in self.needed})
        # PyTorch's nodes are of C++ and say that they are builtins.
        own = {"__slots__": (), "__module__": "builtins", "op": op, "label": label}
        made: Any = type(kind, (OpNode,), own | shown)
        made.open_saved = staticmethod(self._late(made, "open_saved", self._open_saved_source))
        made.plain = self.plan.one_output
        made.lists = bool(self.plan.lists)
        made.saves_tensors = any(s.tensor for s in self.saved.values())
        slots = [name for s in self.saved.values() for name in s.names]
        made.versions = frozenset(i for i, name in enumerate(slots) if name.endswith("v"))
        made.saves_written = any(self.plan.names[i] in self.saved for i in self.plan.written)
        made.outline = self._late_outline(made)
        made.save = staticmethod(self._late(made, "save", self._save_source))

        def step(node: OpNode, grads: object, buffers: dict[Node, object], run: Run) -> None:
            made.step = self._step()
            given = [grads]
            del grads  # the first step of a kind lets go of its gradients when every other does
            made.step(node, given.pop(), buffers, run)

        parts: dict[int, Formulas] = {}

        def partly(node: OpNode, grads: list[Grad], flags: Sequence[bool]) -> list[Grad]:
            mask = self._part(node, flags)
            if mask == self.mask:
                return node.formulas(grads)
            if mask not in parts:
                parts[mask] = self._often(mask, functools.partial(parts.__setitem__, mask))
            return parts[mask](node, grads)

        made.formulas = self._often(self.mask, functools.partial(setattr, made, "formulas"))
        made.partly = partly
        made.step = step
        node_class: type[OpNode] = made
        return node_class

    def _often(self, mask: int, keep: Callable[[Formulas], None]) -> Formulas:
        """A subset's gradients; ``keep`` gets a function of their own if they are often wanted."""
        calls = 0

        def formulas(node: OpNode, grads: list[Grad]) -> list[Grad]:
            nonlocal calls
            calls += 1
            if calls <= _PLAIN_CALLS:
                return self._plain_formulas(node, grads, mask)
            source = functools.partial(self._formulas_source, mask)
            made: Any = self._function("_formulas", source, part=mask)
            keep(made)
            answers: list[Grad] = made(node, grads)
            return answers

        return formulas

    def _part(self, node: OpNode, flags: Sequence[bool]) -> int:
        """The subset of the node's parameters some of whose edges are flagged."""
        mask = at = 0
        for bit, i in enumerate(self.plan.wrt):
            size = node.list_sizes[bit] if i in self.plan.lists else 1
            mask |= any(flags[at : at + size]) << bit
            at += size
        return mask & self.mask

    def _late(
        self, owner: Any, name: str, source: Callable[[], list[str]]
    ) -> Callable[..., tuple[object, ...]]:
        """A function that makes itself, as an attribute of ``owner``, when first called."""

        def late(*args: object) -> tuple[object, ...]:
            function = self._function(f"_{name}", source)
            setattr(owner, name, staticmethod(function))
            return cast(tuple[object, ...], function(*args))

        return late

    def _watched_class(self) -> type[OpNode]:
        """The class of watched nodes for the same call."""
        plan = self.plan
        if plan.watched_twin is None:
            plan.watched_twin = DerivativePlan(plan.op, watched=True)
        return plan.watched_twin.node_class(self.mask)

    # --- source ----------------------------------------------------------------------

    def _open_saved_source(self) -> list[str]:
        """``_open_saved(node)``: what is saved, each value checked and opened."""
        names = [s.names[0] for s in self.saved.values()]
        answer = f"    return ({', '.join(names)}{',' if names else ''})"
        return ["def _open_saved(_node):", *self._open(), answer]

    def save_source(self) -> str:
        """Source of the tuple to keep, over ``_r`` and parameters ``p0, p1, ...``."""
        parts = [part for s in self.saved.values() for part in s.packs]
        return f"({', '.join(parts)}{',' if parts else ''})"

    def _save_source(self) -> list[str]:
        params = ", ".join(["_r", *(f"p{i}" for i in range(len(self.plan.arguments)))])
        lines = [f"    {line}" for line in self.plan.number_lines()]
        return [f"def _save({params}):", *lines, f"    return {self.save_source()}"]

    def _plain_formulas(self, node: OpNode, grads: list[Grad], mask: int) -> list[Grad]:
        """What `_formulas_source` says, for the first nodes that need it."""
        plan = self.plan
        opened = node.__class__.open_saved(node)
        if all(g is None for g in grads):
            return [None] * (len(node.links) // 3)
        values: dict[str, object] = {"grad": grads[0], "grads": grads}
        values |= dict(zip(self.saved, opened, strict=True))
        values |= {n: node.links[3 * int(meta[2:]) + 2] for n, meta in self.linked.items()}
        answers: list[Grad] = []
        for k, answer in enumerate(_answers(plan, mask, values)):
            is_list = plan.wrt[k] in plan.lists
            answers += _spread(answer, node.list_sizes[k]) if is_list else [answer]
        return answers

    def _formulas_source(self, mask: int) -> list[str]:
        """``_formulas(node, grads)``: a subset's gradients, lists of parameters flat."""
        lines = ["def _formulas(_node, _grads):", *self._open(), *self._leave_early()]
        answers, calls = self._calls("_grads[0]", "_grads", mask)
        return [*lines, *calls, f"    return [{', '.join(self._flat(answers))}]"]

    def _step(self) -> Callable[..., object]:
        """``_step(node, gradients, buffers, run)``: each gradient into its node's buffer."""
        bits = self._bits()
        shortcut = self._shortcut(bits)
        more = None if shortcut is None else shortcut.space
        return self._function("_step", lambda: self._step_source(bits, shortcut), more)

    def _step_source(self, bits: list[int], shortcut: Shortcut | None) -> list[str]:
        plain = self.plan.one_output
        lines = ["def _step(_node, _grads, _buffers, _run):"]
        nothing = "_grads is None"
        if not plain:
            nothing += " or (_grads[0] is None and all(g is None for g in _grads))"
        lines += [f"    if {nothing}:", "        return _run.pass_by(_node)", *self._open()]
        grad, grads = ("_grads", "[_grads]") if plain else ("_grads[0]", "_grads")
        answers, calls = self._calls(grad, grads, self.mask)
        if self.plan.lists:
            calls += [f"    _all = [{', '.join(self._flat(answers))}]"]
            calls += [f"    {answers[bit]} = None" for bit in bits]
            calls += ["    _run.conform(_node, _all)"]
        else:
            for bit in bits:
                calls += indented(_conform(bit, answers[bit]))
        if shortcut is None:
            lines += calls
        else:
            targets = ", ".join(answers[bit] for bit in bits)
            taken = f"{targets}, = {shortcut.answer}"
            if self.plan.lists:
                taken = f"_all = [*{shortcut.answer}]"
            lines += indented(shortcut.lines())
            lines += ["    if _known is None:", "        _run.remembered = False"]
            lines += indented(calls)
            lines += ["    else:", f"        {taken}"]
        # As nobody else may need them any more, let go of what the formulas were given.
        tensors = [s.names[0] for s in self.saved.values() if s.tensor]
        lines += [f"    {' = '.join(['_grads', *tensors])} = None"]
        if tensors:
            lines += ["    if not _run.retain_graph:", "        _saved = _node.saved = None"]
        if self.plan.lists:
            return [*lines, "    _run.give(_node, _all)"]
        for bit in bits:
            lines += indented(hand_on_lines(bit, answers[bit]))
        return lines

    def _late_outline(self, made: Any) -> staticmethod[..., tuple[object, ...] | None]:
        """`Node.outline` of a class, which makes itself when first called."""

        def late(node: OpNode, mode: object) -> tuple[object, ...] | None:
            shortcut = self._shortcut(self._bits())
            if shortcut is None:
                made.outline = None
                return None
            space = shortcut.space | {"_open": _open_held}
            function: Any = self._function(
                "_facts_of", lambda: self._outline_source(shortcut), space
            )
            made.outline = staticmethod(function)
            found: tuple[object, ...] | None = function(node, mode)
            return found

        return staticmethod(late)

    def _outline_source(self, shortcut: Shortcut) -> list[str]:
        """``_facts_of(node, mode)``: `Node.outline`."""
        lines = ["def _facts_of(_node, _m):", "    try:", *indented(self._open())]
        lines += indented(indented(shortcut.outline()))
        return [*lines, "    except (AttributeError, RuntimeError, TypeError):", "        pass"]

    def _bits(self) -> list[int]:
        """Of which differentiable parameters gradients are wanted."""
        return [b for b, i in enumerate(self.plan.wrt) if self.plan.names[i] in self.wanted]

    def _shortcut(self, bits: list[int]) -> Shortcut | None:
        """What may answer in the place of the formulas; nothing does where they are watched."""
        plan = self.plan
        make = SHORTCUT[0]
        if make is None or plan.watched or not bits:
            return None
        return make(AtHand(plan.one_output, self._all_held, None if plan.lists else tuple(bits)))

    def _all_held(self) -> dict[str, Held]:
        return {s.names[0]: self._held(name, s) for name, s in self.saved.items()}

    def _held(self, name: str, saved: Saved) -> Held:
        """What a saved value can be."""
        i = self.plan.index.get(name)
        if i is None and name.endswith("_meta"):  # of an argument: metas, and tuples of them
            return Held.VALUE
        if i is None:  # a result
            return Held.TENSOR if saved.tensor and len(saved.names) > 1 else Held.OTHER
        type_ = self.plan.arguments[i].type
        if type_.written == "Tensor":
            return Held.OPERAND if self.plan.op.takes_numbers else Held.TENSOR
        if type_.base.kind in _KINDS_OF_NUMBERS and "[" not in type_.written:
            return Held.NUMBER
        return Held.VALUE if type_.base.kind in _PLAIN else Held.OTHER

    def _open(self) -> list[str]:
        """Lines that unpack the node: its links, unless lists make them many, and saved values."""
        lines: list[str] = []
        if not self.plan.lists:
            links = "".join(f"_n{bit}, _k{bit}, _m{bit}, " for bit in range(len(self.plan.wrt)))
            lines += [f"    {links}= _node.links"]
        slots = [name for s in self.saved.values() for name in s.names]
        if slots:
            lines += ["    _saved = _node.saved", "    if _saved is None:"]
            lines += ["        _freed(_node)", f"    {', '.join(slots)}, = _saved"]
            for s in self.saved.values():
                lines += indented(s.opens)
        return lines

    def _leave_early(self) -> list[str]:
        nothing = ", ".join(
            f"*[None] * _node.list_sizes[{k}]" if i in self.plan.lists else "None"
            for k, i in enumerate(self.plan.wrt)
        )
        missing = "_grads[0] is None" if self.plan.one_output else "all(g is None for g in _grads)"
        return [f"    if {missing}:", f"        return [{nothing}]"]

    def _saved(self, name: str, slot: str) -> Saved:
        plan = self.plan
        i = plan.index.get(name)
        if i is None and name.endswith("_meta"):
            at = plan.index[name.removesuffix("_meta")]
            exact = plan.arguments[at].type.written == "Tensor" and not plan.op.takes_numbers
            return Saved([f"p{at}.meta" if exact else f"_metas(p{at})"], [slot], [], False)
        if i is None:
            return self._saved_output(int(name[6:] or 0), slot)
        written = plan.arguments[i].type.written
        if written == "Tensor" and not plan.watched:
            if plan.op.takes_numbers:
                return _saved_operand(f"p{i}", slot, self._attached(i, slot))
            packs = [f"p{i} if p{i}._keys & _version_bit else _refuse(p{i})", _version(f"p{i}")]
            return Saved(packs, [slot, f"{slot}v"], [*_check(slot), *self._attached(i, slot)], True)
        if written.startswith("Tensor"):
            return Saved([f"_keep(p{i})"], [slot], [f"{slot} = _open({slot}, _node)"], True)
        return Saved([f"p{i}"], [slot], [], False)

    def _attached(self, i: int, slot: str) -> list[str]:
        """Lines that refuse a saved argument, of which a gradient is wanted, that was detached."""
        plan = self.plan
        if plan.names[i] not in self.wanted or plan.lists or plan.written:
            return []
        bit = plan.wrt.index(i)
        return [f"if not {slot}._keys & _req:", f"    _detached({slot}, _node, _n{bit})"]

    def _saved_output(self, number: int, slot: str) -> Saved:
        one = self.plan.one_output
        value = "_r" if one else f"_r[{number}]"
        exact = one and self.plan.op._schema.returns[0].type.written == "Tensor"
        if exact and not self.plan.watched and not self.plan.written:
            # An alias of the fresh result, which knows nothing of its node: no cycle. Where the
            # backward is itself recorded, it is given its history again.
            opens = [f"if {slot}._vc.value != {slot}v:"]
            opens += [f"    _modified({slot}, _node, {number}, {slot}v)"]
            opens += [f"{slot} = _reattached({slot}, _node)"]
            packs = [f"{value}._alias()", f"{value}._vc.value"]
            return Saved(packs, [slot, f"{slot}v"], opens, True)
        opened = [f"{slot} = _open({slot}, _node)"]
        return Saved([f"_keep_output({value}, {number})"], [slot], opened, True)

    def _calls(self, grad: str, grads: str, mask: int) -> tuple[list[str], list[str]]:
        """A name for each differentiable parameter's gradient, and lines that call the formulas.

        mask: whose gradients are wanted, of those that the node was made for.
        """
        plan = self.plan
        wanted = {plan.names[i] for bit, i in enumerate(plan.wrt) if mask >> bit & 1}
        values = {n: s.names[0] for n, s in self.saved.items()} | self.linked
        values |= {"grad": grad, "grads": grads}
        lines: list[str] = []
        found: dict[str, str] = {}
        for k, rule in enumerate(self.active):
            if wanted.isdisjoint(rule.wrt):
                continue
            flags = ", ".join(str(n in wanted) for n in rule.wrt)
            given = [f"[{flags}]" if n == "needs" else values[n] for n in rule.needs]
            targets = [f"a{k}_{j}" for j in range(len(rule.wrt))]
            left = f"({', '.join(targets)},)" if rule.joint else targets[0]
            lines.append(f"    {left} = _f{k}({', '.join(given)})")
            found.update(zip(rule.wrt, targets, strict=True))
        names = [plan.names[i] for i in plan.wrt]
        return [found.get(n, "None") if n in wanted else "None" for n in names], lines

    def _flat(self, answers: Sequence[str]) -> list[str]:
        """Answers as members of one list, an answer for a list of parameters spread out."""
        return [
            f"*_spread({answer}, _node.list_sizes[{k}])" if i in self.plan.lists else answer
            for k, (i, answer) in enumerate(zip(self.plan.wrt, answers, strict=True))
        ]

    def _function(
        self,
        name: str,
        lines: Callable[[], list[str]],
        more: dict[str, object] | None = None,
        part: int = 0,
    ) -> Callable[..., object]:
        """A function of the nodes; part: the subset that it is of, where it is not the class's."""
        space: dict[str, object] = {f"_f{k}": rule.function for k, rule in enumerate(self.active)}
        space |= self.plan.helpers() | (more or {})
        facts = (self.plan.facts, self.mask, part, name, SHORTCUT[0] is None)
        text = Text(facts, lambda: "\n".join(lines()) + "\n")
        return generate(text, name, "derivative", space)


def _conform(bit: int, answer: str) -> list[str]:
    """Lines that make one gradient fit its input: `Run.conform`, written out."""
    m = f"_m{bit}"
    return [
        f"if {answer} is not None:",
        f"    _m = {answer}.meta",
        f"    if _m is not {m} and (",
        f"        _m.dtype is not {m}.dtype or _m.is_symbolic or _m.shape != {m}.shape",
        "    ):",
        f"        {answer} = _conform(_node, {answer}, {m}, {bit})",
    ]


def hand_on_lines(bit: int, answer: str) -> list[str]:
    """Lines that give one gradient to the node it is for: `Run.hand_on`, written out."""
    n, k = f"_n{bit}", f"_k{bit}"
    return [
        f"if {answer} is None:",
        f"    if {n}.__class__ is _Leaf:",
        f"        _run.arrived({n})",
        f"elif {n}.plain and {n} not in _buffers:",
        f"    _buffers[{n}] = {answer}",
        "else:",
        f"    _run.deposit({n}, {k}, {answer})",
        f"{answer} = None",
    ]


def _version(name: str) -> str:
    return f"0 if {name}._vc is None else {name}._vc.value"


def _check(slot: str) -> list[str]:
    """Lines that refuse a saved tensor written since."""
    modified = f"_modified({slot}, {slot}.grad_fn, {slot}.output_nr, {slot}v)"
    return [f"if ({_version(slot)}) != {slot}v:", f"    {modified}"]


def _saved_operand(name: str, slot: str, checks: Sequence[str]) -> Saved:
    """An operand that may be a Python number instead of a tensor; lines that check a tensor.

    The version of a number is None. Whether it is one, `number_lines` ask.
    """
    packs = [
        f"{name} if _is_{name} or {name}._keys & _version_bit else _refuse({name})",
        f"None if _is_{name} else {_version(name)}",
    ]
    opens = [f"if {slot}v is not None:", *(f"    {line}" for line in [*_check(slot), *checks])]
    return Saved(packs, [slot, f"{slot}v"], opens, True)


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
        return tuple([v.meta if isinstance(v, Tensor) else _metas(v) for v in value])
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


def _open_held(value: object, node: Node) -> object:
    """`_open` of what is still as it was saved: nothing of a user's runs."""
    if value.__class__ is PackedTensor:
        raise TypeError("a saved tensor with hooks")
    if value.__class__ is tuple:
        return tuple([_open_held(v, node) for v in value])
    return _open(value, node)


_HELPERS: dict[str, object] = {
    "_Leaf": AccumulateGrad,
    "_NUMBERS": NUMBERS,
    "_conform": conform,
    "_detached": raise_detached,
    "_freed": raise_freed,
    "_keep": _keep,
    "_keep_output": _keep_output,
    "_metas": _metas,
    "_modified": raise_modified,
    "_open": _open,
    "_reattached": reattached,
    "_refuse": _refuse,
    "_req": K.REQUIRES_GRAD,
    "_spread": _spread,
    "_version_bit": ADINPLACE,
}
_WATCHED_HELPERS = _HELPERS | {
    "_keep": _keep_watched,
    "_keep_output": _keep_output_watched,
}
