"""Tensors of a level: a value of the level below, and what the transform knows of it.

`BatchedTensor` hides a dimension, `GradTrackingTensor` has a place in the backward graph of its own
level, `DualTensor` carries a tangent. To a program they are tensors: their meta is the one that it
should see. Each holds its interpreter; once that is dead a wrapper stands for its value, but for a
batched tensor, which has escaped from its vmap and is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ClassVar, NoReturn, TypeVar

from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.dispatch.abstract import disabled_torch_function
from maquette.dispatch.keysets import DispatchKey
from maquette.tensor.arrays import Array
from maquette.tensor.keys import ADINPLACE, NOT_INHERITED, keys_for
from maquette.tensor.tensor import Tensor
from maquette.transforms.interpreter import BACK, BATCHED, GRAD_WRAPPER, Interpreter

_new = object.__new__
_SHOWN = K.BACKENDS | K.AUTOGRAD | K.functionality_bits(DispatchKey.ADInplaceOrView)


class Wrapper(Tensor, has_handlers=False):
    """A tensor that one level of transforms made of a tensor of the level below."""

    __slots__ = ("_captured", "_interpreter", "_value")
    __torch_function__: ClassVar[Callable[..., object]] = disabled_torch_function

    _captured: bool  # mostly not set: a view of what the function under derivatives captured
    _interpreter: Interpreter
    _value: Tensor

    def __new__(cls, *args: object, **kwargs: object) -> Wrapper:
        raise TypeError(f"{cls.__name__} is made by function transforms only")

    @property
    def fake_mode(self) -> object | None:  # type: ignore[override]  # the value's
        return self._value.fake_mode

    @property
    def constant(self) -> Tensor | None:  # type: ignore[override]  # what is known is the value's
        return None

    @property
    def _inside(self) -> int:  # type: ignore[override]  # nobody sets it
        return 1 + self._value._inside

    @property
    def _differs(self) -> bool:  # type: ignore[override]  # nobody sets it
        return self._value._differs

    def is_conj(self) -> bool:
        return self._value.is_conj()

    def is_neg(self) -> bool:
        return self._value.is_neg()

    def data_ptr(self) -> int:
        raise RuntimeError(
            "Cannot access data pointer of Tensor that doesn't have storage: it belongs to a "
            f"function transform, {type(self).__name__} of level {self._interpreter.number}"
        )

    @property
    def data(self) -> Tensor:
        """An alias outside of all that the level knows, with a version counter of its own."""
        other = self._alias()
        other._vc = None
        return other

    @data.setter
    def data(self, value: Tensor) -> None:
        raise RuntimeError(
            f"mutating directly with `.data` {self._kind} transform is not allowed: give the "
            "function's result another tensor, or use copy_()"
        )

    _kind: ClassVar[str] = "inside functorch"

    def _refuse(self, what: str) -> NoReturn:
        raise RuntimeError(
            f"{what}: a {type(self).__name__} of level {self._interpreter.number} has no data of "
            "its own inside of a function transform; return it from the function first"
        )

    def numpy(self, *, force: bool = False) -> Array:
        if self._interpreter.live:
            self._refuse("numpy()")
        return self._value.numpy(force=force)

    def _described(self) -> str:
        value = "\n".join(f"    {line}" for line in repr(self._value).splitlines())
        return f"lvl={self._interpreter.number}, {{}}value=\n{value}\n"


def wants_derivative(t: Tensor | None) -> bool:
    """Whether a derivative may be wanted of what is computed from ``t``, by its level or one below.

    What an operator decides by ``requires_grad`` it decides by this: inside of vmap and
    functionalization the tensor that requires grad is a value.
    """
    while t is not None and not t.requires_grad:
        t = t._value if isinstance(t, Wrapper) else None
    return t is not None


class BatchedTensor(Wrapper, has_handlers=False):
    """A tensor of which vmap hides dimension ``_bdim``."""

    __slots__ = ("_bdim",)

    _bdim: int
    _kind = "under vmap"
    _differs = True  # a constant, where the base asks

    def _alias(self) -> BatchedTensor:
        return batched(self._value._alias(), self._bdim, self._interpreter)

    def __repr__(self) -> str:
        return f"BatchedTensor({self._described().format(f'bdim={self._bdim}, ')})"

    def numpy(self, *, force: bool = False) -> Array:
        self._refuse("numpy()")

    def __bool__(self) -> bool:
        raise RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
            "flow. We don't support that yet: the answer differs over the batch. Use where(...) to "
            "choose between values, or loop outside of vmap"
        )


class GradTrackingTensor(Wrapper, has_handlers=False):
    """A tensor with a place in the backward graph of one level of grad or vjp."""

    __slots__ = ()

    def tolist(self) -> object:
        if not self._interpreter.live:
            return self._value.tolist()
        with self._interpreter.lower():
            return self._value.tolist()

    def _alias(self) -> GradTrackingTensor:
        other = tracked(self._value, self._interpreter)
        other._vc = self._version_counter()
        return other

    def __repr__(self) -> str:
        return f"GradTrackingTensor({self._described().format('')})"


class DualTensor(Wrapper, has_handlers=False):
    """A tensor and its tangent, which is None where it does not move with the inputs."""

    __slots__ = ("_tangent",)

    _tangent: Tensor | None

    @Wrapper.data.getter  # type: ignore[attr-defined]  # a property
    def data(self) -> Tensor:
        """An alias that does not move with the inputs."""
        other = dual(self._value, None, self._interpreter)
        other._vc = None
        return other

    @property
    def requires_grad(self) -> bool:
        """Whether it moves: operators ask this to know if a derivative will be wanted."""
        moves = self._tangent is not None or getattr(self._base, "_tangent", None) is not None
        return moves or self._value.requires_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self._value._require_grad(flag)

    def tolist(self) -> object:
        if not self._interpreter.live:
            return self._value.tolist()
        with self._interpreter.lower():
            return self._value.tolist()

    def _alias(self) -> DualTensor:
        other = dual(self._value, self._tangent, self._interpreter)
        other._vc = self._version_counter()
        return other

    def _require_grad(self, requires_grad: bool = True) -> DualTensor:
        self._value._require_grad(requires_grad)
        return self

    @Wrapper.grad.getter  # type: ignore[attr-defined]  # a property
    def grad(self) -> Tensor | None:
        """That of its value: reverse mode is that of the level below."""
        return self._value.grad

    def __repr__(self) -> str:
        if self._interpreter.live and not self._interpreter.explicit and self._tangent is not None:
            return f"{repr(self._value)[:-1]}, tangent={self._tangent!r})"
        return f"GradTrackingTensor({self._described().format('')})"


# --- making them ------------------------------------------------------------------------------

_TRACKED = GRAD_WRAPPER | BACK
_HIDING = BATCHED | BACK
# The key sets of wrappers by those of their values: what says device and autograd, and their own.
TRACKED_KEYS: dict[int, int] = {}
_HIDING_KEYS: dict[int, int] = {}


def _keys(value: Tensor, known: dict[int, int], added: int) -> int:
    keys = value._keys
    if added == _TRACKED and not keys & K.AUTOGRAD:  # of inference tensors, whose wrapper is none
        keys |= keys_for(value.meta) & (K.AUTOGRAD | ADINPLACE)
    found = known[value._keys] = keys & _SHOWN & NOT_INHERITED | added
    return found


def tracked_keys(value: Tensor) -> int:
    """The key set of a wrapper at a level of grad, remembered in `TRACKED_KEYS`."""
    return _keys(value, TRACKED_KEYS, _TRACKED)


@functools.lru_cache(8192)
def hidden(meta: TensorMeta, dim: int) -> TensorMeta:
    """A meta without one dimension, as vmap shows it."""
    shape, strides = list(meta.shape), list(meta.strides)
    del shape[dim], strides[dim]
    return TensorMeta.of(meta.dtype, tuple(shape), tuple(strides), meta.offset, meta.device)


W = TypeVar("W", bound=Wrapper)


def _made(cls: type[W], value: Tensor, meta: TensorMeta, keys: int, level: Interpreter) -> W:
    t = _new(cls)
    t.meta = meta
    t._keys = keys
    t._storage = value._storage
    t._mq_data = t._vc = t._base = t._ag = None
    t._value = value
    t._interpreter = level
    return t


def batched(value: Tensor, dim: int, level: Interpreter) -> BatchedTensor:
    """``value`` with its dimension ``dim`` hidden at a level of vmap."""
    t = _new(BatchedTensor)  # `_made`, written out: a tenth of what an addition costs
    t.meta = hidden(value.meta, dim)
    t._keys = _HIDING_KEYS.get(value._keys) or _keys(value, _HIDING_KEYS, _HIDING)
    t._storage = value._storage
    t._mq_data = t._vc = t._base = t._ag = None
    t._value = value
    t._interpreter = level
    t._bdim = dim
    return t


def tracked(value: Tensor, level: Interpreter) -> GradTrackingTensor:
    """``value`` at a level of grad: a leaf there that does not require grad."""
    keys = TRACKED_KEYS.get(value._keys) or _keys(value, TRACKED_KEYS, _TRACKED)
    return _made(GradTrackingTensor, value, value.meta, keys, level)


def dual(value: Tensor, tangent: Tensor | None, level: Interpreter) -> DualTensor:
    """``value`` with a tangent of its shape at a level of jvp."""
    keys = TRACKED_KEYS.get(value._keys) or _keys(value, TRACKED_KEYS, _TRACKED)
    t = _made(DualTensor, value, value.meta, keys, level)
    t._tangent = tangent
    return t


# --- looking into them ------------------------------------------------------------------------


def revived(t: Tensor) -> Tensor:
    """What a wrapper whose level is gone stands for; any other tensor itself."""
    while isinstance(t, Wrapper) and not t._interpreter.live:
        if isinstance(t, BatchedTensor):
            raise_escaped()
        t = t._value
    return t


def is_captured(t: object) -> bool:
    """Whether a tensor of a level of derivatives is, or views, what its function captured."""
    return getattr(t, "_captured", False)


def mark_captured(made: object) -> None:
    """Note that tensors are views of what the function captured: they may not be written to."""
    for t in made if isinstance(made, (tuple, list)) else (made,):
        if isinstance(t, Wrapper):
            t._captured = True


def written_by_its_operator(view: Tensor) -> Tensor:
    """A view that an operator made of an argument to mutate it, as statistics are.

    The function under a transform may call such an operator on what it captured.
    """
    part: object = view
    while isinstance(part, Wrapper):  # on each of the nested levels
        part._captured = False
        part = part._value
    return view


def raise_escaped() -> NoReturn:
    """The error of a batched tensor that is used after its vmap has ended."""
    raise RuntimeError(
        "Either your tensor may have escaped from inside a function being vmapped and this is a "
        "user error, or a transform has been left while its tensors were in use. Return tensors "
        "from the function instead of storing them"
    )


__all__ = [
    "BatchedTensor",
    "DualTensor",
    "GradTrackingTensor",
    "Wrapper",
    "batched",
    "dual",
    "hidden",
    "revived",
    "tracked",
    "wants_derivative",
]
