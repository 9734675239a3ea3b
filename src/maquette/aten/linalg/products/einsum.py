"""Einstein summation: an equation read once, operands aligned, contracted pair by pair by `bmm`.

Every operand gets one dimension for each label: those of the result first, in its order, then
those to be summed. A pair is contracted by sorting dimensions into four groups (in both, left only,
summed, right only), which makes it one batched matrix product. Order and layouts follow PyTorch, so
programs show the same operators and take the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from maquette.core.errors import check
from maquette.core.symbols import is_true
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

ELLIPSIS = "..."

einsum = define("aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor")
einsum.describe('Sums of products of tensors, whose dimensions an equation as "ij,jk->ik" names.')
einsum.autocast(cuda="lower")


@einsum.composite
def einsum_composite(
    equation: str, tensors: Sequence[Tensor], path: Sequence[int] | None
) -> Tensor:
    check(len(tensors) > 0, lambda: "einsum(): must provide at least one operand")
    plan = read_equation(equation, [t.ndim for t in tensors])
    check(
        path is None or len(path) == 2 * (len(tensors) - 1),
        lambda: (
            f"einsum(): expected contraction path given in path parameter to have size "
            f"{2 * (len(tensors) - 1)} but got {len(path or ())}"
        ),
    )
    operands = [_aligned(number, tensor, plan) for number, tensor in enumerate(tensors)]
    _check_broadcast(operands, tensors)
    if len(operands) == 1:
        return _summed(operands[0], range(plan.kept, plan.rank))
    result = _contracted(operands, plan, path)
    return result.view(result.shape[: plan.kept]) if plan.rank > plan.kept else result


class Plan(NamedTuple):
    """An equation read: per operand its labels, and each label's position in the alignment.

    A label is a letter, or an integer for a dimension under the ellipsis. The first `kept` of
    `rank` positions are the result's dimensions.
    """

    labels: tuple[tuple[str | int, ...], ...]
    positions: dict[str | int, int]
    kept: int

    @property
    def rank(self) -> int:
        """The dimensions of an aligned operand."""
        return len(self.positions)


def read_equation(equation: str, ranks: Sequence[int]) -> Plan:
    """Read ``"ij,jk->ik"`` for operands of these ranks; RuntimeError if they do not go together."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    check(
        len(terms) == len(ranks),
        lambda: (
            f"einsum(): {'more' if len(ranks) > len(terms) else 'fewer'} operands were "
            f"provided than specified in the equation: {len(ranks)} for '{equation}'"
        ),
    )
    read = [_read_term(term, f"operand {i}") for i, term in enumerate(terms)]
    spans = [_ellipsis_span(term, rank, i) for i, (term, rank) in enumerate(zip(read, ranks))]
    span = max(spans)
    labels = tuple(tuple(_expanded(term, n, span)) for term, n in zip(read, spans))
    if arrow:
        result = _expanded(_read_term(right, "output"), span, span)
    else:
        result = _implicit_result(read, span)
    _check_result(result, labels)
    rest = sorted({x for term in labels for x in term if isinstance(x, str)} - set(result))
    order: list[str | int] = [*result, *[d for d in range(span) if d not in result], *rest]
    return Plan(labels, {label: i for i, label in enumerate(order)}, len(result))


def _read_term(term: str, where: str) -> list[str]:
    before, dots, after = term.partition(ELLIPSIS)
    check(
        "." not in before + after,
        lambda: (
            f"einsum(): found '.' for {where} that is not part of any ellipsis, or a second "
            f"ellipsis, in '{term}'"
        ),
    )
    letters = before + after
    check(
        letters == "" or (letters.isascii() and letters.isalpha()),
        lambda: (
            f"einsum(): invalid subscript given for {where} in the equation string term "
            f"'{term}', subscripts must be in [a-zA-Z]"
        ),
    )
    return [*before, *([ELLIPSIS] if dots else []), *after]


def _ellipsis_span(term: Sequence[str], rank: int, number: int) -> int:
    """How many dimensions of an operand its ellipsis covers."""
    named = sum(label is not ELLIPSIS for label in term)
    has = ELLIPSIS in term
    check(
        named <= rank if has else named == rank,
        lambda: (
            f"einsum(): the number of subscripts in the equation ({named}) "
            f"{'is more than' if has else 'does not match'} the number of dimensions ({rank}) for "
            f"operand {number}" + ("" if has else " and no ellipsis was given")
        ),
    )
    return rank - named if has else 0


def _expanded(term: Sequence[str], own: int, span: int) -> list[str | int]:
    """The labels with the ellipsis written out: its last dimensions are aligned."""
    labels: list[str | int] = []
    for label in term:
        if label is ELLIPSIS:
            labels += range(span - own, span)
        else:
            labels.append(label)
    return labels


def _implicit_result(terms: Sequence[Sequence[str]], span: int) -> list[str | int]:
    """The ellipsis, then the labels that occur once, in order, upper case first."""
    letters = [label for term in terms for label in term if label is not ELLIPSIS]
    once = sorted({x for x in letters if letters.count(x) == 1})
    return [*range(span), *once]


