"""`jvp`, `linearize`, `jacfwd`, `hessian`: derivatives by going forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from maquette.core.pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten
from maquette.tensor.tensor import Tensor
from maquette.transforms.explaining import note_place
from maquette.transforms.forward_level import JvpInterpreter, tangent_at
from maquette.transforms.gradients import (
    Argnums,
    checked_outputs,
    chosen_arguments,
    jacrev,
    lowered,
    lowered_aux,
    named_after,
    refuse_complex,
    replaced,
    standard_basis,
    vjp,
)
from maquette.transforms.interpreter import Interpreter, pushed
from maquette.transforms.rules import operators
from maquette.transforms.vmap import check_randomness_flag, vmap
from maquette.transforms.wrappers import DualTensor, dual, revived

Function = Callable[..., Any]


def jvp(
    func: Function,
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """The output of ``func`` at ``primals``, and how it moves when they move along ``tangents``.

    strict: an output that does not depend on the primals is an error, not zeros. has_aux: ``func``
    gives ``(output, aux)``, and the result is ``(output, tangent, aux)``. Raises RuntimeError
    unless the tangents are like the primals.

    >>> import maquette as mq
    >>> jvp(mq.sin, (mq.zeros(()),), (mq.ones(()),))
    (tensor(0.), tensor(1.))
    """
    return _jvp_with_argnums(func, primals, tangents, None, strict=strict, has_aux=has_aux)


def _jvp_with_argnums(
    func: Function,
    primals: Any,
    tangents: Any,
    argnums: Argnums | None,
    *,
    strict: bool = False,
    has_aux: bool = False,
    recorded: bool = False,
) -> Any:
    """`jvp` by some of the arguments.

    recorded: the levels below record tangents even where ``func`` says `no_grad`.
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to "
            "call f(*primals)."
        )
    chosen = primals if argnums is None else chosen_arguments(primals, argnums)
    flat, spec = tree_flatten(chosen)
    moved, moved_spec = tree_flatten(tangents)
    if spec != moved_spec:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python "
            "structure. For example, if primals is a tuple of 3 tensors, tangents also must be. "
            "Got "
            f"primals with structure {spec} and tangents with structure {moved_spec}"
        )
    _check_tensors(flat, "primals")
    _check_tensors(moved, "tangents")
    level = JvpInterpreter()
    with pushed(level):
        level.grad_below = True if recorded else level.grad_below
        given = [dual_of(cast(Tensor, p), cast(Tensor, t), level) for p, t in zip(flat, moved)]
        inner = tree_unflatten(given, spec)
        args = inner
        if argnums is not None:
            args = replaced([_still(p, level) for p in primals], argnums, inner)
        try:
            output = func(*cast(tuple[Any, ...], args))
        except Exception as error:
            note_place(error, "jvp", func)
            raise
        aux = None
        if has_aux:
            if not (isinstance(output, tuple) and len(output) == 2):
                raise RuntimeError(
                    "jvp(f, primals, tangents): output of function f should be a tuple: (output, "
                    "aux) if has_aux is True"
                )
            output, aux = output
        leaves, out_spec = checked_outputs(output, "jvp(f, primals, tangents)")
        found = [tangent_at(t, level) for t in leaves]
    values = [lowered(t, level) for t in leaves]
    if strict and any(t is None for t in found):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
            "This is not allowed with strict=True."
        )
    zeros = [operators.zeros_like(v) if t is None else t for t, v in zip(found, values)]
    result = tree_unflatten(values, out_spec), tree_unflatten(zeros, out_spec)
    return (*result, lowered_aux(aux, level)) if has_aux else result


def _still(tree: Any, level: Interpreter) -> Any:
    """An argument whose tensors are of the level, and do not move."""
    return tree_map(lambda t: dual(revived(t), None, level) if isinstance(t, Tensor) else t, tree)


def _check_tensors(leaves: Sequence[Any], what: str) -> None:
    where = "jvp(f, primals, tangents): Expected"
    if not leaves:
        raise RuntimeError(f"{where} {what} to contain at least one Tensor.")
    for t in leaves:
        if not isinstance(t, Tensor):
            raise RuntimeError(f"{where} {what} to only contain Tensors, got {type(t)}")


