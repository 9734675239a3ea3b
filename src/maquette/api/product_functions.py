"""Product functions that are more than their operator: `einsum`, `tensordot`, `chain_matmul`.

PyTorch writes these in Python. Here too: they bring their arguments to the operator's form, and
`einsum` of more than two operands asks opt_einsum in which order to contract.
"""

from __future__ import annotations

from collections.abc import Sequence

from maquette.api.signatures import called
from maquette.core.errors import check, check_value
from maquette.tensor.tensor import Tensor

Operand = Tensor | Sequence[int | object]


def einsum(*args: object) -> Tensor:
    """Sum products of operands by the letters of an equation: ``einsum("ij,jk->ik", a, b)``.

    Takes a list of operands too, and the form ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.
    """
    equation, operands = _equation_and_operands(args)
    path = _contraction_path(equation, operands) if len(operands) > 2 else None
    result = called("einsum", "default", equation, operands, path=path)
    assert isinstance(result, Tensor)
    return result


def einsum_arguments(*args: object) -> Sequence[object]:
    """The arguments of `einsum` in its first form, whichever they were given in."""
    equation, operands = _equation_and_operands(args)
    return equation, *operands


def _equation_and_operands(args: Sequence[object]) -> tuple[str, list[object]]:
    check_value(
        len(args) >= 2,
        lambda: (
            "einsum(): must specify the equation string and at least one operand, or at least "
            "one operand and its subscripts list"
        ),
    )
    if isinstance(args[0], str):
        equation, operands = args[0], list(args[1:])
    else:
        equation, operands = _from_sublists(args)
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    return equation, operands


def _from_sublists(args: Sequence[object]) -> tuple[str, list[object]]:
    pairs = len(args) // 2
    operands = [args[2 * i] for i in range(pairs)]
    terms = [_letters(args[2 * i + 1]) for i in range(pairs)]
    equation = ",".join(terms)
    if len(args) % 2:
        equation += "->" + _letters(args[-1])
    return equation, operands


def _letters(labels: object) -> str:
    assert isinstance(labels, (list, tuple))
    return "".join(_letter(label) for label in labels)


def _letter(label: object) -> str:
    if label is Ellipsis:
        return "..."
    if not isinstance(label, int) or not 0 <= label < 52:
        raise ValueError(
            f"einsum(): subscript in subscript list is not within the valid range [0, 52): {label}"
        )
    return chr(ord("A") + label) if label < 26 else chr(ord("a") + label - 26)


def _contraction_path(equation: str, operands: Sequence[object]) -> list[int]:
    """The order of contraction that opt_einsum finds from the shapes alone."""
    from opt_einsum import contract_path  # 10 ms, for equations of three operands and more

    shapes = [tuple(t.shape) for t in operands]  # type: ignore[attr-defined]  # tensors
    path, _ = contract_path(equation, *shapes, shapes=True, optimize="auto")
    return [operand for pair in path for operand in pair]


def tensordot(
    a: Tensor,
    b: Tensor,
    dims: int | Sequence[Sequence[int]] | Tensor = 2,
    out: Tensor | None = None,
) -> Tensor:
    """Sum products over the last `dims` dimensions of `a` and the first of `b`, or those listed."""
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else int(dims.item().real)
    if isinstance(dims, (list, tuple)):
        left, right = (list(d) if isinstance(d, (list, tuple)) else [d] for d in dims)
    else:
        number = int(dims)  # type: ignore[arg-type]  # an int, by elimination
        check(number >= 0, lambda: f"tensordot expects dims >= 0, but got dims={number}")
        check(
            number <= min(a.ndim, b.ndim),
            lambda: f"tensordot expects dims < ndim_a or ndim_b, but got dims={number}",
        )
        left, right = list(range(-number, 0)), list(range(number))
    result = (
        called("tensordot", "default", a, b, left, right)
        if out is None
        else called("tensordot", "out", a, b, left, right, out=out)
    )
    assert isinstance(result, Tensor)
    return result


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of a chain of matrices in the cheapest order: `linalg.multi_dot` of old."""
    result = (
        called("chain_matmul", "default", list(matrices))
        if out is None
        else called("chain_matmul", "out", list(matrices), out=out)
    )
    assert isinstance(result, Tensor)
    return result
