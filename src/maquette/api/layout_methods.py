"""Methods of `Tensor` about tensors of other kinds: of other devices, sparse, quantized, nested.

Methods of sparse tensors are operators'. What would have to be quantized or nested says that
maquette has no such tensors yet; what PyTorch itself removed says what came in its place.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import NoReturn

from maquette.aten.view.copies import converted
from maquette.autograd.view_history import look_of, see
from maquette.core.device import device as Device
from maquette.core.device import device_of_type
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import float32
from maquette.tensor.history import TypedLeaf
from maquette.tensor.tensor import Tensor

# --- devices -------------------------------------------------------------------------


def _is_on(kind: str) -> property:
    return property(
        lambda self: self.device.type == kind, doc=f"Whether the tensor is on a {kind} device."
    )


def _moved_to(kind: str) -> Callable[..., Tensor]:
    def method(
        self: Tensor,
        device: Device | str | int | None = None,
        non_blocking: bool = False,
        memory_format: object = None,
    ) -> Tensor:
        return converted(self, None, device_of_type(kind, device), non_blocking, False, None)

    method.__name__ = kind
    method.__doc__ = f"This tensor on a {kind} device, by default the first."
    return method


# --- layouts -------------------------------------------------------------------------


def dequantize(self: Tensor) -> Tensor:
    """The numbers as float32: there is nothing to undo."""
    return converted(self, float32, None, False, False, None)


def to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor in COO layout."""
    return self.to_sparse()


def is_distributed(self: Tensor) -> bool:
    """False: one process has all of it."""
    return False


