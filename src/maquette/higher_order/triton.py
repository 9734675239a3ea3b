"""`triton_op` and `wrap_triton`: operators whose bodies launch kernels of Triton.

A body is made of operators and launches, ``wrap_triton(kernel)[grid](...)``. It is the operator's
fake too, and what functionalization and traces see. A launch runs the kernel on data, does nothing
on fakes, and is a node in a trace. A kernel is whatever is called as Triton's are,
``kernel[grid](*args)``, and says its function in ``fn``; without Triton there may be none.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from maquette.dispatch.modes import get_current_dispatch_mode_stack
from maquette.dispatch.tls import tls
from maquette.fx.node import has_side_effect
from maquette.higher_order.common import FunctionalHop, record
from maquette.library.custom_op import CustomOpDef, custom_op
from maquette.library.registrations import set_fact
from maquette.tensor.parameter import Parameter
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators

F = TypeVar("F", bound=Callable[..., Any])


class _KernelTable:
    """Kernels that nodes name by a number, since a graph's arguments are plain values."""

    def __init__(self) -> None:
        self._kernels: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._next = itertools.count()

    def add(self, kernel: Any) -> int:
        """The number of a kernel, the same each time."""
        if id(kernel) not in self._numbers:
            number = next(self._next)
            self._numbers[id(kernel)], self._kernels[number] = number, kernel
        return self._numbers[id(kernel)]

    def get_kernel(self, number: int) -> Any:
        """The kernel of a number."""
        return self._kernels[number]


kernel_side_table = _KernelTable()


class LaunchInPlace(FunctionalHop):
    """``higher_order.triton_kernel_wrapper_mutation(kernel_idx=, grid=, kwargs=)``: a launch.

    kernel_idx: the number in `kernel_side_table`. kwargs: the kernel's arguments by name; which of
    the tensors among them it writes, it does not say.
    """

    def __init__(self) -> None:
        super().__init__("triton_kernel_wrapper_mutation", cacheable=True)

    def eager(self, *, kernel_idx: int, grid: Any, kwargs: dict[str, Any]) -> None:
        kernel_side_table.get_kernel(kernel_idx)[grid](**kwargs)

    def fake(self, *, kernel_idx: int, grid: Any, kwargs: dict[str, Any]) -> None:
        return None

    def functional(self, ctx: Any, *, kernel_idx: int, grid: Any, kwargs: dict[str, Any]) -> None:
        """The launch on clones; each tensor is its clone from then on."""
        with ctx.redispatch_to_next():
            new = launch_on_clones(
                kernel_idx=kernel_idx, grid=grid, kwargs=ctx.unwrap_tensors(kwargs)
            )
        for name, value in new.items():
            ctx.replace(kwargs[name], value)
            ctx.commit_update(kwargs[name])
            ctx.sync(kwargs[name])

    def traced(self, mode: Any, *args: Any, **kwargs: Any) -> Any:
        return record(mode, self, args, kwargs)


class LaunchOnClones(FunctionalHop):
    """``higher_order.triton_kernel_wrapper_functional``: a launch that writes clones of its
    tensors, which it gives by name."""

    def __init__(self) -> None:
        super().__init__("triton_kernel_wrapper_functional", cacheable=True)

    def eager(self, *, kernel_idx: int, grid: Any, kwargs: dict[str, Any]) -> dict[str, Tensor]:
        clones = {k: operators.clone(v) for k, v in kwargs.items() if isinstance(v, Tensor)}
        launch_in_place(kernel_idx=kernel_idx, grid=grid, kwargs={**kwargs, **clones})
        return clones

    def traced(self, mode: Any, *args: Any, **kwargs: Any) -> Any:
        return record(mode, self, args, kwargs)


launch_in_place = LaunchInPlace()
launch_on_clones = LaunchOnClones()
has_side_effect(launch_in_place)  # a graph keeps a launch, which has no result


class WrappedKernel:
    """A kernel whose launches are seen by traces; made by `wrap_triton`."""

    def __init__(self, kernel: Any, grid: Any = None) -> None:
        self.kernel = kernel
        self.grid = grid

    def __getitem__(self, grid: Any) -> WrappedKernel:
        return WrappedKernel(self.kernel, grid)

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> None:
        """Launch with a grid given by keyword."""
        self[grid](*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        if self.grid is None:
            raise RuntimeError("a kernel is launched on a grid: wrap_triton(kernel)[grid](...)")
        named = {**dict(zip(_names(self.kernel), args, strict=False)), **kwargs}
        if len(args) > len(_names(self.kernel)):
            raise TypeError(f"{self.kernel} takes {_names(self.kernel)}, got {len(args)} arguments")
        if not _is_watched(named.values()):
            self.kernel[self.grid](**named)
            return
        grid = self.grid(named) if callable(self.grid) else self.grid
        number = kernel_side_table.add(self.kernel)
        launch_in_place(kernel_idx=number, grid=tuple(grid), kwargs=named)


def _names(kernel: Any) -> Sequence[str]:
    known = getattr(kernel, "arg_names", None)
    return list(inspect.signature(kernel.fn).parameters) if known is None else known


def _is_watched(values: Iterable[Any]) -> bool:
    """Whether a mode or a transform looks at a launch, or data is missing."""
    if get_current_dispatch_mode_stack() or tls.st.transforms:
        return True
    tensors = [v for v in values if isinstance(v, Tensor)]
    return any(type(t) not in (Tensor, Parameter) or t.is_meta for t in tensors)


def wrap_triton(triton_kernel: Any, /) -> Any:
    """A Triton kernel whose launches are seen by traces and do nothing on fakes.

    RuntimeError for what is no kernel of Triton: of ``triton.jit`` or ``triton.autotune``.
    """
    if isinstance(triton_kernel, WrappedKernel):
        return triton_kernel
    if not (hasattr(triton_kernel, "__getitem__") and callable(getattr(triton_kernel, "fn", None))):
        raise RuntimeError(
            f"wrap_triton: expected a kernel made by triton.jit or triton.autotune, got "
            f"{type(triton_kernel).__name__}: {triton_kernel!r}. Triton is not part of maquette: "
            f"install it (pip install triton) to write such kernels"
        )
    return WrappedKernel(triton_kernel)


capture_triton = wrap_triton


def triton_op(
    name: str,
    fn: F | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    schema: str | None = None,
) -> CustomOpDef | Callable[[F], CustomOpDef]:
    """Define an operator by a function of operators and launches of `wrap_triton`; or decorate.

    The arguments are those of `custom_op`. The function is its own fake; functionalization and
    traces see what it calls, where those of `custom_op` see one operator.
    """

    def define(function: F) -> CustomOpDef:
        made = custom_op(name, function, mutates_args=mutates_args, schema=schema)
        made.register_fake(function)
        made._lib.on_destroy(set_fact(made._opoverload, "body", function))
        return made

    return define if fn is None else define(fn)


__all__ = ["capture_triton", "kernel_side_table", "triton_op", "wrap_triton"]
