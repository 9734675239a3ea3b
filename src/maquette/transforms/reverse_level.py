"""A level of grad or vjp: calls are recorded on tensors of the level, then run on the level below.

`GradInterpreter.process` lifts what is not of its level (a leaf that requires no grad) and runs the
operator's kernel at Autograd as ever; below Autograd the call comes to
FuncTorchDynamicLayerBackMode, where `back_kernel` takes the values out, calls the operator on the
level below and wraps what that gives. So the autograd of a level is the autograd of
`maquette.autograd`, with nothing added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from maquette.dispatch import keysets as K
from maquette.dispatch.base import TransformType
from maquette.dispatch.forms import Form
from maquette.dispatch.generated import generate
from maquette.dispatch.kernels import Boxed
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tls import tls
from maquette.tensor.keys import ADINPLACE
from maquette.tensor.tensor import Tensor
from maquette.transforms.interpreter import BACK, GRAD_WRAPPER, PLAIN, TOP, Interpreter, run_below
from maquette.transforms.wrappers import (
    GradTrackingTensor,
    Wrapper,
    is_captured,
    mark_captured,
    revived,
    tracked,
)

_CARRIED = K.WATCHED | ADINPLACE
_DROPPED = ~(TOP | GRAD_WRAPPER)


class GradInterpreter(Interpreter):
    """The level of one grad, vjp or jacrev."""

    __slots__ = ()

    transform = TransformType.Grad
    records = True
    leaves_inference = True

    @classmethod
    def call_of(cls, op: OpOverload) -> Callable[..., object]:
        table, resolve = op._table, op.resolve

        def call(level: GradInterpreter, params: Sequence[object]) -> object:
            keys = 0
            for p in params:
                if p.__class__ is GradTrackingTensor and p._interpreter is level:
                    keys |= p._keys
                elif p.__class__ is tuple or isinstance(p, Tensor):
                    return level.process(op, params)
            st = tls.st
            ks = (keys | BACK | st.include & _CARRIED) & (st.keep | K.AUTOGRAD) & _DROPPED
            return (table.get(ks) or resolve(ks))(ks, *params)

        return call

    def process(self, op: OpOverload, params: Sequence[object]) -> object:
        """Record and run a call whose tensors, lifted, are all of this level."""
        keys = 0
        given: Sequence[object] = params
        for i, p in enumerate(params):
            if p.__class__ is GradTrackingTensor and p._interpreter is self:
                keys |= p._keys
            elif p.__class__ is tuple or isinstance(p, Tensor):
                if given is params:
                    given = list(params)
                given[i], own = self._lifted(op, i, p)  # type: ignore[index]  # a list by now
                keys |= own
        st = tls.st
        # What the program excludes holds below: a level is always recorded.
        ks = (keys | BACK | st.include & _CARRIED) & (st.keep | K.AUTOGRAD) & _DROPPED
        return (op._table.get(ks) or op.resolve(ks))(ks, *given)

    def lifted(self, t: Tensor) -> Tensor:
        """A tensor at this level: itself, or a leaf that does not require grad."""
        own = t.__class__ is GradTrackingTensor and cast(Wrapper, t)._interpreter is self
        return t if own else tracked(t, self)

    def _lifted(self, op: OpOverload, i: int, p: object) -> tuple[object, int]:
        """A parameter with its tensors at this level, and their keys."""
        if p.__class__ is tuple:
            members = [self._lifted(op, i, t) for t in cast(tuple[object, ...], p)]
            keys = 0
            for _, own in members:
                keys |= own
            return tuple([t for t, _ in members]), keys
        if not isinstance(p, Tensor):
            return p, 0
        t = revived(p)
        if t.__class__ is GradTrackingTensor and cast(Wrapper, t)._interpreter is self:
            return t, t._keys
        if op._schema.arguments[i].is_write:
            refuse_captured(op)
        made = tracked(t, self)
        made._captured = not op.facts.hides_aliases  # what is fresh was made here
        return made, made._keys


def require_grad(t: Tensor) -> Tensor:
    """Make a wrapper a leaf that requires grad, which programs may not do inside of a transform."""
    t._autograd().requires_grad = True
    t._keys |= K.REQUIRES_GRAD  # it is new: there are no views to be told
    return t


def refuse_captured(op: OpOverload) -> None:
    """Refuse to write to what a function under a transform of derivatives did not make or get."""
    raise RuntimeError(
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call "
        f"in-place operation ({op.name()}) that would mutate a captured Tensor. This is not "
        "supported; please rewrite the function being transformed to explicitly accept the mutated "
        "Tensor(s) as inputs."
    )


def back_kernel(op: OpOverload, ks: int) -> Boxed:
    """The kernel at FuncTorchDynamicLayerBackMode: the call on the level below, wrapped again."""
    return written_out_back(op, _back_kernel(op))


def _back_kernel(op: OpOverload) -> Boxed:
    aliases = any(a.alias_info is not None for a in op._schema.arguments)
    in_place = op.form is Form.IN_PLACE

    def kernel(ks: int, *params: object) -> object:
        level = cast(Interpreter, tls.st.transforms[-1])
        if in_place and is_captured(params[0]):
            refuse_captured(op)
        values = [
            p._value
            if p.__class__ is GradTrackingTensor and p._interpreter is level
            else _values(p, level)
            if p.__class__ is tuple
            else p
            for p in params
        ]
        result = run_below(level, op, values)
        if aliases:
            return _same_or_wrapped(op, params, values, result, level)
        if isinstance(result, Tensor):
            return tracked(result, level)
        return _wrapped(result, level)

    return kernel


def _values(p: object, level: Interpreter) -> object:
    return tuple(
        [
            t._value if isinstance(t, Wrapper) and t._interpreter is level else t
            for t in cast(tuple[object, ...], p)
        ]
    )


def _wrapped(result: object, level: Interpreter) -> object:
    if isinstance(result, Tensor):
        return tracked(result, level)
    if isinstance(result, (tuple, list)):
        return type(result)([_wrapped(r, level) for r in result])
    return result


def _same_or_wrapped(
    op: OpOverload,
    params: Sequence[object],
    values: Sequence[object],
    result: object,
    level: Interpreter,
) -> object:
    """Results that are arguments stay those; wrappers that were written follow their values."""
    known: dict[int, object] = {}
    captured = False
    for a, p, v in zip(op._schema.arguments, params, values):
        if p.__class__ is tuple:
            pairs = list(zip(cast(tuple[object, ...], p), cast(tuple[object, ...], v)))
        else:
            pairs = [(p, v)]
        for mine, value in pairs:
            if isinstance(mine, Wrapper) and isinstance(value, Tensor):
                known[id(value)] = mine
                captured = captured or (a.alias_info is not None and is_captured(mine))
                if mine.meta is not value.meta and a.alias_info is not None:
                    mine.meta, mine._storage = value.meta, value._storage

    def one(r: object) -> object:
        if isinstance(r, Tensor):
            mine = known.get(id(r))
            return tracked(r, level) if mine is None else mine
        if isinstance(r, (tuple, list)):
            return type(r)([one(t) for t in r])
        return r

    made = one(result)
    if captured:
        mark_captured(made)
    return made


# --- written out ------------------------------------------------------------------------------


def written_out_front(op: OpOverload, otherwise: Boxed) -> Boxed:
    """`GradInterpreter.call_of`, for tensors of the level and for what is no tensor."""
    tensors = _lone_tensors(op)
    if tensors is None:
        return otherwise
    passed = ", ".join(f"p{i}" for i in range(len(op._schema.arguments)))
    lines = [
        f"def _kernel(_ks, {passed}):",
        "    _st = _tls.st",
        "    _level = _st.transforms[-1]",
        "    if _level.__class__ is not _Level:",
        f"        return _otherwise(_ks, {passed})",
        "    _keys = 0",
    ]
    for i in tensors:
        lines += [
            f"    if p{i}.__class__ is _Tracked and p{i}._interpreter is _level:",
            f"        _keys |= p{i}._keys",
            f"    elif isinstance(p{i}, _Tensor):",
            f"        return _otherwise(_ks, {passed})",
        ]
    lines += [
        f"    _keys |= {BACK} | _st.include & {_CARRIED}",
        f"    _keys &= (_st.keep | {K.AUTOGRAD}) & {_DROPPED}",
        f"    return (_get(_keys) or _resolve(_keys))(_keys, {passed})",
    ]
    return _generate(op, lines, otherwise)


def written_out_back(op: OpOverload, otherwise: Boxed) -> Boxed:
    """`_back_kernel` and `run_below`, for operators that neither write nor give views."""
    arguments, returns = op._schema.arguments, op._schema.returns
    tensors = _lone_tensors(op)
    single = len(returns) == 1 and returns[0].type.written == "Tensor"
    aliases = any(a.alias_info is not None for a in arguments)
    if tensors is None or aliases or not single or op.facts.shape is None:
        return otherwise
    passed = ", ".join(f"p{i}" for i in range(len(arguments)))
    values = ", ".join(f"_v{i}" if i in tensors else f"p{i}" for i in range(len(arguments)))
    lines = [
        f"def _kernel(_ks, {passed}):",
        "    _st = _tls.st",
        "    _level = _st.transforms[-1]",
        "    _keys = 0",
    ]
    for i in tensors:
        lines += [
            f"    if p{i}.__class__ is _Tracked and p{i}._interpreter is _level:",
            f"        _v{i} = p{i}._value",
            f"        _keys |= _v{i}._keys",
            f"    elif isinstance(p{i}, _Tensor):",
            f"        return _otherwise(_ks, {passed})",
            "    else:",
            f"        _v{i} = p{i}",
        ]
    lines += [
        f"    _keys = (_keys | _st.include & {~TOP} | _level.include_below) & _st.keep",
        f"    if _keys & {~PLAIN} or _st.exclude != _level.exclude:",
        f"        return _otherwise(_ks, {passed})",
        "    if _level.grad_below is not None:",
        f"        return _otherwise(_ks, {passed})",
        f"    return _wrap((_get(_keys) or _resolve(_keys))(_keys, {values}), _level)",
    ]
    return _generate(op, lines, otherwise)


def _lone_tensors(op: OpOverload) -> list[int] | None:
    """Which parameters are tensors; None where there are none, or lists of them."""
    written = [a.type.written for a in op._schema.arguments]
    if any(t.startswith("Tensor") and "[" in t for t in written):
        return None
    return [i for i, t in enumerate(written) if t.startswith("Tensor")] or None


def _generate(op: OpOverload, lines: list[str], otherwise: Boxed) -> Boxed:
    space: dict[str, object] = {
        "_tls": tls,
        "_Level": GradInterpreter,
        "_Tracked": GradTrackingTensor,
        "_Tensor": Tensor,
        "_otherwise": otherwise,
        "_get": op._table.get,
        "_resolve": op.resolve,
        "_wrap": tracked,
    }
    return generate("\n".join(lines) + "\n", "_kernel", "graded", space)


__all__ = ["GradInterpreter", "back_kernel", "refuse_captured", "require_grad"]
