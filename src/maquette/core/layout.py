"""Layouts and memory formats: two small sets of named constants.

A layout says how a tensor's elements are stored at all; a memory format says in which order a
strided tensor's dimensions follow one another. Both print as PyTorch users write them and carry
PyTorch's number (`code`) for schemas that pass them as ints.
"""

from typing import NoReturn, Self


class _Constant:
    """An immutable named object; there is one of each."""

    __slots__ = ("code", "name")

    name: str
    code: int

    def __init__(self, name: str, code: int) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "code", code)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self} is immutable; cannot set {name!r}")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class layout(_Constant):
    """How a tensor's elements are stored."""

    __slots__ = ()


class memory_format(_Constant):
    """The order of a strided tensor's dimensions in memory."""

    __slots__ = ()


strided = layout("strided", 0)
sparse_coo = layout("sparse_coo", 1)
sparse_csr = layout("sparse_csr", 2)
_mkldnn = mkldnn = layout("_mkldnn", 3)
sparse_csc = layout("sparse_csc", 4)
sparse_bsr = layout("sparse_bsr", 5)
sparse_bsc = layout("sparse_bsc", 6)
jagged = layout("jagged", 7)

contiguous_format = memory_format("contiguous_format", 0)
preserve_format = memory_format("preserve_format", 1)
channels_last = memory_format("channels_last", 2)
channels_last_3d = memory_format("channels_last_3d", 3)

all_layouts = (strided, sparse_coo, sparse_csr, mkldnn, sparse_csc, sparse_bsr, sparse_bsc, jagged)
all_memory_formats = (contiguous_format, preserve_format, channels_last, channels_last_3d)
