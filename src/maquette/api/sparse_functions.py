"""The functions that make sparse tensors, and `torch.sparse`'s: from lists, with checks if asked.

Each converts what it is given to tensors and calls the operator of its name
(`maquette.aten.sparse`). Invariants that only values tell are checked where ``check_invariants``,
or else `check_sparse_tensor_invariants`, says so.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeAlias, TypeVar, cast

from maquette.api.creation import as_tensor
from maquette.api.signatures import called
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import int64
from maquette.core.errors import check
from maquette.core.layout import layout as Layout
from maquette.core.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from maquette.dispatch.registry import ops
from maquette.dispatch.torch_function import seen_by_modes
from maquette.tensor.tensor import Tensor

Data: TypeAlias = Any
Size: TypeAlias = "Sequence[int] | None"
Place: TypeAlias = "Device | str | int | None"
F = TypeVar("F", bound=Callable[..., object])


class _Invariants(threading.local):
    """Whether new sparse tensors are checked, in one thread."""

    def __init__(self) -> None:
        self.checked = False


_state = _Invariants()


class check_sparse_tensor_invariants:
    """Check the invariants of sparse tensors that are made in a block, or a function.

    ``check_sparse_tensor_invariants(False)`` leaves them unchecked. `enable`, `disable` and
    `is_enabled` act on the thread.
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Whether this thread checks."""
        return _state.checked

    @staticmethod
    def enable() -> None:
        """Check from now on."""
        _state.checked = True

    @staticmethod
    def disable() -> None:
        """Do not check from now on."""
        _state.checked = False

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context "
                "manager instance for context nesting."
            )
        self.saved_state = self.is_enabled()
        _state.checked = self.state

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self.saved_state is not None
        _state.checked, self.saved_state = self.saved_state, None

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def checked(*args: object, **kwargs: object) -> object:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked  # type: ignore[return-value]  # the same parameters


def _checks(asked: bool | None) -> bool:
    return _state.checked if asked is None else asked


def _indices(data: Data, device: Place) -> Tensor:
    if not isinstance(data, Tensor):
        return as_tensor(data, dtype=int64, device=device)
    return data if data.dtype is int64 else data.to(int64)


def _values(data: Data, dtype: DType | None, device: Place) -> Tensor:
    if dtype is device is None and isinstance(data, Tensor):
        return data
    where = None if device is None else Device(device)
    return as_tensor(data, dtype=dtype, device=where)


@seen_by_modes
def sparse_coo_tensor(
    indices: Data = None,
    values: Data = None,
    size: Size = None,
    *args: int,
    dtype: DType | None = None,
    device: Place = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A COO tensor of indices [sparse dims, nnz] and values [nnz, *dense sizes].

    size: by default the least that holds the indices. ``sparse_coo_tensor(size)`` specifies
    nothing. is_coalesced: say that indices are sorted and each comes once. Raises RuntimeError
    where the parts do not fit together; with ``check_invariants`` also for indices out of range.
    """
    aten = ops.aten
    made: Tensor
    if values is None:
        shape = indices if size is None else size
        if isinstance(indices, int):
            shape = [indices, *(() if size is None else (size,)), *args]
        made = aten.sparse_coo_tensor.size(
            list(shape),
            dtype=dtype,
            layout=sparse_coo,
            device=device,
            pin_memory=False,
        )
        return _leaf(made, requires_grad)
    kept = _values(values, dtype, device)
    at = _indices(indices, kept.device)
    if size is None:
        made = aten.sparse_coo_tensor.indices(at, kept, is_coalesced=is_coalesced)
        size = made.shape
    else:
        made = aten._sparse_coo_tensor_unsafe(at, kept, list(size), is_coalesced=is_coalesced)
    if _checks(check_invariants):
        aten._validate_sparse_coo_tensor_args(at, kept, list(size), is_coalesced)
    return _leaf(made, requires_grad)


def _leaf(made: Tensor, requires_grad: bool) -> Tensor:
    if not requires_grad:
        return made
    return made.detach().requires_grad_(requires_grad)


