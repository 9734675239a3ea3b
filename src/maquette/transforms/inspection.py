"""Questions about the tensors of levels, and levels opened and closed by hand.

These are what a higher-order operator's rule for a transform, or a tool, works with: torch has them
in ``torch._C._functorch``. Programs use `vmap` and the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import cast

from maquette.dispatch.base import TransformType
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor
from maquette.transforms.batch import VmapInterpreter
from maquette.transforms.forward_level import JvpInterpreter
from maquette.transforms.interpreter import (
    Interpreter,
    pushed,
    stack,
    temporarily_clear_interpreter_stack,
    top,
)
from maquette.transforms.loop import fallback
from maquette.transforms.reverse_level import GradInterpreter
from maquette.transforms.rules import operators
from maquette.transforms.vmap import repeated
from maquette.transforms.wrappers import (
    BatchedTensor,
    DualTensor,
    GradTrackingTensor,
    Wrapper,
    batched,
    revived,
    tracked,
)

# --- tensors ----------------------------------------------------------------------------------


def is_functorch_wrapped_tensor(t: object) -> bool:
    """Whether a tensor belongs to a level."""
    return isinstance(t, Wrapper)


def is_legacy_batchedtensor(t: object) -> bool:
    """False: batches of PyTorch's first `vmap`, which are not here."""
    return False


def is_batchedtensor(t: object) -> bool:
    """Whether a level of vmap hides a dimension of this tensor."""
    return isinstance(t, BatchedTensor)


def is_gradtrackingtensor(t: object) -> bool:
    """Whether a level of grad or jvp follows this tensor."""
    return isinstance(t, (GradTrackingTensor, DualTensor))


def is_functionaltensor(t: object) -> bool:
    """Whether functionalization wraps this tensor; the transforms here never do."""
    return False


def is_dead_tensor_wrapper(t: object) -> bool:
    """Whether the level that a tensor belongs to is over."""
    return isinstance(t, Wrapper) and not t._interpreter.live


def maybe_get_bdim(t: object) -> int:
    """The dimension that vmap hides in a tensor, -1 for a tensor that is not batched."""
    return t._bdim if isinstance(t, BatchedTensor) else -1


def maybe_get_level(t: object) -> int:
    """The level of a tensor: -1 for a plain one, -2 for one whose level is over."""
    if not isinstance(t, Wrapper):
        return -1
    return t._interpreter.number if t._interpreter.live else -2


def dlevel(t: object) -> int:
    """The level of a tensor: 0 for a plain one, -1 for one whose level is over."""
    if not isinstance(t, Wrapper):
        return 0
    return t._interpreter.number if t._interpreter.live else -1


def get_unwrapped(t: Tensor) -> Tensor:
    """The value of a tensor of some level, on the level below."""
    if not isinstance(t, Wrapper):
        raise RuntimeError(f"No wrapped tensor: {t.meta} belongs to no function transform")
    return t._value


