"""Functions of PyTorch's Python layer that choose an operator: norm, unique, cdist, stft."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from maquette.api.signatures import called
from maquette.core.dtype import dtype
from maquette.core.errors import check
from maquette.core.fitting import plain
from maquette.core.layout import strided
from maquette.core.promotion import PYTHON_DTYPES
from maquette.tensor.tensor import Tensor

_MATRIX_DIMS = 2


def nonzero(
    input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False
) -> Tensor | tuple[Tensor, ...]:
    """The indices of elements that are not zero: rows of an int64 tensor (n, ndim).

    as_tuple: one tensor of n for each dimension, to index with; a number counts as one of one.
    """
    if out is not None:
        check(not as_tuple, lambda: "nonzero does not support the out kwarg when as_tuple is True")
        return cast(Tensor, called("nonzero", "out", input, out=out))
    if as_tuple and not input.meta.shape:
        input = input.unsqueeze(0)
    found = cast(Tensor, called("nonzero", "default", input))
    return found.unbind(1) if as_tuple else found


def tensor_split(
    input: Tensor,
    indices_or_sections: int | Sequence[int] | Tensor | None = None,
    dim: int = 0,
    *,
    indices: Sequence[int] | None = None,
    sections: int | None = None,
    tensor_indices_or_sections: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Parts along ``dim``: so many, or cut at these places. A tensor of one place is no number."""
    given = (indices_or_sections, indices, sections, tensor_indices_or_sections)
    chosen = [each for each in given if each is not None]
    if len(chosen) != 1:
        raise TypeError(
            f"tensor_split() takes one of sections, indices or a tensor, got {len(chosen)}"
        )
    (how,) = chosen
    overload = "indices"
    if isinstance(how, Tensor):
        overload = "tensor_indices_or_sections"
    elif not isinstance(how, list | tuple):
        overload = "sections"
    return tuple(cast("list[Tensor]", called("tensor_split", overload, input, how, dim)))


def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: dtype | None = None,
) -> object:
    """The vector norm over ``dim``, or, for "nuc" and "fro" of more dimensions, the matrix norm."""
    p, dim, dtype = plain(p), plain(dim), PYTHON_DTYPES.get(dtype, dtype)
    dims = [dim] if isinstance(dim, int) else None if dim is None else list(dim)
    written = {} if out is None else {"out": out}
    suffix = "" if out is None else "out"
    if isinstance(p, str) and not (p == "fro" and (dims is None or len(dims) <= _MATRIX_DIMS)):
        every = list(range(input.meta.ndim)) if dims is None else dims
        overload = "str_ord_out" if written else "str_ord"
        return called(
            "linalg_matrix_norm", overload, input, p, every, keepdim, dtype=dtype, **written
        )
    if isinstance(p, str) and dtype is not None and input.meta.layout is not strided:
        raise ValueError("dtype argument is not supported in frobenius norm of sparse tensors")
    order = 2.0 if p is None or isinstance(p, str) else p
    return called(
        "linalg_vector_norm",
        suffix or "default",
        input,
        order,
        dims,
        keepdim,
        dtype=dtype,
        **written,
    )


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> object:
    """The distinct elements, or slices along ``dim``; where each went, how many there are."""
    if dim is None:
        found = called("_unique2", "default", input, sorted, return_inverse, return_counts)
    else:
        found = called("unique_dim", "default", input, dim, sorted, return_inverse, return_counts)
    return _asked_for(found, return_inverse, return_counts)


def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> object:
    """As `unique`, but only equal neighbours count as one."""
    found = called("unique_consecutive", "default", input, return_inverse, return_counts, dim)
    return _asked_for(found, return_inverse, return_counts)


def _asked_for(found: object, inverse: bool, counts: bool) -> object:
    assert isinstance(found, tuple)
    flags = (True, inverse, counts)
    chosen = tuple(t for t, wanted in zip(found, flags, strict=True) if wanted)
    return chosen if len(chosen) > 1 else chosen[0]


_COMPUTE_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> object:
    """The p-norm distance of every row of ``x1`` to every row of ``x2``."""
    if compute_mode not in _COMPUTE_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return called("cdist", "default", x1, x2, p, _COMPUTE_MODES[compute_mode])


def _segment_reduce(data: Tensor, reduce: str, **kwargs: object) -> object:
    """The older name of ``segment_reduce``."""
    return called("segment_reduce", "default", data, reduce, **kwargs)


def _norm_of(
    self: Tensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
) -> object:
    return norm(self, p, dim, keepdim, dtype=dtype)


def _unique_of(
    self: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> object:
    return unique(self, sorted, return_inverse, return_counts, dim)


def _unique_consecutive_of(
    self: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> object:
    return unique_consecutive(self, return_inverse, return_counts, dim)


def _stft_of(
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> object:
    return stft(
        self, n_fft, hop_length, win_length, window, center, pad_mode,
        normalized, onesided, return_complex, align_to_window,
    )  # fmt: skip


def _nonzero_of(self: Tensor, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    return nonzero(self, as_tuple=as_tuple)


METHODS: dict[str, Callable[..., object]] = {
    "nonzero": _nonzero_of,
    "norm": _norm_of,
    "unique": _unique_of,
    "unique_consecutive": _unique_consecutive_of,
    "stft": _stft_of,
}
"""The methods of these names: their tensor is ``self``, and none takes ``out``."""


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> object:
    """Short-time Fourier transform: (..., samples) to (..., frequencies, frames).

    ``center`` continues the signal at both ends by ``pad_mode``, so that frame t is centred on
    sample ``t * hop_length``.
    """
    return called(
        "stft", "center", input, n_fft, hop_length, win_length, window, center, pad_mode,
        normalized, onesided, return_complex, align_to_window,
    )  # fmt: skip