@seen_by_modes
def sparse_compressed_tensor(
    compressed_indices: Data,
    plain_indices: Data,
    values: Data,
    size: Size = None,
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: Place = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A CSR, CSC, BSR or BSC tensor, as ``layout`` says, of offsets, plain indices and values.

    size: by default the least that holds the indices. Raises RuntimeError where the parts do not
    fit together; with ``check_invariants`` also for indices that are not sorted or out of range.
    """
    kept = _values(values, dtype, device)
    first = _offsets(compressed_indices, kept.device)
    second = _offsets(plain_indices, kept.device)
    aten = ops.aten
    made: Tensor
    if size is None:
        made = aten.sparse_compressed_tensor.comp_plain_value(first, second, kept, layout=layout)
        size = made.shape
    else:
        made = aten.sparse_compressed_tensor.comp_plain_value_size(
            first, second, kept, list(size), layout=layout
        )
    if _checks(check_invariants):
        aten._validate_sparse_compressed_tensor_args(first, second, kept, list(size), layout)
    return _leaf(made, requires_grad)


def _offsets(data: Data, device: Place) -> Tensor:
    return data if isinstance(data, Tensor) else as_tensor(data, device=device)


def _of_layout(kind: Layout) -> Callable[..., Tensor]:
    def make(
        compressed: Data,
        plain: Data,
        values: Data,
        size: Size = None,
        **options: Any,
    ) -> Tensor:
        options.pop("layout", None)
        return sparse_compressed_tensor(compressed, plain, values, size, layout=kind, **options)

    def named(*args: Any, **kwargs: Any) -> Tensor:
        if not kwargs:
            return make(*args)
        names = ("crow_indices", "col_indices", "ccol_indices", "row_indices")
        parts = [kwargs.pop(name) for name in names if name in kwargs]
        return make(*args, *parts, **kwargs)

    named.__name__ = named.__qualname__ = f"{kind.name}_tensor"
    named.__doc__ = f"`sparse_compressed_tensor` of layout ``{kind}``."
    return seen_by_modes(named)


sparse_csr_tensor = _of_layout(sparse_csr)
sparse_csc_tensor = _of_layout(sparse_csc)
sparse_bsr_tensor = _of_layout(sparse_bsr)
sparse_bsc_tensor = _of_layout(sparse_bsc)

# --- torch.sparse -----------------------------------------------------------------------------


def _called(operator: str, *args: object, **kwargs: object) -> Tensor:
    """Call the overload that fits; TypeError, as functions say it, if none does."""
    return cast(Tensor, called(operator, None, *args, **kwargs))


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of two matrices, one or both sparse; a sparse factor gets a sparse gradient."""
    if reduce in (None, "sum"):
        return _called("_sparse_mm", mat1, mat2)
    check(
        reduce in _REDUCTIONS,
        lambda: f"reduce argument must be either sum, mean, amax or amin, got {reduce}",
    )
    check(
        mat1.layout is sparse_csr and mat2.layout is strided,
        lambda: (
            f"sparse_mm_reduce: expect self to be SparseCsr and other strided, got {mat1.layout} "
            f"and {mat2.layout}"
        ),
    )
    return _reduced_product(mat1, mat2, str(reduce))


_REDUCTIONS = ("mean", "amax", "max", "amin", "min")


def _reduced_product(mat1: Tensor, mat2: Tensor, reduce: str) -> Tensor:
    """The mean or an extreme of the products of each row's elements; 0 for a row of none."""
    products = mat1.values().unsqueeze(1) * mat2.index_select(0, mat1.col_indices())
    counts = mat1.crow_indices().diff()
    rows = ops.aten.segment_reduce(products, reduce, lengths=counts, unsafe=True, initial=None)
    found: Tensor = ops.aten.where((counts > 0).unsqueeze(1), rows, rows.new_zeros(()))
    return found


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """``beta * input + alpha * mat1 @ mat2``; a sparse ``mat1`` gets a sparse gradient."""
    return _called("_sparse_addmm", input, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * input + alpha * mat1 @ mat2`` where the compressed ``input`` has elements."""
    written = {} if out is None else {"out": out}
    return _called("sparse_sampled_addmm", input, mat1, mat2, beta=beta, alpha=alpha, **written)


def sum(
    input: Tensor, dim: int | Sequence[int] | None = None, dtype: DType | None = None
) -> Tensor:
    """The sum of a COO tensor: dense over all sparse dimensions, else sparse."""
    named: dict[str, object] = {} if dtype is None else {"dtype": dtype}
    if dim is not None:
        named["dim"] = [dim] if isinstance(dim, int) else dim
    return _called("_sparse_sum", input, **named)


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The softmax of the elements that a COO tensor specifies; the others count as -inf."""
    return _called("_sparse_softmax", input, dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The logarithm of `softmax`."""
    return _called("_sparse_log_softmax", input, dim, dtype=dtype)


def spdiags(
    diagonals: Tensor,
    offsets: Tensor,
    shape: Sequence[int],
    layout: Layout | None = None,
) -> Tensor:
    """A sparse matrix with rows of ``diagonals`` along the diagonals at ``offsets``."""
    if diagonals.ndim > 2:
        raise RuntimeError(f"Diagonals must be vector or matrix, got {diagonals.ndim} dimensions")
    if len(shape) != 2:
        raise RuntimeError(f"Output shape must be 2d, got {list(shape)}")
    if offsets.ndim > 1:
        raise RuntimeError(f"Offsets must be scalar or vector, got {offsets.ndim} dimensions")
    if offsets.dtype is not int64:
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {offsets.dtype}")
    if layout not in (None, sparse_coo, sparse_csr, sparse_csc):
        raise RuntimeError(
            f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {layout}"
        )
    rows = diagonals if diagonals.ndim == 2 else diagonals.unsqueeze(0)
    places = offsets if offsets.ndim == 1 else offsets.reshape((-1,))
    if rows.size(0) != places.numel():
        raise RuntimeError(
            f"Number of diagonals ({rows.size(0)}) does not match the number of offsets "
            f"({places.numel()})"
        )
    if len(set(places.tolist())) != places.numel():
        raise RuntimeError("Offset tensor contains duplicate values")
    # A diagonal after the other.
    indices, source = ops.maquette.diagonal_places(places, rows.size(1), list(shape))
    values = rows.reshape((-1,)).index_select(0, source)
    made: Tensor = ops.aten._sparse_coo_tensor_unsafe(indices, values, list(shape))
    return made if layout in (None, sparse_coo) else made.coalesce().to_sparse(layout=layout)
