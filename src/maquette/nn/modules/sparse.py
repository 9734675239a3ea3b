"""Tables of vectors looked up by index: single rows, and bags of rows reduced to one."""

from typing import TypeVar

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.core.dtype import dtype as dtype_
from maquette.nn import functional as F
from maquette.nn import init
from maquette.nn.base import Module
from maquette.nn.functional.linear import padding_row
from maquette.nn.modules._construct import DeviceLike
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor

E = TypeVar("E", bound="Embedding")
B = TypeVar("B", bound="EmbeddingBag")


class _Table(Module):
    """A weight of one row an index, of which one may stay zero."""

    weight: Parameter

    def _set_up(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        weight: Tensor | None,
        device: DeviceLike | None,
        dtype: dtype_ | None,
        *,
        frozen: bool,
    ) -> None:
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        if padding_idx is not None:
            self.padding_idx = padding_row(type(self).__name__, padding_idx, num_embeddings)
        shape = (num_embeddings, embedding_dim)
        if weight is None:
            empty = mq.empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(empty, requires_grad=not frozen)
            self.reset_parameters()
            return
        if tuple(weight.shape) != shape:
            raise AssertionError(
                "Shape of weight does not match num_embeddings and embedding_dim: got "
                f"{tuple(weight.shape)} for {shape}."
            )
        self.weight = Parameter(weight, requires_grad=not frozen)

    def reset_parameters(self) -> None:
        """Draw new values, standard normal; the padding row is zero."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:  # programs that draw otherwise call it
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """A table of vectors, standard normal at first; see `functional.embedding`."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__()
        self._set_up(
            num_embeddings, embedding_dim, padding_idx, _weight, device, dtype, frozen=_freeze
        )
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse

    def forward(self, input: Tensor) -> Tensor:
        """Integer indices (*) to (*, embedding_dim)."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        """Sizes, and what is not the default."""
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq:
            parts.append(f"scale_grad_by_freq={self.scale_grad_by_freq}")
        if self.sparse:
            parts.append("sparse=True")
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls: type[E],
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> E:
        """A layer over a given table (rows, width), not to be trained unless freeze=False."""
        rows, width = _table_sizes(embeddings)
        return cls(
            rows,
            width,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(_Table):
    """A table of vectors of which bags are summed, averaged or maximized."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__()
        self._set_up(
            num_embeddings, embedding_dim, padding_idx, _weight, device, dtype, frozen=False
        )
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """Indices, a bag a row (2-d) or cut at offsets (1-d), to (bags, embedding_dim)."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Sizes, the mode, and what is not the default."""
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq:
            parts.append(f"scale_grad_by_freq={self.scale_grad_by_freq}")
        parts.append(f"mode={self.mode!r}")
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls: type[B],
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> B:
        """A layer over a given table (rows, width), not to be trained unless freeze=False."""
        rows, width = _table_sizes(embeddings)
        bag = cls(
            rows,
            width,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            _weight=embeddings,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag


def _table_sizes(embeddings: Tensor) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise AssertionError(
            f"Embeddings parameter is expected to be 2-dimensional; got {embeddings.dim()}-d"
        )
    rows, width = embeddings.shape
    return rows, width
