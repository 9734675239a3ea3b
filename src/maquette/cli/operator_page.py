"""What is known of one operator, as plain values: what ``maquette ops`` prints.

Which kernel serves a key is asked of the dispatcher (`OpOverload.find_key`), the rules of the
operator's facts; nothing is known here by an operator's name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from maquette.dispatch.forms import Form
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import find_packet
from maquette.dispatch.resolution import has_backend_fallback

# From the top of the dispatcher down: those that a reader asks about.
KEYS = (
    "AutocastCPU", "AutocastCUDA", "FuncTorchBatched", "AutogradCPU", "AutogradCUDA",
    "Functionalize", "Fake", "Meta", "CPU", "CUDA", "SparseCPU",
)  # fmt: skip
_COMPOSITES = {
    DispatchKey.CompositeImplicitAutograd: "it is defined by other operators, whose kernels serve",
    DispatchKey.CompositeExplicitAutograd: "one definition by other operators for every backend",
    DispatchKey.CompositeExplicitAutogradNonFunctional: "one definition for every backend",
    DispatchKey.Autograd: "one formula for every backend",
}


def page_of(op: OpOverload, *, example: bool = True) -> dict[str, Any]:
    """The page of an operator; with an example call, whose cost is told, unless not wanted."""
    found: dict[str, Any] = {
        "operator": str(op),
        "schema": str(op._schema),
        "summary": op.facts.summary,
        "tags": [t.name for t in op.tags],
        "form": op.form.value,
        "forms": _forms(op),
        "functional": None if op.functional is None else str(op.functional),
        "aliases": _aliases(op),
        "kernels": {key: _served(op, getattr(DispatchKey, key)) for key in KEYS},
        "registered": _registered(op),
        "rules": _rules(op),
        "defined at": _short(op.place),
    }
    if example:
        found["example"], found["cost of the example"] = _example(op)
    return found


def _forms(op: OpOverload) -> list[str]:
    """The other overloads that share its page, or its name."""
    name = op._qualified.partition(".")[0]
    others = [*op.facts.overloads]
    for packet in (find_packet(name), find_packet(f"{name}_")):
        others += [] if packet is None else list(packet._overloads.values())
    return list(dict.fromkeys([str(o) for o in others if o is not op]))


def _aliases(op: OpOverload) -> list[str]:
    """What the schema says of memory, in words."""
    schema = op._schema
    said = [f"{a.name} is mutated" for a in schema.arguments if a.is_write]
    for i, returned in enumerate(schema.returns):
        info = returned.alias_info
        if info is None:
            continue
        sources = [
            a.name for a in schema.arguments
            if a.alias_info is not None and a.alias_info.before_set & info.before_set
        ]  # fmt: skip
        what = "is" if info.is_write else "is a view of"
        said.append(f"result {i} {what} {' or '.join(sources) or 'an argument'}")
    return said or ["no argument is mutated, no result shares memory"]


# --- kernels ------------------------------------------------------------------------------------


def _served(op: OpOverload, key: DispatchKey) -> str:
    """What serves a key, and by which rule of the dispatcher."""
    serving = op.find_key(key)
    if serving is None:
        return "nothing: NotImplementedError"
    stack = op._kernels.get(serving)
    if not stack:
        return _by_fallback(op, key) if has_backend_fallback(key) else "nothing"
    kernel = stack[-1]
    place = _short(kernel.place) or _place_of(kernel.python) or _place_of(op.array_kernel)
    more = f", over {len(stack) - 1} earlier" if len(stack) > 1 else ""
    if serving is not key:
        return f"{serving.name}: {_COMPOSITES.get(serving, 'an alias')}{_at(place)}{more}"
    if kernel.python is None and op.shape_rule is not None:
        return _by_page(op, key)
    return f"a kernel of its own{_at(place)}{more}"


def _by_page(op: OpOverload, key: DispatchKey) -> str:
    if key is DispatchKey.Meta:
        return f"the shape rule{_at(_place_of(op.shape_rule))}"
    if op.array_kernel is None:
        return "the shape rule, laid over the argument's memory"
    return f"the kernel of arrays, behind the shape rule{_at(_place_of(op.array_kernel))}"


def _by_fallback(op: OpOverload, key: DispatchKey) -> str:
    for names, words in _FALLBACKS.items():
        if key.name.startswith(names):
            return words(op, key)
    return "the key's fallback"


def _autocast(op: OpOverload, key: DispatchKey) -> str:
    policy = op.autocast_policies.get(key.name.removeprefix("Autocast").lower())
    return "passed by" if policy is None else f"the page's policy: {policy}"


def _autograd(op: OpOverload, key: DispatchKey) -> str:
    known = op.derivatives
    if known is None or not known.rules:
        return "no derivative: a result of floats that needs one warns, or raises"
    names = ", ".join([n for rule in known.rules for n in rule.wrt])
    return f"the page's derivatives, of {names}"


def _batched(op: OpOverload, key: DispatchKey) -> str:
    from maquette.transforms.rules import rule_of  # noqa: PLC0415

    rule = rule_of(op)
    if rule is not None:
        return f"the batching rule {_name_of(rule)}"
    if op._can_decompose():
        return "it decomposes, and its parts are batched"
    own = op.form is Form.FUNCTIONAL
    return "a loop, with a warning" if own else "the rule of its functional twin"


def _functionalized(op: OpOverload, key: DispatchKey) -> str:
    if op._can_decompose():
        return "it decomposes"
    if op.form in (Form.FUNCTIONAL, Form.VIEW):
        return "it is called on values" + (", the view noted" if op.form is Form.VIEW else "")
    twin = op.functional
    return f"its functional twin {twin}" if twin is not None else "it is called on clones"


def _faked(op: OpOverload, key: DispatchKey) -> str:
    if op.shape_rule is not None:
        return f"the shape rule{_at(_place_of(op.shape_rule))}"
    if op._can_decompose() or op.has_kernel_for_dispatch_key(DispatchKey.CompositeExplicitAutograd):
        return "its definition by other operators, on fakes"
    return "the kernel for Meta" if op._kernels.get(DispatchKey.Meta) else "nothing: unsupported"


_FALLBACKS: dict[str, Callable[[OpOverload, DispatchKey], str]] = {
    "Autocast": _autocast,
    "Autograd": _autograd,
    "FuncTorchBatched": _batched,
    "Functionalize": _functionalized,
    "Fake": _faked,
}


def _registered(op: OpOverload) -> dict[str, list[str]]:
    """Where the kernels that are registered at each key come from, the one that acts first."""
    found = {}
    for key, stack in sorted(op._kernels.items(), key=lambda item: item[0].name):
        places = [_short(k.place) or _place_of(k.python) or "its page" for k in reversed(stack)]
        if places:
            found[key.name] = places
    return found


# --- rules --------------------------------------------------------------------------------------


def _rules(op: OpOverload) -> dict[str, str]:
    """Each part of the page that is there, and where."""
    facts = op.facts
    parts: dict[str, Any] = {
        "shape": op.shape_rule, "kernel": op.array_kernel, "tangent": facts.tangent,
        "batching": facts.batching, "sharding": facts.sharding, "cost": facts.cost,
        "inverse": facts.inverse, "body": facts.body,
    }  # fmt: skip
    found = {name: _name_of(rule) for name, rule in parts.items() if rule is not None}
    if op.derivatives is not None and op.derivatives.rules:
        said = [f"{', '.join(r.wrt)} ({r.kind.name.lower()})" for r in op.derivatives.rules]
        found["derivative"] = "; ".join(said)
    return found


def _name_of(rule: Any) -> str:
    name = getattr(rule, "__qualname__", None) or type(rule).__name__
    return f"{name}{_at(_place_of(rule))}"


def _place_of(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return "" if code is None else f"{_short(code.co_filename)}:{code.co_firstlineno}"


def _short(place: str) -> str:
    """A place with a file of the package as seen from there, any other from here."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for root, mark in ((package, "maquette"), (os.getcwd(), "")):
        if place.startswith(root + os.sep):
            return os.path.join(mark, place[len(root) + 1 :])
    return place


def _at(place: str) -> str:
    return f" ({place})" if place else ""


# --- an example ---------------------------------------------------------------------------------


def _example(op: OpOverload) -> tuple[str | None, str | None]:
    """A call that works, as code, and what it costs; None where none could be made."""
    from maquette.library.costs import cost_of  # noqa: PLC0415
    from maquette.opcheck.operators import checked  # noqa: PLC0415
    from maquette.opcheck.recipes import code_of, sample_of  # noqa: PLC0415
    from maquette.opcheck.samples import samples_of  # noqa: PLC0415

    target = checked(op)
    calls = samples_of(target)
    if not calls:
        return None, None
    args, kwargs = calls[0]
    sample = sample_of(target, args, kwargs)
    try:
        cost = cost_of(op, args, kwargs, op(*args, **kwargs))
        told = f"{cost.flops} FLOPs, {cost.bytes_read} bytes read, {cost.bytes_written} written"
    except Exception as error:  # noqa: BLE001  # told as what it is
        told = f"unknown: {type(error).__name__}: {error}"
    return code_of(sample, sample.recipe), told
