"""The forms that batching rules take: ``page.batching(along)`` says that an operator has one.

Each makes the rule of an operator from its schema, so that one serves a whole family; what pages
write rules of their own with is here too.

In a rule ``t`` is a value, ``d`` its batch dimension or None; `to_front` puts the batch first. The
one idea: with the batch in front, dimension ``d`` of what the program sees is dimension ``d + 1``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from maquette.core.errors import check
from maquette.core.layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    preserve_format,
)
from maquette.core.strides import format_strides
from maquette.dispatch.operator import OpOverload
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo, in_front
from maquette.transforms.rules import BatchingForm

Rule = Callable[..., Any]
_DIM_NAMES = frozenset(
    ("dim", "dims", "dim0", "dim1", "dim2", "dimension", "axis", "start_dim", "end_dim")
)


def to_front(t: Any, d: int | None, size: int | None = None, rank: int = 0) -> Any:
    """A value with its batch dimension first; one without a batch gets it where ``size`` is given.

    rank: how many dimensions the example shall have at least, 1s after the batch.
    """
    if not isinstance(t, Tensor):
        return t
    if d is not None:
        return in_front(t, d, rank)
    if size is None:
        return t
    missing = rank - t.meta.ndim
    if missing > 0:
        t = t[(None,) * missing]
    return t.unsqueeze(0).expand(size, *t.shape)


def rank_of(t: Tensor, d: int | None) -> int:
    """How many dimensions the example has."""
    return t.meta.ndim - (d is not None)


def wrapped(dim: int, rank: int) -> int:
    """A dimension of an example, counted from the front; IndexError for none that it has."""
    least = max(rank, 1)
    if not -least <= dim < least:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-least}, {least - 1}], but got "
            f"{dim})"
        )
    return dim % least


@BatchingForm
def along(op: OpOverload) -> Rule:
    """Operators with dimensions as parameters: each counts one more. The batch stays in front.

    All tensors get the batch, and an example of rank 0 a dimension that is taken away again.
    Parameters that are None, or an empty list, stand for all dimensions.
    """
    return _along(op)


@BatchingForm
def along_named(op: OpOverload) -> Rule:
    """`along`, where an empty list of dimensions stands for none, as in ``flip``."""
    return _along(op, empty_is_all=False)


def along_like(argument: int) -> BatchingForm:
    """`along`, where operands of rank 0 and 1 go together, as an index and what it is an index of.

    argument: the number of the tensor whose rank the result has.
    """
    return BatchingForm(lambda op: _along(op, argument))


def _along(op: OpOverload, like: int | None = None, *, empty_is_all: bool = True) -> Rule:
    arguments = op._schema.arguments
    positions = [i for i, a in enumerate(arguments) if a.name in _DIM_NAMES]
    names = [arguments[i].name for i in positions]
    tensors = [i for i, a in enumerate(arguments) if a.type.written.startswith("Tensor")]

    def rule(info: VmapInfo, in_dims: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        count = len(args)
        given = [*args, *(kwargs[a.name] for a in arguments[count:])]
        dims = [*in_dims, *[None] * (len(given) - count)]
        rank = rank_of(given[tensors[0]], dims[tensors[0]])
        whole = rank if like is None else rank_of(given[tensors[like]], dims[tensors[like]])
        for i in tensors:
            own = rank if like is None else rank_of(given[i], dims[i])
            given[i] = to_front(given[i], dims[i], info.batch_size, 1 if own == 0 else 0)
        for i in positions:
            none = not empty_is_all and given[i] is not None and given[i] in ((), [])
            given[i] = [] if none else _shifted(given[i], rank)
        keywords = {a.name: v for a, v in zip(arguments[count:], given[count:])}
        result = op(*given[:count], **keywords)
        return (result, 0) if whole else (_without_last(result), 0)

    assert names or not positions
    return rule


def _shifted(dim: Any, rank: int) -> Any:
    if dim is None or (dim.__class__ in (tuple, list) and not dim):
        return tuple(range(1, max(rank, 1) + 1))
    if dim.__class__ in (tuple, list):
        return [wrapped(d, rank) + 1 for d in dim]
    return wrapped(dim, rank) + 1


def _without_last(result: Any) -> Any:
    """Examples of rank 0 again, where the one dimension that they got is left."""
    if isinstance(result, (tuple, list)):
        return type(result)([_without_last(r) for r in result])
    return result.squeeze(-1) if result.meta.ndim == 2 else result


@BatchingForm
def over_all(op: OpOverload) -> Rule:
    """Reductions of the whole: over all but the batch, by the overload with a dimension.

    Of one that gives an index too, the values.
    """
    along_dimension = op.overloadpacket

    def rule(info: VmapInfo, in_dims: Sequence[Any], self: Tensor, **kwargs: Any) -> Any:
        x = to_front(self, in_dims[0])
        x = x.flatten(1) if x.meta.ndim > 1 else x.unsqueeze(-1)
        found = along_dimension(x, 1, **kwargs)
        return (found[0] if isinstance(found, tuple) else found), 0

    return rule


@BatchingForm
def leading(op: OpOverload) -> Rule:
    """Operators on the last dimensions, which take any number of dimensions in front.

    Several tensors are all given the batch.
    """
    arguments = op._schema.arguments
    count = sum(not a.kwarg_only for a in arguments)
    tensors = [i for i, a in enumerate(arguments[:count]) if a.type.written.startswith("Tensor")]

    def rule(info: VmapInfo, in_dims: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        given = list(args)
        for i in tensors:
            given[i] = to_front(given[i], in_dims[i], info.batch_size if len(tensors) > 1 else None)
        return _with_batch(op(*given, **kwargs), info.batch_size), 0

    return rule


def leading_of(least: Callable[..., int]) -> BatchingForm:
    """`leading`, of operators whose first tensor has at least ``least(*args)`` dimensions."""

    def make(op: OpOverload) -> Rule:
        below = leading.make(op)

        def rule(info: VmapInfo, in_dims: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            if rank_of(args[0], in_dims[0]) < least(*args):
                refuse_example(op, in_dims, args, kwargs)
            return below(info, in_dims, *args, **kwargs)

        return rule

    return BatchingForm(make)


def refuse_example(
    op: OpOverload, in_dims: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> None:
    """Raise what the operator raises for one example: it has too few dimensions.

    With the batch in front it would have enough, and the batch be taken for one of its own.
    """
    examples = [
        a.select(d, 0) if isinstance(a, Tensor) and d is not None else a
        for a, d in zip(args, in_dims, strict=True)
    ]
    op(*examples, **kwargs)
    raise RuntimeError(f"{op}: one example has too few dimensions, got {examples[0].meta}")


def _matrices_checked(op: OpOverload, below: Rule) -> Rule:
    """The rule of an operator on matrices: its first tensor is one, and no batch of vectors."""
    first = next(a for a in op._schema.arguments if a.type.kind == "tensor")
    name = op._opname.lstrip("_").replace("linalg_", "linalg.")

    def rule(info: VmapInfo, in_dims: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        check(
            rank_of(args[0], in_dims[0]) >= 2,
            lambda: f"{name}: The input tensor {first.name} must have at least 2 dimensions.",
        )
        return below(info, in_dims, *args, **kwargs)

    return rule


@BatchingForm
def leading_matrices(op: OpOverload) -> Rule:
    """`leading`, of operators on matrices: a batch of vectors would be taken for one."""
    return _matrices_checked(op, leading.make(op))


@BatchingForm
def solving(op: OpOverload) -> Rule:
    """Solvers, which broadcast what stands before matrices and vectors of pivots."""
    arguments = op._schema.arguments
    own = {a.name: 1 if a.name == "pivots" else 2 for a in arguments if a.type.kind == "tensor"}

    def rule(info: VmapInfo, in_dims: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        given = list(args)
        places = [(i, own[a.name]) for i, a in enumerate(arguments) if a.name in own]
        batches = max(rank_of(args[i], in_dims[i]) - core for i, core in places)
        for i, core in places:
            given[i] = to_front(args[i], in_dims[i], info.batch_size, batches + core)
        return op(*given, **kwargs), 0

    return _matrices_checked(op, rule)


def _with_batch(result: Any, size: int) -> Any:
    """Results with the batch in front: an empty one that stands for no answer has none."""
    if isinstance(result, (tuple, list)):
        return type(result)([_with_batch(r, size) for r in result])
    if isinstance(result, Tensor) and result.meta.shape == (0,) and size:
        return result.new_empty((size, 0))
    return result


@BatchingForm
def same_shape(op: OpOverload) -> Rule:
    """Operators of one tensor that keep its shape: the batch stays where it is.

    A memory format for images is one for the images of all examples together.
    """

    def rule(info: VmapInfo, in_dims: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        if _for_images(*args[1:], *kwargs.values()):
            x = to_front(args[0], in_dims[0])
            made = op(x.flatten(0, 1), *args[1:], **kwargs)
            return made.unflatten(0, x.shape[:2]), 0
        return op(*args, **kwargs), in_dims[0]

    return rule


@BatchingForm
def laid_out(op: OpOverload) -> Rule:
    """Copies: examples get the memory format that was asked for, the batch in front of them."""

    def rule(info: VmapInfo, in_dims: Sequence[Any], self: Tensor, **kwargs: Any) -> Any:
        wanted = kwargs["memory_format"]
        if wanted is None or wanted is preserve_format:
            return op(self, **kwargs), in_dims[0]
        x = to_front(self, in_dims[0])
        if wanted is contiguous_format:
            return op(x, **kwargs), 0
        format_strides(x.meta.shape[1:], x.meta.strides[1:], wanted)  # refuses the wrong rank
        last = op(x.movedim(2, -1), **{**kwargs, "memory_format": contiguous_format})
        return last.movedim(-1, 2), 0

    return rule


def _for_images(*options: Any) -> bool:
    return any(o is channels_last or o is channels_last_3d for o in options)


@BatchingForm
def sized(op: OpOverload) -> Rule:
    """Operators with a parameter ``size`` that is the shape of the result: one more in front."""
    arguments = op._schema.arguments
    at = next(i for i, a in enumerate(arguments) if a.name in ("size", "repeats", "output_size"))
    more = 1 if arguments[at].name == "repeats" else None

    def rule(
        info: VmapInfo, in_dims: Sequence[Any], self: Tensor, *args: Any, **kwargs: Any
    ) -> Any:
        wanted = len(args[at - 1]) if more else 0
        given: list[Any] = [to_front(self, in_dims[0], rank=wanted), *args]
        given[at] = (more or info.batch_size, *given[at])
        return op(*given, **kwargs), 0

    return rule


@BatchingForm
def folded(op: OpOverload) -> Rule:
    """Operators on images with a batch of their own in front: both are made one.

    Each tensor has the rank of the first or that of a batch (N first); where examples have no
    batch, vmap's takes its place. A list ``input_size`` begins with the whole batch.
    """
    arguments = op._schema.arguments
    count = sum(not a.kwarg_only for a in arguments)
    tensors = [i for i, a in enumerate(arguments[:count]) if a.type.written.startswith("Tensor")]
    sizes = [i for i, a in enumerate(arguments) if a.name == "input_size"]
    spatial = _spatial(op)

    def rule(info: VmapInfo, in_dims: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        given = list(args)
        rank = rank_of(args[tensors[0]], in_dims[tensors[0]])
        if rank <= spatial:
            refuse_example(op, in_dims, args, kwargs)
        inner = rank > spatial + 1
        several = len(tensors) > 1
        outer = 0
        for i in tensors:
            if not isinstance(given[i], Tensor):
                continue
            t = to_front(given[i], in_dims[i], info.batch_size if several else None)
            outer = t.shape[1] if inner else 1
            given[i] = t.flatten(0, 1) if inner else t
        for i in sizes:
            given[i] = (info.batch_size * given[i][0], *given[i][1:])
        result = op(*given, **kwargs)
        return _unfolded(result, (info.batch_size, outer) if inner else None), 0

    return rule


def _unfolded(result: Any, sizes: tuple[int, int] | None) -> Any:
    if sizes is None or result is None:
        return result
    if isinstance(result, (tuple, list)):
        return tuple([_unfolded(r, sizes) for r in result])
    return result.unflatten(0, sizes)


def _spatial(op: OpOverload) -> int:
    """The number of spatial dimensions, by the digit in the name."""
    if op._opname == "col2im":
        return 1  # [channels, columns]
    digits = [c for c in op._opname if c in "123"]
    return int(digits[-1]) if digits else 2
