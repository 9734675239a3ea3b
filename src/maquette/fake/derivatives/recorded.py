"""A call on fakes that autograd records, in one function: outcome, result, node.

Three kernels serve a call that is differentiated: the one that records, for views the one that
links them to their base, and the one at Fake. Each asks what the one below has just made. Where
all three are those that are generated of an operator's page, their texts are put together here,
less what is known of a new tensor: a fifth of a call's time. Whatever is unusual (an outcome that
is not known yet, a mode that is not the tensors', a view that forbids something) is left to them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from maquette.autograd.compiled_formulas import DerivativePlan
from maquette.autograd.record import JOINED
from maquette.autograd.record_source import (
    NEW_NODE,
    first_history_lines,
    link_lines,
    recording_space,
    saving_lines,
)
from maquette.core.meta import TensorMeta
from maquette.dispatch.generated import Text, generate_later, indented
from maquette.dispatch.operator import OpOverload
from maquette.fake.kernel import KernelText, text_of
from maquette.tensor.aliasing import VIEWING
from maquette.tensor.history import VersionCounter
from maquette.tensor.keys import fake_keys_for

Function = Callable[..., object]


def _joined(op: OpOverload, plan: DerivativePlan, ks: int, unusual: Function) -> Function | None:
    """The kernel that records ``op``, whose kernel below serves ``ks``; None where that is another.

    unusual: what takes over from it.
    """
    below = op.resolved(ks)
    linked = VIEWING.get(below)
    text = text_of(below if linked is None else linked[0])
    kind = ("view", linked[1]) if linked else ("fresh", -1)
    if text is None or {*text.results} != {kind} or (op.is_view and linked is None):
        return None
    space = {**recording_space(plan), **text.space, "_unusual": unusual, "_Counter": VersionCounter}
    space |= {"_grad_keys": _grad_keys, "_keys_for": fake_keys_for}
    facts = plan.facts, plan.nondifferentiable, text.results, text.facts
    written = Text(facts, lambda: _source(op, plan, text))
    return generate_later(written, "_kernel", "recorded", space, unusual)


def _grad_keys(meta: TensorMeta) -> int:
    """The key set of a fake of this meta that requires grad, which metas know once it was asked."""
    fake_keys_for(meta)
    return meta.fake_grad_keys


def _source(op: OpOverload, plan: DerivativePlan, text: KernelText) -> str:
    passed = ", ".join(f"p{i}" for i in range(len(plan.arguments)))
    call = f"_unusual(_ks, {passed})"
    kind, source = text.results[0]
    origin = f"p{source}"
    lines_of_results = _result_lines(origin, kind)
    conditions = ["not _e.differentiable"]
    if len(text.results) > 1:
        conditions = [f"_e.value[{i}].__class__ is not _Meta" for i in range(len(text.results))]
        lines_of_results = _lines_of_each(len(text.results), plan.nondifferentiable)
    elif not plan.one_output:  # a list of views, of the dtype of what has a gradient
        conditions = []
        lines_of_results = [*_base_lines(origin), *NEW_NODE, *_SEVERAL]
    if plan.of_reals:
        made = "_e.meta" if len(text.results) == 1 else "_e.value[0]"
        conditions += [f"{made}.dtype.is_complex"]
    for i in plan.constant:
        conditions += [
            f"(p{i} is not None and p{i}.__class__ not in _NUMBERS and p{i}._keys & _req)"
        ]
    if kind == "view":
        usual = f"{origin}.meta.fake_grad_keys"  # a parameter's keys are equal, not the same object
        conditions += [f"({origin}._keys is not {usual} and {origin}._keys != {usual})"]
    # The first tensor's mode was asked for, so that it is no number.
    first = next((i for i, a in enumerate(plan.arguments) if a.type.written == "Tensor"), None)
    numbers = [line for line in plan.number_lines() if not line.startswith(f"_is_p{first} ")]
    lines = [
        *text.known_lines(call),
        *([f"if {' or '.join(conditions)}:", f"    return {call}"] if conditions else []),
        *numbers,
        *link_lines(op, plan, f"return {call}", first),
        *lines_of_results,
        *saving_lines(plan, first),
        "return _r",
    ]
    return "\n".join([f"def _kernel(_ks, {passed}):", *indented(lines), ""])


def _result_lines(origin: str, kind: str) -> list[str]:
    """Source that makes the result ``_r`` of the outcome ``_e``, and the node ``_n``."""
    lines = [
        "_r = _made(_Fake)",
        "_r.meta = _o = _e.meta",
        "_r._keys = _o.fake_grad_keys",
        "_r._mq_data = _r.constant = None",
        "_r.fake_mode = _m",
    ]
    if kind == "fresh":
        return [*lines, *_FRESH, *first_history_lines(view=False)]
    return [
        *lines,
        *_base_lines(origin),
        "_r._storage = _s",
        "_r._vc = _vc",
        "_r._base = _b",
        *first_history_lines(view=True),
        f"if {origin} is not _b and {origin}._ag and {origin}._ag.creation_meta:",
        "    _h = _r._ag = _new(_Output)",  # what forbids writes to a view does so to views of it
        "    _h.grad_fn = _n",
        "    _h.output_nr = 0",
        f"    _h.creation_meta = {origin}._ag.creation_meta",
        "    _h.view_version = _vc.value",
    ]


_FRESH = (
    "_r._storage = _s = _new(_Storage)",
    "_s._nbytes = _e.nbytes",
    "_s.device = _e.device",
    "_s.data = None",
    "_s.foreign = False",
    "_s._id = 0",
    "if _observers:",
    "    _announce(_s)",
    "_r._base = _r._vc = None",
)
_SEVERAL = (
    "_n.count = len(_e.value)",
    "_r = []",
    "for _i, _o in enumerate(_e.value):",
    "    _t = _made(_Fake)",
    "    _t.meta = _o",
    "    _t._keys = _o.fake_grad_keys or _grad_keys(_o)",
    "    _t._mq_data = _t.constant = None",
    "    _t.fake_mode = _m",
    "    _t._storage = _s",
    "    _t._vc = _vc",
    "    _t._base = _b",
    "    _h = _t._ag = _new(_Output)",
    "    _h.grad_fn = _n",
    "    _h.output_nr = _i",
    '    _h.creation_meta = "MULTI_OUTPUT_NODE"',
    "    _h.view_version = _vc.value",
    "    _r.append(_t)",
)


def _lines_of_each(count: int, without: Collection[int]) -> list[str]:
    """`_result_lines` of so many new tensors, of which those ``without`` have no gradient."""
    lines = [*NEW_NODE, f"_n.count = {count}"]
    for i in range(count):
        lines += [
            f"_o = _e.value[{i}]",
            f"_t{i} = _made(_Fake)",
            f"_t{i}.meta = _o",
            f"_t{i}._mq_data = _t{i}._base = _t{i}._vc = _t{i}.constant = None",
            f"_t{i}.fake_mode = _m",
            f"_t{i}._storage = _s = _new(_Storage)",
            "_s._nbytes = _o.storage_bytes",
            "_s.device = _o.device",
            "_s.data = None",
            "_s.foreign = False",
            "_s._id = 0",
            "if _observers:",
            "    _announce(_s)",
        ]
        plain = [f"_t{i}._keys = _o.fake_keys or _keys_for(_o)", f"_t{i}._ag = None"]
        if i in without:
            lines += plain
            continue
        lines += [
            "_d = _o.dtype",
            "if _d.is_floating_point or _d.is_complex:",
            f"    _t{i}._keys = _o.fake_grad_keys or _grad_keys(_o)",
            f"    _h = _t{i}._ag = _new(_Output)",
            "    _h.grad_fn = _n",
            f"    _h.output_nr = {i}",
            '    _h.creation_meta = ""',
            "    _h.view_version = 0",
            "else:",
            *indented(plain),
        ]
    return [*lines, f"_r = ({', '.join(f'_t{i}' for i in range(count))})"]


def _base_lines(origin: str) -> list[str]:
    """Source that finds what a view shares, as the kernel that links views does where gradients
    are recorded: base ``_b``, storage ``_s``, and the count ``_vc`` of writes.
    """
    return [
        f"_vc = {origin}._vc",
        "if _vc is None:",
        f"    _vc = {origin}._vc = _new(_Counter)",
        "    _vc._converted = None",
        "    _vc.value = 0",
        f"_s = {origin}._storage",
        f"_b = {origin}._base",
        "if _b is None:",
        f"    _b = {origin}",
        f"    {origin}._viewed = True",
    ]


JOINED[0] = _joined
