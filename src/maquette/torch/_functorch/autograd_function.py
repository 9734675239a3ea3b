"""`torch._functorch.autograd_function`: pieces that rules for `autograd.Function` are made of."""

from __future__ import annotations

from typing import Any

from maquette.tensor.tensor import Tensor
from maquette.transforms.functions import reduced


class WrappedCtx:
    """A context over another: attributes are read from and written to the inner one."""

    _pt_reserved_attrs: tuple[str, ...] = ("_pt_reserved_attrs", "_pt_inner_ctx")

    def __init__(self, ctx: Any) -> None:
        if not isinstance(ctx, WrappedCtx):
            for name in type(self)._pt_reserved_attrs:
                if hasattr(ctx, name):
                    raise RuntimeError(
                        f"PyTorch reserves the {type(self)._pt_reserved_attrs} field on ctx. "
                        f"Please name your fields on ctx something else than {name} to avoid name "
                        f"collision."
                    )
        object.__setattr__(self, "_pt_inner_ctx", ctx)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pt_inner_ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self)._pt_reserved_attrs:
            object.__setattr__(self, name, value)
        else:
            setattr(self._pt_inner_ctx, name, value)


class CtxWithSavedTensors(WrappedCtx):
    """A context with saved tensors of its own."""

    _pt_reserved_attrs = ("_pt_new_saved_tensors", *WrappedCtx._pt_reserved_attrs)

    def __init__(self, ctx: Any, new_saved_tensors: tuple[Any, ...]) -> None:
        super().__init__(ctx)
        self._pt_new_saved_tensors = new_saved_tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that it was made with."""
        return self._pt_new_saved_tensors


def reductify_leaf(
    grad_input: Tensor | None,
    grad_input_bdim: int | None,
    input_bdim: int | None,
    batch_size: int,
    target_shape_without_bdim_to_reduce_to: tuple[int, ...] | None = None,
) -> Tensor | None:
    """A gradient with its batch where the input has it, or summed over it, and to a shape."""
    if grad_input is None:
        return None
    if grad_input_bdim is None and input_bdim is None:
        return grad_input
    shape = target_shape_without_bdim_to_reduce_to
    made: Tensor = reduced(grad_input, grad_input_bdim, input_bdim, batch_size, shape)
    return made
