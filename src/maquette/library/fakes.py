"""Fake implementations that users register: one function for fake tensors and for meta tensors.

The function stands as a kernel at Fake and at Meta. Running it on fakes needs their mode, which is
two layers up, so `maquette.fake` supplies the runner through `FAKE_RUNNER`; everything else is
here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.library.python_kernels import python_kernel
from maquette.library.registrations import find_overload

if TYPE_CHECKING:
    from maquette.library.library import Library

Function = Callable[..., object]
# runner(op, kernel, place, ks): the kernel at Fake that runs ``kernel`` on fakes, in their mode.
Runner = Callable[[OpOverload, Function, str, int], Function]
FAKE_RUNNER: list[Runner | None] = [None]


def fake_kernels(function: Function, place: str) -> list[tuple[DispatchKey, Kernel]]:
    """The kernels of a fake implementation, with the keys they stand at."""
    plain = python_kernel(function)

    def on_fakes(op: OpOverload, ks: int) -> Function:
        runner = FAKE_RUNNER[0]
        if runner is None:
            raise RuntimeError(f"{op}: fake tensors are not loaded: import maquette first")
        return runner(op, plain(op, ks), place, ks)

    return [
        (DispatchKey.Fake, Kernel(on_fakes, python=function, place=place)),
        (DispatchKey.Meta, Kernel(plain, python=function, place=place)),
    ]


def register_fake(
    lib: Library, qualname: str, function: Function, place: str, *, allow_override: bool
) -> None:
    """Give a library's operator its fake implementation, until the library ends.

    Raises RuntimeError for an operator that does not exist or decomposes, and, unless
    ``allow_override``, for one that has a fake or a kernel for Meta.
    """
    op = find_overload(qualname)
    if op is None:
        raise RuntimeError(
            f"register_fake: the operator {qualname} does not exist; define it before its fake"
        )
    if op.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd):
        raise RuntimeError(
            f"register_fake: {qualname} has a CompositeImplicitAutograd kernel: it decomposes into "
            f"other operators before its fake would be asked, so it needs none"
        )
    if not allow_override:
        _check_free(op)
    for key, kernel in fake_kernels(function, place):
        lib.register(qualname, key, kernel)


def _check_free(op: OpOverload) -> None:
    for key, what in ((DispatchKey.Fake, "a fake"), (DispatchKey.Meta, "a kernel for Meta")):
        stack = op._kernels.get(key)
        if stack:
            raise RuntimeError(
                f"register_fake: {op.name()} has {what} already, from {stack[-1].place}; "
                f"allow_override=False refuses to replace it"
            )