def unwrap_if_dead(t: Tensor) -> Tensor:
    """What a tensor stands for if its level is over; else itself."""
    return revived(t) if isinstance(t, Wrapper) else t


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The plain tensor inside the wrappers of all levels, or, without ``recurse``, of one.

    For looking only: computing with it goes past the transforms. Raises ValueError for what is no
    tensor.
    """
    if not isinstance(tensor, Tensor):
        raise ValueError(f"Expected a tensor, got {type(tensor)}")
    while isinstance(tensor, Wrapper):
        tensor = tensor._value
        if not recurse:
            break
    return tensor


# --- levels -----------------------------------------------------------------------------------


def peek_interpreter_stack() -> Interpreter | None:
    """The interpreter of the innermost transform, or None."""
    return top()


def get_interpreter_stack() -> list[Interpreter] | None:
    """The interpreters in force, the outermost first; None if there is none."""
    return list(stack()) or None


def get_dynamic_layer_stack_depth() -> int:
    """How many transforms are in force."""
    return len(stack())


def current_level() -> int:
    """The number of the innermost level; RuntimeError outside of all transforms."""
    level = top()
    if level is None:
        raise RuntimeError("current_level: no function transform is in force")
    return level.number


def maybe_current_level() -> int | None:
    """The number of the innermost level, or None."""
    level = top()
    return None if level is None else level.number


_OPEN: dict[Interpreter, pushed] = {}


def _open(level: Interpreter) -> int:
    block = pushed(level)
    block.__enter__()
    _OPEN[level] = block
    return level.number


def _close(kind: TransformType) -> int:
    level = top()
    if level is None or level.key() is not kind or level not in _OPEN:
        raise RuntimeError(f"the innermost function transform was not opened as {kind.name}")
    _OPEN.pop(level).__exit__(None, None, None)
    return level.number


def vmap_increment_nesting(batch_size: int, randomness: str) -> int:
    """Open a level of vmap; its number."""
    return _open(VmapInterpreter(batch_size, randomness))


def vmap_decrement_nesting() -> int:
    """Close the innermost level, which `vmap_increment_nesting` opened; its number."""
    return _close(TransformType.Vmap)


def grad_increment_nesting() -> int:
    """Open a level of grad; its number."""
    return _open(GradInterpreter())


def grad_decrement_nesting() -> int:
    """Close the innermost level, which `grad_increment_nesting` opened; its number."""
    return _close(TransformType.Grad)


def jvp_increment_nesting() -> int:
    """Open a level of jvp; its number."""
    return _open(JvpInterpreter())


def jvp_decrement_nesting() -> int:
    """Close the innermost level, which `jvp_increment_nesting` opened; its number."""
    return _close(TransformType.Jvp)


def level_of(number: int) -> Interpreter:
    """The interpreter in force of a number; RuntimeError where there is none."""
    levels = stack()
    if not 1 <= number <= len(levels):
        raise RuntimeError(f"there is no level {number}: {len(levels)} transforms are in force")
    return levels[number - 1]


def add_batch_dim(t: Tensor, dim: int, level: int) -> Tensor:
    """``t`` with its dimension ``dim`` hidden at a level of vmap.

    Where no level of that number is in force, it is one that is over: the tensor can be looked at.
    """
    dim %= t.meta.ndim
    if 1 <= level <= len(stack()):
        return batched(t, dim, level_of(level))
    over = VmapInterpreter(t.meta.shape[dim], "error")
    over.number, over.live = level, False
    return batched(t, dim, over)


def remove_batch_dim(t: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """``t`` with the dimension that the level hides at ``out_dim``; repeated if it hides none."""
    if isinstance(t, BatchedTensor) and t._interpreter.number == level:
        return cast(Tensor, operators.movedim(t._value, t._bdim, out_dim))
    return repeated(t, batch_size, out_dim)


def unwrap_batched(t: Tensor, level: int) -> tuple[Tensor, int | None]:
    """The value and hidden dimension of a tensor of this level; a tensor of another and None."""
    if isinstance(t, BatchedTensor) and t._interpreter.number == level:
        return t._value, t._bdim
    return t, None


def wrap_for_grad(t: Tensor, level: int) -> Tensor:
    """``t`` at a level of grad, where it requires none."""
    return tracked(t, level_of(level))


def unwrap_for_grad(t: Tensor, level: int) -> Tensor:
    """The value of a tensor of this level of grad; another as it is."""
    if isinstance(t, GradTrackingTensor) and t._interpreter.number == level:
        return t._value
    return t


# --- settings ---------------------------------------------------------------------------------


def is_vmap_fallback_enabled() -> bool:
    """Whether operators without a batching rule are looped over, rather than refused."""
    return fallback.enabled


def set_vmap_fallback_enabled(enabled: bool) -> None:
    """Let operators without a batching rule be looped over, or refuse them."""
    fallback.enabled = enabled


def is_vmap_fallback_warning_enabled() -> bool:
    """Whether the loop over the batch warns."""
    return fallback.warns


def set_vmap_fallback_warning_enabled(enabled: bool) -> None:
    """Let the loop over the batch warn, once more for each operator, or not at all."""
    fallback.warns = enabled
    fallback.warned.clear()


def get_single_level_autograd_function_allowed() -> bool:
    """Whether `Function.apply` runs as it does outside of transforms."""
    return tls.st.single_level_function


def set_single_level_autograd_function_allowed(allowed: bool) -> None:
    """Let `Function.apply` run as it does outside of transforms, or ask them."""
    tls.st.single_level_function = allowed


def are_functorch_transforms_active() -> bool:
    """Whether a function transform is in force in this thread."""
    return bool(tls.st.transforms)


class _DisableFuncTorch:
    """For a ``with`` block: no function transforms at all."""

    def __enter__(self) -> None:
        self._block = temporarily_clear_interpreter_stack()
        self._block.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._block.__exit__(kind, error, traceback)


# --- dimensions -------------------------------------------------------------------------------


def reshape_dim_into(src: int, dst: int, x: Tensor) -> Tensor:
    """``x`` with its dimension ``src`` in front of ``dst`` of those that are left, and in it."""
    src, dst = src % x.ndim, dst % (x.ndim - 1)
    shape = [n for i, n in enumerate(x.shape) if i != src]
    shape[dst] *= x.shape[src]
    return cast(Tensor, operators.movedim(x, src, dst).reshape(shape))


def reshape_dim_outof(src: int, size1: int, x: Tensor) -> Tensor:
    """``x`` with its dimension ``src`` as two, the first of ``size1``; it must divide the size."""
    src %= x.ndim
    shape = list(x.shape)
    if shape[src] % size1:
        raise RuntimeError(f"expected {size1} to divide dimension {src}, of size {shape[src]}")
    return cast(Tensor, x.reshape([*shape[:src], size1, shape[src] // size1, *shape[src + 1 :]]))


@contextmanager
def enable_single_level_autograd_function() -> Iterator[None]:
    """For a block: let `Function.apply` run as it does outside of transforms.

    The rules of transforms for it call it so.
    """
    st = tls.st
    before, st.single_level_function = st.single_level_function, True
    try:
        yield
    finally:
        st.single_level_function = before
