"""`call_for_per_sample_grads`: a module's gradients for each member of a batch.

Each member has its own copy of every parameter that requires a gradient, a view that takes no
memory, and the module is mapped over members and copies with `vmap`; what backward brings to the
copies is the gradient by member.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from maquette.core.pytree import tree_leaves, tree_map
from maquette.nn.base import Module
from maquette.nn.utils.stateless_calls import functional_call
from maquette.tensor import Tensor
from maquette.transforms.vmap import vmap


def call_for_per_sample_grads(
    module: Module,
    *,
    batch_size: int | None = None,
    loss_reduction: str = "sum",
    batch_first: bool = True,
) -> Callable[..., Any]:
    """A function like the module; backward puts (batch, *shape) in each parameter's `grad_sample`.

    ``.grad`` stays as it is. batch_size: where not all tensors have it. loss_reduction: "mean"
    multiplies by the batch size what the loss divides by. Raises RuntimeError for other options, or
    if a `grad_sample` is there already.
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(
            f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}"
        )
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(
            f"Batch size passed must be None or an integer, got {type(batch_size).__name__}"
        )
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for name, weight in module.named_parameters():
        if getattr(weight, "grad_sample", None) is not None:
            raise RuntimeError(
                f"{name}.grad_sample is there already, and gradients by sample are not added up: "
                f"clear it before another call"
            )
    dim = 0 if batch_first else 1

    @functools.wraps(module.forward)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        size = batch_size if batch_size is not None else _batch_of((args, kwargs), dim)
        factor = size if loss_reduction == "mean" else 1
        copies = {
            name: _copies(parameter, size, factor)
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        }

        def one(mine: dict[str, Tensor], given: tuple[Any, Any]) -> Any:
            inputs: Any = tree_map(lambda t: _with_dim(t, dim), given)
            result = functional_call(module, mine, *inputs)
            return tree_map(lambda t: t.squeeze(dim) if isinstance(t, Tensor) else t, result)

        dims = tree_map(lambda t: dim if _has_batch(t, size, dim) else None, (args, kwargs))
        mapped = vmap(one, in_dims=(0, dims), out_dims=dim, randomness="different")
        return mapped(copies, (args, kwargs))

    return wrapper


def _has_batch(value: object, size: int, dim: int) -> bool:
    return isinstance(value, Tensor) and value.dim() > dim and value.shape[dim] == size


def _with_dim(value: Any, dim: int) -> Any:
    return value.unsqueeze(dim) if isinstance(value, Tensor) else value


def _copies(parameter: Tensor, size: int, factor: int) -> Tensor:
    """The parameter for each member; what comes back to it goes into `grad_sample`."""
    copies = parameter.detach().expand(size, *parameter.shape).requires_grad_()

    def keep(gradient: Tensor) -> None:
        found = gradient.detach() * factor if factor != 1 else gradient.detach()
        known = getattr(parameter, "grad_sample", None)
        parameter.grad_sample = found if known is None else known + found  # type: ignore[attr-defined]  # the name PyTorch gives it

    copies.register_hook(keep)
    return copies


def _batch_of(given: tuple[Any, Any], dim: int) -> int:
    sizes = {t.shape[dim] for t in tree_leaves(given) if isinstance(t, Tensor)}
    if not sizes:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs; pass batch_size explicitly"
        )
    if len(sizes) > 1:
        raise RuntimeError(
            f"found inputs with batch sizes {sorted(sizes)}; pass batch_size explicitly"
        )
    return int(sizes.pop())