def absent(name: str, reason: str) -> Callable[..., NoReturn]:
    """A method or function that raises NotImplementedError with its name and the reason."""

    def missing(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(f"{name} is not supported by maquette yet: {reason}")

    missing.__name__ = missing.__qualname__ = name
    missing.__doc__ = f"Not there yet: raises NotImplementedError. {reason}"
    return missing


def removed(
    name: str, instead: str, takes: Callable[..., object] | None = None
) -> Callable[..., NoReturn]:
    """A method or function that PyTorch removed: RuntimeError with what came in its place.

    takes: has the parameters; TypeError for others. None: it takes anything.
    """
    told = None if takes is None else inspect.signature(takes)

    def missing(*args: object, **kwargs: object) -> NoReturn:
        if told is not None:
            told.bind(*args, **kwargs)
        raise RuntimeError(f"{name} was deprecated since version 1.9 and is now removed: {instead}")

    if told is not None:
        missing.__signature__ = told  # type: ignore[attr-defined]  # `inspect` asks for it
    missing.__name__ = missing.__qualname__ = name
    missing.__doc__ = f"Removed by PyTorch, too: raises RuntimeError. {instead}"
    return missing


NO_QUANTIZED = "there are no quantized tensors; keep the tensor in floating point"
SPARSE = (
    "_coalesced_", "_dimI", "_dimV", "_indices", "_nnz", "_sparse_mask_projection", "_to_dense",
    "_to_sparse", "_values", "ccol_indices", "coalesce", "col_indices", "crow_indices",
    "dense_dim", "indices", "is_coalesced", "resize_as_sparse_", "row_indices", "smm",
    "sparse_dim", "sparse_mask", "sparse_resize_", "sparse_resize_and_clear_", "sspaddmm",
    "to_dense", "to_sparse", "to_sparse_bsc", "to_sparse_bsr", "to_sparse_csc", "to_sparse_csr",
    "values",
)  # fmt: skip
"""Methods that operators of `maquette.aten.sparse` give, which is loaded when one is called."""
QUANTIZED = (
    "int_repr", "q_scale", "q_zero_point", "q_per_channel_axis", "q_per_channel_scales",
    "q_per_channel_zero_points", "qscheme",
)  # fmt: skip
OTHER = {
    "to_mkldnn": "there is one layout of dense tensors; leave it as it is",
    "to_padded_tensor": "it is for nested tensors; pad with torch.nn.utils.rnn.pad_sequence",
    "slice_inverse": "it is PyTorch's own inverse of a slice, for its transforms",
}
REMOVED = {
    "eig": "use torch.linalg.eig, which gives complex tensors",
    "symeig": "use torch.linalg.eigh, or eigvalsh, which read the lower triangle by default",
    "lstsq": "use torch.linalg.lstsq(A, B), whose arguments are the other way round",
    "solve": "use torch.linalg.solve(A, B), whose arguments are the other way round",
    "matrix_rank": "use torch.linalg.matrix_rank, whose `symmetric` is called `hermitian`",
}
# --- views ---------------------------------------------------------------------------


def _view_func(self: Tensor, new_base: Tensor) -> Tensor | None:
    """The same view of another root; None if that has another layout than this one's root."""
    root = self._base
    if root is None or root.meta is not new_base.meta:
        return None
    return _shown(new_base, root, self)


def _view_func_unsafe(self: Tensor, new_base: Tensor) -> Tensor | None:
    """The same view of another root, of whatever layout; None of what is no view."""
    root = self._base
    return None if root is None else _shown(new_base, root, self)


def _rev_view_func_unsafe(self: Tensor, new_view: Tensor) -> Tensor | None:
    """The whole of what a view shows a part of, over the memory of one that stands as it does."""
    root = self._base
    return None if root is None else _shown(new_view, self, root)


def _shown(memory: Tensor, origin: Tensor, pattern: Tensor) -> Tensor:
    """``memory``, which lies in its storage as ``origin`` does, shown as ``pattern`` shows that."""
    seen, wanted = look_of(origin), look_of(pattern)
    own, kind = origin.meta.dtype, pattern.meta.dtype
    made = memory
    if seen[1:] != wanted[1:] or own.is_complex is not kind.is_complex:
        made = see(memory, seen, wanted)
    elif own is not kind:
        made = memory.view(kind)
    meta = pattern.meta
    if made is memory or (own is not kind and not own.is_complex and not kind.is_complex):
        made = made.as_strided(meta.shape, meta.strides, meta.offset)
    return made


# --- names of old --------------------------------------------------------------------


def _volatile(self: Tensor) -> bool:
    """False, with a warning: PyTorch removed what it told."""
    warnings.warn("volatile was removed (Variable.volatile is always False)", stacklevel=2)
    return False


def _grad_dtype(self: Tensor) -> DType | None:
    if not self.is_leaf:
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
    return self._ag.grad_dtype if isinstance(self._ag, TypedLeaf) else self.meta.dtype


def _set_grad_dtype(self: Tensor, value: DType | None) -> None:
    if not self.is_leaf:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if value is not None and not isinstance(value, DType):
        raise RuntimeError(
            f"grad_dtype must be a torch.dtype or None, but got {type(value).__name__}"
        )
    state = self._autograd()
    if value is not None and state.grad is not None and state.grad.meta.dtype is not value:
        raise RuntimeError(
            f"Cannot set grad_dtype to '{value}' because there is already a gradient with dtype "
            f"'{state.grad.meta.dtype}'. Please clear the gradient (.grad = None) before changing "
            f"grad_dtype, or ensure the new grad_dtype matches the existing gradient's dtype."
        )
    state.__class__ = TypedLeaf
    assert isinstance(state, TypedLeaf)
    state.grad_dtype = value


def reinforce(self: Tensor, reward: object) -> NoReturn:
    """Removed by PyTorch, too: RuntimeError."""
    raise RuntimeError(
        "reinforce() was removed. Use torch.distributions: the loss is -log_prob(action) * reward"
    )


def attach() -> None:
    """Bind these to `Tensor`."""
    for kind in ("ipu", "maia", "mps", "mtia", "vulkan", "xla", "xpu"):
        setattr(Tensor, f"is_{kind}", _is_on(kind))
    for kind in ("ipu", "mtia", "xpu"):
        setattr(Tensor, kind, _moved_to(kind))
    for method in (
        _view_func,
        _view_func_unsafe,
        _rev_view_func_unsafe,
        dequantize,
        is_distributed,
        reinforce,
        to_sparse_coo,
    ):
        setattr(Tensor, method.__name__, method)
    for name in (*QUANTIZED, *OTHER):
        setattr(Tensor, name, absent(name, OTHER.get(name) or NO_QUANTIZED))
    for name in ("eig", "symeig"):
        method = removed(name, REMOVED[name], lambda self, eigenvectors=False: None)
        setattr(Tensor, name, method)
    for name in ("lstsq", "solve"):
        setattr(Tensor, name, removed(name, REMOVED[name], lambda self, other: None))
    properties: dict[str, tuple[Callable[[Tensor], object], str]] = {
        "volatile": (_volatile, _volatile.__doc__ or ""),
        "name": (lambda self: None, "None: tensors have no names here."),
    }
    for name, (getter, doc) in properties.items():
        setattr(Tensor, name, property(getter, doc=doc))
    text = (
        "The dtype of a leaf's gradient, to which backward converts it: its own unless set. None "
        "takes gradients of any dtype as they come."
    )
    Tensor.grad_dtype = property(_grad_dtype, _set_grad_dtype, doc=text)  # type: ignore[attr-defined]


attach()
