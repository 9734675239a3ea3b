"""Views and history: how a view is reached from its base, as a step of the backward graph (T25).

A view's history describes its base as it was when the view was made. Once either is mutated it is
made anew, when it is next asked for: the base's history, then the view as seen through it. A view
that only has another geometry is an `as_strided` of its base. Other views are seen through the
operators that change the dtype or the conjugate and negative bits, for those map gradients too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from maquette.autograd.node import Node, call_name, move_retained
from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.dispatch.registry import find_packet
from maquette.dispatch.tls import tls
from maquette.tensor.history import VIEW_HISTORY
from maquette.tensor.keys import CONJUGATE, NEGATIVE
from maquette.tensor.tensor import Tensor

Ints = tuple[int, ...]


class Look(NamedTuple):
    """How a tensor sees its storage: meta, conjugate bit, negative bit."""

    meta: TensorMeta
    conj: bool
    neg: bool


def look_of(t: Tensor) -> Look:
    """How ``t`` sees its storage."""
    if type(t).is_conj is not Tensor.is_conj:  # a wrapper says what is so of what it wraps
        return Look(t.meta, t.is_conj(), t.is_neg())
    keys = t._keys
    return Look(t.meta, bool(keys & CONJUGATE), bool(keys & NEGATIVE))


def is_plain(base: Look, view: Look) -> bool:
    """Whether nothing but geometry is between the two."""
    return base.meta.dtype is view.meta.dtype and base[1:] == view[1:]


def empty_as(grad: Tensor, base: Look) -> Tensor:
    """A tensor for gradients of a base, which lies in its storage as the base does in its own."""
    made: Tensor = grad.new_empty_strided(base.meta.shape, base.meta.strides)
    if base.conj:
        made = _operator("_conj", made)
    return _operator("_neg_view", made) if base.neg else made


def see(t: Tensor, base: Look, view: Look, last: str = "") -> Tensor:
    """``t``, which lies in its storage as the base does, as the view sees the base's storage.

    last: the operator to come last, where one does that changes more than geometry.
    """
    start = t.meta.offset - base.meta.offset
    if not base.meta.dtype.is_complex and view.meta.dtype.is_complex:
        return _complex_over(t, base, view, start, last)
    if base.meta.dtype.is_complex and not view.meta.dtype.is_complex:
        return _parts_of(t, base, view, start, last)
    changes = [name for name, bit in _BITS if base[bit] != view[bit]]
    if last and last in changes:
        changes.remove(last)
        changes.append(last)
        t = _strided(t, view.meta.shape, view.meta.strides, view.meta.offset + start)
    for name in changes:
        t = _operator(name, t)
    if last in changes:
        return t
    return _strided(t, view.meta.shape, view.meta.strides, view.meta.offset + start)


_BITS = (("_conj", 1), ("_neg_view", 2))


def _parts_of(t: Tensor, base: Look, view: Look, start: int, last: str) -> Tensor:
    """A real view of a complex base: the numbers that its memory has."""
    if base.conj:
        t = _operator("_conj", t)
    if base.neg:
        t = _operator("_neg_view", t)
    meta = view.meta
    shape, strides, offset = meta.shape, meta.strides, meta.offset + 2 * start
    if last == "view_as_real" and strides[-1:] == (1,) and shape[-1:] == (2,):
        t = _strided(t, shape[:-1], tuple([s // 2 for s in strides[:-1]]), offset // 2)
    t = _operator("view_as_real", t)
    if last == "_neg_view" and view.neg:
        return _operator("_neg_view", _strided(t, shape, strides, offset))
    if view.neg:
        t = _operator("_neg_view", t)
    return _strided(t, shape, strides, offset)


def _complex_over(t: Tensor, base: Look, view: Look, start: int, last: str) -> Tensor:
    """A complex view of a real base: pairs of numbers of its memory."""
    if base.neg:
        t = _operator("_neg_view", t)
    meta = view.meta
    pairs = (*[2 * s for s in meta.strides], 1)
    t = _strided(t, (*meta.shape, 2), pairs, 2 * meta.offset + start)
    t = _operator("view_as_complex", t)
    for name, bit in _BITS:
        if view[bit]:
            t = _operator(name, t)
    if last in ("view_as_complex", "_conj", "_neg_view"):
        return t
    return _operator("as_strided", t, meta.shape, meta.strides, t.meta.offset)


def _strided(t: Tensor, shape: Ints, strides: Ints, offset: int) -> Tensor:
    meta = t.meta
    if (meta.shape, meta.strides, meta.offset) == (shape, strides, offset):
        return t
    return _operator("as_strided", t, shape, strides, offset)


def strided_again(t: Tensor) -> Tensor:
    """``as_strided`` of a tensor to the geometry that it has."""
    return _operator("as_strided", t, *_geometry(t.meta))


def _operator(name: str, *args: object) -> Tensor:
    packet = find_packet(f"aten::{name}")
    assert packet is not None
    return cast(Callable[..., Tensor], packet.default)(*args)


def refresh_view(view: Tensor) -> None:
    """Give a view the history of its base as it is now.

    Raises RuntimeError where the way in which the view was made forbids to mutate its base.
    """
    base = view._base
    assert base is not None
    ag = view._ag
    if (ag is None or ag.grad_fn is None) and not base._keys & K.REQUIRES_GRAD:
        return
    if ag is not None and ag.creation_meta:
        refuse_mutation(view, "its base or another view of its base has been")
    old, number = (None, 0) if ag is None else (ag.grad_fn, ag.output_nr)
    node = _node_of_view(base, view, "" if ag is None else ag.seen_as)
    made = view._autograd()
    made.grad_fn, made.output_nr, made.view_version = node, 0, view._version
    if node is None:  # its base requires no grad, and neither does it any more
        made.requires_grad = False
        view._keys &= ~K.REQUIRES_GRAD
    else:
        view._keys |= K.REQUIRES_GRAD
        move_retained(view, old, number)


def _node_of_view(base: Tensor, view: Tensor, last: str) -> Node | None:
    seen, looked = look_of(base), look_of(view)
    turned = is_plain(seen, looked) and last in ("_conj", "_neg_view")
    if is_plain(seen, looked) and not turned:
        return STRIDED_NODE[0](base, view.meta)
    st = tls.st
    before = st.grad_enabled
    st.set_grad_enabled(True)
    try:
        made = _turned_twice(base, last, looked) if turned else see(base, seen, looked, last)
        if not last:  # a view of a view that was more than geometry: PyTorch says so again
            made = _operator("as_strided", made, *_geometry(looked.meta))
        return made.grad_fn
    finally:
        st.set_grad_enabled(before)


def _turned_twice(base: Tensor, name: str, look: Look) -> Tensor:
    """The conjugate of the conjugate, or the negative of the negative, is no view of its base."""
    return _operator(name, _operator(name, _strided(base, *_geometry(look.meta))))


def _geometry(meta: TensorMeta) -> tuple[Ints, Ints, int]:
    return meta.shape, meta.strides, meta.offset


def refuse_mutation(view: Tensor, mutated: str) -> None:
    """Raise the error for a view that was made so that its memory may not be mutated."""
    ag = view._ag
    assert ag is not None
    node = ag.grad_fn
    if node is None:
        made = _MADE_IN.get(ag.creation_meta, "by a call that recorded nothing")
        start = f"A view was created {made} and {mutated} modified inplace"
    else:
        output = f"Output {ag.output_nr} of {call_name(node)}"
        block = _MADE_IN.get(ag.creation_meta)
        what = "a view" if block is None else f"a view of a view made {block}"
        start = f"{output} is {what} and {mutated} modified inplace"
    raise RuntimeError(f"{start}. {_WHY[ag.creation_meta]} (the view: {view.meta})")


_MADE_IN = {"NO_GRAD_MODE": "in no_grad mode", "INFERENCE_MODE": "in inference mode"}
_BOTH_OR_NEITHER = (
    "Which of the two should be recorded is ambiguous, so it is forbidden: make the view and "
    "modify it both inside the {} block, or both outside."
)
_WHY = {
    "NO_GRAD_MODE": _BOTH_OR_NEITHER.format("no_grad"),
    "INFERENCE_MODE": _BOTH_OR_NEITHER.format("inference_mode"),
    "MULTI_OUTPUT_NODE": "This view is the output of a function that returns multiple views. Such "
    "functions do not allow the output views to be modified inplace. You should replace the "
    "inplace operation by an out-of-place one.",
    "CUSTOM_FUNCTION": "This view was created inside a custom Function (or because an input was "
    "returned as-is), so modifying it would override the custom backward. Clone the output of the "
    "custom Function instead.",
}


def _no_strided_node(base: Tensor, view: TensorMeta) -> Node | None:
    raise RuntimeError("the operators are not loaded: import maquette first")


# Makes the history of a strided view: `record` fills it in, for it is as_strided's own node.
STRIDED_NODE: list[Callable[[Tensor, TensorMeta], Node | None]] = [_no_strided_node]
VIEW_HISTORY[0] = refresh_view
