"""Forward mode by hand: dual numbers inside of a `dual_level` block.

    with dual_level():
        primal, tangent = unpack_dual(function(make_dual(x, direction)))

The block is a level of `jvp` (`forward_level.py`); reverse mode outside of it goes on as ever.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ContextDecorator, contextmanager
from types import TracebackType
from typing import Any, NamedTuple, cast

from maquette.autograd.api import DUAL_GRAD, PRIMALS, grad
from maquette.core.layout import strided
from maquette.core.pytree import tree_map
from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor
from maquette.transforms.dual_level import DualLevelInterpreter
from maquette.transforms.forward_level import JvpInterpreter, tangent_at
from maquette.transforms.interpreter import pushed, stack
from maquette.transforms.rules import operators
from maquette.transforms.tangents import dual_of
from maquette.transforms.wrappers import DualTensor, dual, revived


class _Open(threading.local):
    def __init__(self) -> None:
        self.blocks: list[tuple[DualLevelInterpreter, pushed]] = []


_open = _Open()


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` gives: the value, and its tangent or None."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Open a level; its number, 0. RuntimeError inside of another."""
    if _open.blocks:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment: nest jvp() instead"
        )
    level = DualLevelInterpreter()
    block = pushed(level)
    block.__enter__()
    _open.blocks.append((level, block))
    return len(_open.blocks) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: its tangents are gone. RuntimeError where it is not the last one opened."""
    last = len(_open.blocks) - 1
    if level is None:
        level = last
    if level != last or last < 0:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created: the "
            "last "
            f"is {last}, asked for was {level}"
        )
    opened, block = _open.blocks.pop()
    opened.forget()
    block.__exit__(None, None, None)


class dual_level(ContextDecorator):  # named as the block that it opens, as torch has it
    """For a ``with`` block, or a decorated function: a level in which tensors may be dual."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        exit_dual_level()


class _set_fwd_grad_enabled(ContextDecorator):  # torch's name
    """Switch forward mode off, or on again, for a block: calls inside carry no tangents."""

    def __init__(self, mode: bool) -> None:
        self._before = tls.st.forward_enabled
        tls.st.forward_enabled = mode

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        tls.st.forward_enabled = self._before


def _is_fwd_grad_enabled() -> bool:
    """Whether calls in this thread carry tangents."""
    return tls.st.forward_enabled


def __getattr__(name: str) -> int:
    if name == "_current_level":  # the number of the level that is open, -1 without
        return len(_open.blocks) - 1
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _current(what: str) -> JvpInterpreter:
    levels = stack()
    if levels and isinstance(levels[-1], JvpInterpreter):
        return levels[-1]
    if _open.blocks:
        return _open.blocks[-1][0]
    raise RuntimeError(
        f"Trying to {what} but no level exists. Make sure to enter_dual_level() first."
    )


_HANDLED = K.functionality_bits(DispatchKey.Python)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """``tensor`` with a tangent of its shape, dtype and device, in the current level."""
    current = _current("create a dual Tensor for forward AD")
    kind = tensor.meta.dtype
    if not (kind.is_floating_point or kind.is_complex):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {kind}")
    if not (tangent.dtype.is_floating_point or tangent.dtype.is_complex):
        raise ValueError(
            f"Expected tangent to be floating point or complex, but got: {tangent.dtype}"
        )
    if tangent_at(tensor, current) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the "
            f"same level {current.number - 1} is not supported."
        )
    if tangent_at(tangent, current) is not None:
        raise RuntimeError(
            "The tangent of a dual Tensor has a forward gradient at the same level "
            f"{current.number - 1}: unpack it first"
        )
    value = _lowered(tensor, current)
    if value._keys & _HANDLED:  # its class is told of the view that the primal is
        with current.lower():
            value = operators.alias(value)
    made = dual_of(value, _lowered(tangent, current), current)
    assert made._tangent is not None
    if not _lies_alike(made._value, made._tangent):
        with current.lower():
            made._tangent = _laid_out_as(made._value, made._tangent)
    made._vc = value._version_counter()
    return made


