"""A call under `grad`, written out in one function: run on the level below, wrapped and recorded.

`reverse_level.py` says what happens: the kernel in front lifts and records, that behind calls the
operator below and wraps what it gives. Between the two nothing else happens where the state of the
thread is still that in which the level was entered, and where no library has kernels of its own in
between. This is their sequence for operators with one new tensor as result.
"""

from __future__ import annotations

from collections.abc import Callable

from maquette.autograd.compiled_formulas import DerivativePlan
from maquette.autograd.record_source import node_lines, recording_space, refusal_lines
from maquette.dispatch.generated import generate
from maquette.dispatch.kernels import Boxed
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor
from maquette.transforms.interpreter import PLAIN, TOP, Interpreter
from maquette.transforms.wrappers import (
    TRACKED_KEYS,
    GradTrackingTensor,
    tracked,
    tracked_keys,
)

_BACKENDS = {DispatchKey.CPU, DispatchKey.CUDA, DispatchKey.Meta, DispatchKey.Undefined}


def written_out_call(op: OpOverload, otherwise: Boxed) -> Boxed:
    """The whole of a call for tensors of the level and plain ones; else ``otherwise``.

    `x * x` at a level takes 6.1 us with it, 8.5 without, where eager recording takes 4.9
    (process_time, CPython 3.11).
    """
    plan = _plan(op)
    if plan is None:
        return otherwise
    arguments = op._schema.arguments
    tensors = [i for i, a in enumerate(arguments) if a.type.written.startswith("Tensor")]
    passed = ", ".join(f"p{i}" for i in range(len(arguments)))
    values = ", ".join(f"_v{i}" if i in tensors else f"p{i}" for i in range(len(arguments)))
    lines = [
        f"def _kernel(_ks, {passed}):",
        "    _st = _tls.st",
        "    _level = _st.transforms[-1]",
        "    if _level.entered is not _st.effective:",
        f"        return _otherwise(_ks, {passed})",
        "    _keys = 0",
    ]
    for i in tensors:
        lines += [
            f"    _c = p{i}.__class__",
            "    if _c is _Tracked:",
            f"        if p{i}._interpreter is not _level:",
            f"            return _otherwise(_ks, {passed})",
            f"        _v{i} = p{i}._value",
            f"        _k = _v{i}._keys",
            "        if _k is not _keys:",
            "            _keys |= _k",
            "    elif _c is _Tensor:  # captured: no level has it",
            f"        _v{i} = p{i}",
            f"        _keys |= p{i}._keys",
            f"        p{i} = _track(p{i}, _level)",
            f"    elif isinstance(p{i}, _Tensor):",
            f"        return _otherwise(_ks, {passed})",
            "    else:",
            f"        _v{i} = p{i}",
        ]
    lines += [
        "    _keys = _level.under.get(_keys) or _under(_level, _keys)",
        "    _below = _direct.get(_keys) or _known(_keys)",
        "    if _below is None:",
        f"        return _otherwise(_ks, {passed})",
        *refusal_lines(op, plan),
        f"    _v = _below(_keys, {values})",
        "    _r = _new(_Tracked)  # `tracked`, written out",
        "    _d = _r.meta = _v.meta",
        "    _r._keys = _tracked_keys.get(_v._keys) or _wrapper_keys(_v)",
        "    _r._storage = _v._storage",
        "    _r._mq_data = _r._vc = _r._base = _r._ag = None",
        "    _r._value = _v",
        "    _r._interpreter = _level",
        "    _d = _d.dtype",
        "    if not (_d.is_floating_point or _d.is_complex):",
        "        return _r",
        *node_lines(op, plan),
        "    return _r",
    ]
    direct: dict[int, Boxed] = {}
    space: dict[str, object] = recording_space(plan) | {
        "_tls": tls,
        "_Tracked": GradTrackingTensor,
        "_Tensor": Tensor,
        "_otherwise": otherwise,
        "_under": _under,
        "_direct": direct,
        "_known": _direct_kernel(op, direct),
        "_track": tracked,
        "_tracked_keys": TRACKED_KEYS,
        "_wrapper_keys": tracked_keys,
    }
    return generate("\n".join(lines) + "\n", "_kernel", "graded", space)


def _plan(op: OpOverload) -> DerivativePlan | None:
    """How its calls are recorded; None where they are not, or where more than that is done."""
    schema = op._schema
    returns, arguments = schema.returns, schema.arguments
    if op.derivatives is None or op.facts.shape is None or op.shape_rule is None:
        return None
    if len(returns) != 1 or returns[0].type.written != "Tensor":
        return None
    written = [a.type.written for a in arguments]
    if any(a.alias_info is not None for a in arguments) or "Tensor" not in written:
        return None
    if any(t.startswith("Tensor") and "[" in t for t in written):
        return None
    if not _BACKENDS.issuperset(key for key, stack in op._kernels.items() if stack):
        return None  # a library may have its say between the two
    plan = DerivativePlan(op)
    return plan if plan.rules else None


def _under(level: Interpreter, keys: int) -> int:
    """The effective key set, on the level below, of a call whose values have these keys."""
    st = tls.st
    found = (keys | st.include & ~TOP | level.include_below) & st.keep
    level.under[keys] = found
    return found


def _direct_kernel(op: OpOverload, known: dict[int, Boxed]) -> Callable[[int], Boxed | None]:
    """What makes a kernel known that runs without the thread's state being changed."""

    def kernel(keys: int) -> Boxed | None:
        if keys & ~PLAIN:
            return None
        found = known[keys] = op._table.get(keys) or op.resolve(keys)
        return found

    return kernel


__all__ = ["written_out_call"]