def _check_result(result: Sequence[str | int], labels: Sequence[Sequence[str | int]]) -> None:
    twice = [label for label in result if result.count(label) > 1]
    check(
        not twice,
        lambda: f"einsum(): output subscript {twice[0]} appears more than once in the output",
    )
    known = {label for term in labels for label in term}
    unknown = [label for label in result if isinstance(label, str) and label not in known]
    check(
        not unknown,
        lambda: (
            f"einsum(): output subscript {unknown[0]} does not appear in the equation for any "
            f"input operand"
        ),
    )


def _aligned(number: int, tensor: Tensor, plan: Plan) -> Tensor:
    """The operand with a dimension for each label in the plan's order, of size 1 if it has none."""
    labels: list[str | int] = []
    for label in plan.labels[number]:
        if label not in labels:
            labels.append(label)
            continue
        first = labels.index(label)
        _check_diagonal(label, number, tensor.shape[first], tensor.shape[len(labels)])
        # The diagonal of the two comes last; it goes where the first stood.
        tensor = tensor.diagonal(0, first, len(labels)).movedim(-1, first)
    where = [-1] * plan.rank
    for dim, label in enumerate(labels):
        where[plan.positions[label]] = dim
    for position in range(plan.rank):
        if where[position] < 0:
            where[position] = tensor.ndim
            tensor = tensor.unsqueeze(tensor.ndim)
    return tensor.permute(where)


def _check_diagonal(label: str | int, number: int, first: int, second: int) -> None:
    check(
        first == second,
        lambda: (
            f"einsum(): subscript {label} is repeated for operand {number} but the sizes don't "
            f"match, {second} != {first}"
        ),
    )


def _check_broadcast(operands: Sequence[Tensor], tensors: Sequence[Tensor]) -> None:
    for dim in range(operands[0].ndim):
        sizes = [t.shape[dim] for t in operands if not is_true(t.shape[dim] == 1)]
        check(
            all(size == sizes[0] for size in sizes[1:]),
            lambda: (
                "einsum(): operands do not broadcast with remapped shapes "
                "[original->remapped]:"
                + "".join(
                    f" {list(t.shape)}->{list(o.shape)}"
                    for t, o in zip(tensors, operands, strict=True)
                )
            ),
        )


def _summed(tensor: Tensor, dims: range) -> Tensor:
    return tensor.sum(list(dims)) if dims else tensor


def _contracted(operands: list[Tensor], plan: Plan, path: Sequence[int] | None) -> Tensor:
    """Contract all operands, each label as soon as no other operand has it."""
    counts = [sum(not _is_one(t, dim) for t in operands) for dim in range(plan.rank)]
    for step in range(len(operands) - 1):
        i, j = (0, 1) if path is None else sorted(path[2 * step : 2 * step + 2])
        right, left = operands.pop(j), operands.pop(i)
        both: list[int] = []
        alone: tuple[list[int], list[int]] = ([], [])
        for dim in range(plan.kept, plan.rank):
            present = (not _is_one(left, dim), not _is_one(right, dim))
            if all(present):
                counts[dim] -= 1
                if counts[dim] == 1:
                    both.append(dim)
                    counts[dim] = 0
            elif counts[dim] == 1 and any(present):
                alone[present[1]].append(dim)
                counts[dim] = 0
        left = left.sum(alone[0], True) if alone[0] else left
        right = right.sum(alone[1], True) if alone[1] else right
        product = contract_pair(left, right, both)
        operands.insert(0 if path is None else len(operands), product)
    return operands[0]


def _is_one(tensor: Tensor, dim: int) -> bool:
    return is_true(tensor.shape[dim] == 1)


def contract_pair(left: Tensor, right: Tensor, summed: Sequence[int]) -> Tensor:
    """The product of two aligned tensors, summed over dimensions of both, which stay as 1."""
    if not summed:
        return left * right
    in_both: list[int] = []
    in_left: list[int] = []
    in_right: list[int] = []
    for dim in range(left.ndim):
        if dim in summed:
            continue
        has_left, has_right = not _is_one(left, dim), not _is_one(right, dim)
        group = in_both if has_left and has_right else in_left if has_left else in_right
        group.append(dim)
    if in_left and in_right and in_right[-1] < in_left[0]:
        # The right operand's own dimensions come first in the result: a product the other way round
        # is laid out in its order.
        left, right, in_left, in_right = right, left, in_right, in_left
    return _as_bmm(left, right, in_both, in_left, list(summed), in_right)


def _as_bmm(
    left: Tensor,
    right: Tensor,
    in_both: list[int],
    in_left: list[int],
    summed: list[int],
    in_right: list[int],
) -> Tensor:
    batch = prod([left.shape[d] for d in in_both])
    rows = prod([left.shape[d] for d in in_left])
    inner = prod([left.shape[d] for d in summed])
    columns = prod([right.shape[d] for d in in_right])
    first = left.permute([*in_both, *in_left, *summed, *in_right]).reshape([batch, rows, inner])
    second = right.permute([*in_both, *summed, *in_right, *in_left])
    second = second.reshape([batch, inner, columns])
    sizes = [left.shape[d] for d in in_both + in_left] + [1] * len(summed)
    sizes += [right.shape[d] for d in in_right]
    order = [*in_both, *in_left, *summed, *in_right]
    back = [order.index(dim) for dim in range(left.ndim)]
    return first.bmm(second).view(sizes).permute(back)
