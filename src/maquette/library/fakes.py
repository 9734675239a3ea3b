"""Fake implementations that users register: one function for fake tensors and for meta tensors.

The function stands as a kernel at Fake and at Meta. Running it on fakes needs their mode, which is
two layers up, so `maquette.fake` supplies the runner through `FAKE_RUNNER`; everything else is
here.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.library.python_kernels import python_kernel
from maquette.library.registrations import find_overload

if TYPE_CHECKING:
    from maquette.library.library import Library

Function = Callable[..., object]
# Makes the kernel of a composite on fakes at a key set, which may remember what calls of equal
# metas made; None where the composite runs. `maquette.fake` fills it in.
ON_FAKES: list[Callable[[OpOverload, int, Function], Function | None] | None] = [None]
_running = threading.local()


class FakeContext:
    """What a fake implementation may ask for while it runs: sizes that only data could tell."""

    def __init__(self, make: Callable[[int, int | None], object]) -> None:
        self._make = make
        self._over = False

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> object:
        """A fresh unbacked size from ``min`` to ``max`` (F93).

        Raises ValueError for a range that is none, or is symbolic; TypeError for bounds that are
        no ints; DynamicOutputShapeException in a mode without a shape environment; RuntimeError
        after the call of the fake that this is the context of, where PyTorch 2.13's still works.
        """
        if self._over:
            raise RuntimeError(
                "new_dynamic_size: the call of the fake that this context is of is over; call "
                "get_ctx() in each call, and keep no context"
            )
        for bound in (min, max):
            if bound is not None and type(bound) is not int:
                error = ValueError if hasattr(bound, "node") else TypeError
                raise error(
                    f"new_dynamic_size: bounds are plain ints, no SymInt; got {min} and {max}"
                )
        if min < 0:
            raise ValueError(
                f"new_dynamic_size: expected min to be greater than or equal to 0, got {min}"
            )
        if max is not None and max < min:
            raise ValueError(f"new_dynamic_size: expected max >= min, got {min} and {max}")
        return self._make(min, max)

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> object:
        """As `new_dynamic_size`, from 2; deprecated."""
        warnings.warn(
            "create_unbacked_symint is deprecated: use new_dynamic_size",
            FutureWarning,
            stacklevel=2,
        )
        return self.new_dynamic_size(min=min, max=max)


def get_ctx() -> FakeContext:
    """The context of the fake implementation that runs in this thread.

    RuntimeError outside of one, where PyTorch 2.13's gives None, and on meta tensors, whose sizes
    cannot depend on data.
    """
    found = getattr(_running, "context", None)
    if found is None:
        raise RuntimeError(
            "get_ctx(): no fake implementation runs in this thread; call it in the function that "
            "register_fake registered"
        )
    if isinstance(found, str):
        raise RuntimeError(found)
    assert isinstance(found, FakeContext)
    return found


@contextmanager
def running_fake(make: Callable[[int, int | None], object]) -> Iterator[None]:
    """Let `get_ctx` give a context whose sizes ``make`` makes, until the block ends."""
    context = FakeContext(make)
    with _with_context(context):
        try:
            yield
        finally:
            context._over = True


@contextmanager
def _with_context(context: FakeContext | str) -> Iterator[None]:
    before = getattr(_running, "context", None)
    _running.context = context
    try:
        yield
    finally:
        _running.context = before


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

    def on_meta(op: OpOverload, ks: int) -> Function:
        inner = plain(op, ks)
        refusal = (
            f"get_ctx(): {op.name()} was called on meta tensors, on which its fake (from {place}) "
            f"cannot make sizes that depend on data; use fake tensors in a "
            f"FakeTensorMode(shape_env=ShapeEnv())"
        )

        def kernel(*params: object) -> object:
            with _with_context(refusal):
                return inner(*params)

        return kernel

    return [
        (DispatchKey.Fake, Kernel(on_fakes, python=function, place=place)),
        (DispatchKey.Meta, Kernel(on_meta, python=function, place=place)),
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