def dual_of(primal: Tensor, tangent: Tensor, level: Interpreter) -> DualTensor:
    """A tensor with its tangent; RuntimeError where they are not alike."""
    if tangent.meta.shape != primal.meta.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(primal.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )
    kind = primal.meta.dtype
    if tangent.meta.dtype.is_complex is not kind.is_complex and _moves(tangent):
        raise RuntimeError(
            f"Expected tangent to be {'complex' if kind.is_complex else 'real'} as its primal, of "
            f"dtype {kind}, got {tangent.meta.dtype}"
        )
    if not _moves(primal):
        raise ValueError(
            f"Expected primal to be floating point or complex, got {kind}: nothing else has a "
            "tangent"
        )
    if tangent.meta.device is not primal.meta.device:
        raise RuntimeError(
            f"Expected tangent to be on the device of its primal, {primal.device}, got "
            f"{tangent.device}"
        )
    return dual(revived(primal), revived(tangent), level)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """The output of ``func``, and the function from tangents of the primals to those of the output.

    The function is run once, here: what is given back multiplies with its derivative, however often
    it is called. It takes tangents like the primals, else it raises RuntimeError.
    """

    still: list[Tensor | None] = []  # the tangents of outputs that have no derivative, else None
    out_spec: list[TreeSpec] = []

    def along(*tangents: Any) -> tuple[Any, Any]:
        output, moved = _jvp_with_argnums(func, primals, tangents, None, recorded=True)
        found, spec_found = tree_flatten(moved)
        leaves = cast(list[Tensor], found)
        out_spec[:] = [spec_found]
        still[:] = [None if _moves(t) else t for t in leaves]
        return [t for t in leaves if _moves(t)], output

    # The tangent is linear in the direction: its backward pass transposes it, whose own one gives
    # the product again, without func.
    zeros = [tree_map(operators.zeros_like, p) for p in primals]
    moved, pull, output = vjp(along, *zeros, has_aux=True)
    _, push = vjp(pull, tree_map(operators.zeros_like, moved))
    flat, spec = tree_flatten(primals)

    def jvp_fn(*tangents: Any) -> Any:
        given, given_spec = tree_flatten(tangents)
        if given_spec != spec:
            raise RuntimeError(
                "Expected the tangents' structure to be the same as that of the primals: got "
                f"{given_spec}, expected {spec}"
            )
        for i, (t, p) in enumerate(zip(given, flat)):
            _check_like(i, cast(Tensor, t), cast(Tensor, p))
        moving = iter(push(tangents)[0])
        leaves = [next(moving) if t is None else operators.zeros_like(t) for t in still]
        return tree_unflatten(leaves, out_spec[0])

    return output, jvp_fn


def _moves(t: Tensor) -> bool:
    """Whether a tensor of this dtype has a derivative."""
    return t.meta.dtype.is_floating_point or t.meta.dtype.is_complex


def _check_like(i: int, t: Tensor, p: Tensor) -> None:
    for name in ("shape", "device", "dtype"):
        if getattr(t, name) != getattr(p, name):
            raise RuntimeError(
                f"Expected the same {name}: tangent {i} has {name} {getattr(t, name)}, its primal "
                f"{getattr(p, name)}"
            )


def jacfwd(
    func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """A function that computes the Jacobian of ``func``, one forward pass for all columns at once.

    The result is as that of `jacrev`. randomness: as for `vmap`, under which the columns are.
    """
    check_randomness_flag(randomness)

    def wrapped(*args: Any) -> Any:
        chosen = chosen_arguments(args, argnums)
        flat, spec = tree_flatten(chosen)
        inputs = cast(list[Tensor], flat)
        refuse_complex("jacfwd", inputs, "input")
        seen: dict[str, Any] = {}

        def columns(*basis: Tensor) -> Any:
            moved = [b.reshape(i.shape) for b, i in zip(basis, inputs)]
            found = _jvp_with_argnums(
                func,
                args,
                tree_unflatten(moved, spec),
                argnums,
                strict=False,
                has_aux=has_aux,
            )
            leaves, seen["spec"] = tree_flatten(found[1])
            return (tuple(leaves), found[2]) if has_aux else tuple(leaves)

        total = sum(i.numel() for i in inputs)
        basis = standard_basis(inputs, 0, total)
        found = vmap(columns, randomness=randomness)(*basis)
        # Each column has computed the same aux.
        tangents, aux = (found[0], tree_map(lambda t: t[0], found[1])) if has_aux else (found, None)
        sizes = [i.numel() for i in inputs]
        shaped = [tree_unflatten(_by_input(t, inputs, sizes), spec) for t in tangents]
        jacobian = tree_unflatten(shaped, seen["spec"])
        refuse_complex("jacfwd", tangents, "output")
        return (jacobian, aux) if has_aux else jacobian

    return named_after(func, wrapped)


def _by_input(t: Tensor, inputs: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
    """The columns ``[inputs, *output]`` of one output as ``[*output, *input]`` for each input."""
    parts = operators.movedim(t, 0, -1).split(sizes, -1)
    return [p.reshape((*p.shape[:-1], *i.shape)) for p, i in zip(parts, inputs)]


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """A function that computes the second derivatives of ``func``: forward over backward."""
    return jacfwd(jacrev(func, argnums), argnums)


__all__ = ["hessian", "jacfwd", "jvp", "linearize"]
