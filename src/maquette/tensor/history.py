"""What autograd keeps on a tensor: whether it requires grad, its gradient, its node, its version.

A tensor is a node's result, a leaf, or a view whose history follows its base. What is here are the
values and the members of `Tensor` that show them; nodes and the engine are in `maquette.autograd`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, ClassVar, NoReturn, Self

from maquette.core.meta import TensorMeta
from maquette.core.scalar_types import dtype as DType
from maquette.core.warned import warn
from maquette.dispatch import keysets as K
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import member_is_overridden, offered_member
from maquette.tensor.geometry import TensorGeometry
from maquette.tensor.keys import ADINPLACE
from maquette.tensor.up_to_date import take_history, tell_requires_grad

if TYPE_CHECKING:
    from maquette.autograd.node import Node
    from maquette.tensor.tensor import Tensor

_new = object.__new__


class VersionCounter:
    """The count of writes that all aliases of some memory share."""

    __slots__ = ("__weakref__", "_converted", "value")

    value: int
    _converted: object | None


class History:
    """What autograd remembers of a tensor: these defaults, and what says otherwise."""

    __slots__ = ()

    # Class attributes over which instances put their own: a leaf sets two of eleven.
    requires_grad = False
    grad: Tensor | None = None
    grad_fn: Node | None = None
    output_nr = 0
    accumulator: Callable[[], Node | None] | None = None  # a weak reference
    hooked: Node | None = None  # the accumulator, if hooks keep it alive
    post_accumulate_hooks: OrderedDict[int, Callable[..., object]] | None = None
    # Assigned to a tensor that requires no grad: kept, and not called.
    unused_hooks: MutableMapping[int, Callable[..., object]] | None = None
    retains = False  # whether `retain_grad` has a hook at its node
    # For views: the version when their history was made; how they were made; the last operator of
    # theirs that changed more than geometry, if nothing else came after it.
    view_version = 0
    creation_meta = ""
    seen_as = ""
    plain: ClassVar[bool] = False  # whether it is itself the node whose only output the tensor is


class ViewHistory(History):
    """The history of views made in one way, of which `autograd.inplace` knows what is forbidden.

    All such views share it until something else is to be remembered of one. Most views of memory
    never mutated have None: no version, and nothing is forbidden.
    """

    __slots__ = ("creation_meta", "seen_as", "view_version")

    def __init__(self, creation_meta: str, view_version: int, seen_as: str) -> None:
        self.creation_meta = creation_meta
        self.view_version = view_version
        self.seen_as = seen_as


class ViewVersion(ViewHistory):
    """The history of views of which the version is all that is to be known: a node replaces it."""

    __slots__ = ()


class OutputHistory(History):
    """The history of one of several results of a node, of which nothing else is known yet."""

    __slots__ = ("creation_meta", "grad_fn", "output_nr", "view_version")

    requires_grad = True


class AutogradMeta(History):
    """The history of one tensor, open to change. A tensor without any has None in its place.

    The result of a recorded call has the node itself there (`autograd.node.OpNode`), 0.4 us less.
    """


class TypedLeaf(AutogradMeta):
    """The history of a leaf with a `grad_dtype` of its own: the engine asks no other leaf."""

    grad_dtype: DType | None


# Fills in the history of a view whose base was mutated (`autograd.view_history`).
VIEW_HISTORY: list[Callable[[Tensor], None] | None] = [None]


_NOT_A_LEAF = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
    "attribute won't be populated during autograd.backward(). If you indeed want the .grad field "
    "to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor."
)


def refuse_deletion(name: str) -> NoReturn:
    """Say that an attribute stays; by deleters of properties, since with a `__delattr__` Python
    stores every attribute of every tensor through a slower path (`a + b` on fakes 1.6 to 3.5 us).
    """
    raise RuntimeError(f"Deleting tensor attribute {name} is not allowed: a tensor has it")


class TensorHistory(TensorGeometry):
    """The members of `Tensor` that show its place in autograd's graph."""

    __slots__ = ("_ag", "_base", "_converted", "_vc", "_viewed")

    _vc: VersionCounter | None
    _base: Tensor | None
    _viewed: bool  # set, to True, when the first view of it is made
    # What fakes were made of it: weak references (`fake.memo`). Unset is None; where many originals
    # are made it is set, as to ask for what is unset takes 0.2 us.
    _converted: object | None
    _ag: History | None

    @property
    def requires_grad(self) -> bool:
        """Whether autograd records what is done with it; set on leaves alone."""
        if self._asks and member_is_overridden(self):
            return offered_member(_REQUIRES_GRAD.__get__, (self,), {})
        if self._base is not None:
            take_history(self)
        return bool(self._keys & K.REQUIRES_GRAD)

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        if self._asks and member_is_overridden(self):
            offered_member(_REQUIRES_GRAD.__set__, (self, flag), {})
        elif flag.__class__ is not bool:
            raise RuntimeError("requires_grad must be a bool")
        else:
            self._require_grad(flag)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        if self._asks and member_is_overridden(self):
            offered_member(_REQUIRES_GRAD.__delete__, (self,), {})
            return
        refuse_deletion("requires_grad")

    def _records(self) -> bool:
        """`requires_grad`, for who is part of a call: no handler is asked."""
        if self._base is not None:
            take_history(self)
        return bool(self._keys & K.REQUIRES_GRAD)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Make autograd record operations on this leaf (or stop it)."""
        if tls.st.transforms and tls.st.transforms[-1].explicit:  # type: ignore[attr-defined]  # an interpreter
            raise RuntimeError(
                "You are attempting to call Tensor.requires_grad_() (or perhaps using "
                "torch.autograd.functional.* APIs) inside of a function being transformed by a "
                "functorch transform. This is unsupported, please attempt to use the functorch "
                "transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() "
                "outside of a function being transformed instead."
            )
        return self._require_grad(requires_grad)

    def _require_grad(self, requires_grad: bool = True) -> Self:
        """`requires_grad_`, in a function under a transform too."""
        if requires_grad.__class__ is not bool:
            found = type(requires_grad).__name__
            raise TypeError(f"requires_grad_(): argument 'requires_grad' must be bool, not {found}")
        if not requires_grad and not self.is_leaf:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        kind = self.meta.dtype
        if requires_grad and not (kind.is_floating_point or kind.is_complex):
            raise RuntimeError(
                f"only Tensors of floating point dtype can require gradients; this is {kind}"
            )
        if requires_grad and not self._keys & ADINPLACE and not tls.st.inference:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not "
                "allowed; clone() it first"
            )
        if requires_grad is not self._records() or self._base is not None:
            self._autograd().requires_grad = requires_grad
            tell_requires_grad(self)
        return self

    def _autograd(self) -> AutogradMeta:
        """The autograd state, to be changed."""
        known = self._ag
        if isinstance(known, AutogradMeta):
            return known
        made = self._ag = AutogradMeta()
        if known is not None:
            made.requires_grad = known.requires_grad
            made.creation_meta = known.creation_meta
            made.seen_as = known.seen_as
            made.grad_fn = known.grad_fn
            made.output_nr = known.output_nr
            if self._base is not None:
                made.view_version = known.view_version
        return made

    @property
    def grad_fn(self) -> Node | None:
        """The node of autograd's graph whose result it is; None of a leaf."""
        if self._base is not None:
            take_history(self)
        ag = self._ag
        if self._base is not None and self._keys & K.REQUIRES_GRAD:
            made_at = 0 if ag is None else ag.view_version
            refresh = VIEW_HISTORY[0]
            if made_at != self._version and refresh is not None:
                refresh(self)  # type: ignore[arg-type]  # each instance is a Tensor
                ag = self._ag
        return None if ag is None else ag.grad_fn

    @grad_fn.deleter
    def grad_fn(self) -> None:
        refuse_deletion("grad_fn")

    _grad_fn = grad_fn  # PyTorch's other name for it

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made it."""
        if self._base is None and self._ag is not None and self._ag.plain:
            return False  # without a look at its node, which may stand for several
        return _GRAD_FN(self) is None

    @property
    def output_nr(self) -> int:
        """Which of the results of its node it is."""
        return 0 if self._ag is None else self._ag.output_nr

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` keeps the gradient of this result."""
        return self._ag is not None and self._ag.retains

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward` added up here; None before the first."""
        ag = self._ag
        if ag is None:
            return None
        found = ag.grad
        if found is None and ag.grad_fn is not None and not ag.retains:
            warn(_NOT_A_LEAF)
        return found

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_grad(value)
        self._autograd().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def _grad(self) -> Tensor | None:
        """`grad` without its warning, as PyTorch's other name for it."""
        return None if self._ag is None else self._ag.grad

    @_grad.setter
    def _grad(self, value: Tensor | None) -> None:
        self.grad = value

    def _grad_meta(self, given: TensorMeta) -> TensorMeta:
        """What a gradient of this leaf is to be, of which ``given`` came."""
        if not isinstance(self._ag, TypedLeaf):
            return self.meta
        return self.meta.with_dtype(self._ag.grad_dtype or given.dtype)

    def _check_grad(self, value: object) -> None:
        if not isinstance(value, TensorHistory):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got {type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        given = value.meta
        mine = self._grad_meta(given)
        if mine.shape != given.shape:
            raise RuntimeError(
                f"assigned grad has data of a different size: expected {list(mine.shape)}, "
                f"got {list(given.shape)}"
            )
        if mine.dtype is not given.dtype:
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{given.dtype}' to a tensor with "
                f"grad_dtype '{mine.dtype}'. The gradient must match the tensor's grad_dtype "
                f"(defaults to the tensor's dtype)."
            )
        if mine.device is not given.device:
            raise RuntimeError(
                f"assigned grad has data of a different type: expected {mine}, got {given}"
            )

    @property
    def _version(self) -> int:
        """How often it, or an alias of it, was mutated; RuntimeError for inference tensors."""
        if not self._keys & ADINPLACE:
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if self._vc is None else self._vc.value

    def _version_counter(self) -> VersionCounter:
        counter = self._vc
        if counter is None:  # without an `__init__`: 0.15 us less (timeit, CPython 3.11)
            counter = self._vc = _new(VersionCounter)
            counter.value = 0
            counter._converted = None
        return counter

    def _is_view(self) -> bool:
        return self._base is not None


_REQUIRES_GRAD: property = TensorHistory.__dict__["requires_grad"]
# What the property says without asking handlers: who reads `is_leaf` has asked them.
_GRAD_FN: Callable[[TensorHistory], Node | None] = TensorHistory.__dict__["grad_fn"].fget