def _lies_alike(value: Tensor, tangent: Tensor) -> bool:
    """Whether any view of one can be taken of the other: they lie alike in storages of one size."""
    one, other = value.meta, tangent.meta
    return (
        (one.offset == other.offset or one.numel == 0)
        and value.is_conj() == tangent.is_conj()
        and value.is_neg() == tangent.is_neg()
        and all(s == t for n, s, t in zip(one.shape, one.strides, other.strides) if n > 1)
        and (
            value._differs
            or tangent._differs
            or value._storage.nbytes() == tangent._storage.nbytes()
        )
    )


def _laid_out_as(value: Tensor, tangent: Tensor) -> Tensor:
    """A copy of a tangent that lies in its storage as the value does in its own."""
    meta = value.meta
    if meta.layout is not strided or any(
        s == 0 and n > 1 for s, n in zip(meta.strides, meta.shape)
    ):
        return tangent
    memory: Tensor = tangent.new_zeros((value._storage.nbytes() // meta.itemsize,))
    if tangent._differs:
        memory = operators.zeros_like(tangent)
        return memory.copy_(tangent)
    made = cast(Tensor, operators.as_strided(memory, meta.shape, meta.strides, meta.offset))
    made = operators._conj(made) if value.is_conj() else made
    made = operators._neg_view(made) if value.is_neg() else made
    return made.copy_(tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a tensor; the tangent is None where it has none."""
    if not _open.blocks and not stack():
        return UnpackedDualTensor(revived(tensor), None)
    current = _current("unpack a dual Tensor")
    known = cast(Tensor, current.known(tensor))
    if not _own(known, current):
        return UnpackedDualTensor(tensor, None)
    value = _lowered(known, current)
    with current.lower():
        primal = cast(Tensor, operators.alias(value))
    return UnpackedDualTensor(primal, tangent_at(known, current))


# --- reverse mode inside of a level -----------------------------------------------------------


@contextmanager
def _primals(*given: Any) -> Iterator[tuple[Any, ...]]:
    """For a block below the level: its tensors' values, of which autograd's graph is."""
    level = _current("go backward")
    values = tuple([tree_map(lambda t: _lowered(t, level), g) for g in given])
    with level.lower():
        yield values


def _dual_grad(
    outputs: Any,
    inputs: Any,
    starts: Any,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    is_grads_batched: bool,
    materialize_grads: bool,
) -> tuple[Tensor | None, ...]:
    """`autograd.grad` of dual tensors: dual gradients, forward mode over reverse.

    The gradient moves as the derivative of the outputs' tangents does, which are linear in the
    direction, and with the tangents of the gradients to start from.
    """
    level = _current("go backward")
    ends = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    own = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    given = [starts] * len(ends) if isinstance(starts, Tensor | None) else list(starts)
    tangents = [tangent_at(t, level) for t in ends]
    moving = [tangent_at(t, level) for t in given]
    options = {"allow_unused": True, "is_grads_batched": is_grads_batched}
    with _primals(ends, own, given) as (values, places, begin):
        keep = create_graph if retain_graph is None else retain_graph
        along = [
            (t, _ones_like(v) if b is None else b)
            for t, v, b in zip(tangents, values, begin)
            if t is not None and t.requires_grad
        ]
        changed = [(v, m) for v, m in zip(values, moving) if m is not None]
        found = grad(
            values,
            places,
            None if starts is None else begin,
            keep or bool(along or changed),
            create_graph,
            allow_unused=allow_unused,
            is_grads_batched=is_grads_batched,
            materialize_grads=materialize_grads,
        )
        parts = []
        for pairs, more in ((along, bool(changed)), (changed, False)):
            if pairs:
                sources, at = zip(*pairs)
                parts.append(grad(sources, places, at, keep or more, create_graph, **options))
        moved = [_added(column) for column in zip(*parts)] or [None] * len(found)
    return tuple([g if g is None or m is None else dual(g, m, level) for g, m in zip(found, moved)])


def _ones_like(t: Tensor) -> Tensor:
    return cast(Tensor, operators.ones_like(t))


def _added(parts: Sequence[Tensor | None]) -> Tensor | None:
    there = [p for p in parts if p is not None]
    return None if not there else there[0] if len(there) == 1 else there[0] + there[1]


PRIMALS.append(_primals)
DUAL_GRAD.append(_dual_grad)


def _lowered(t: Tensor, level: JvpInterpreter) -> Tensor:
    return t._value if isinstance(t, DualTensor) and t._interpreter is level else t


def _own(t: object, level: JvpInterpreter) -> bool:
    return isinstance(t, DualTensor) and t._interpreter is level


__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]
