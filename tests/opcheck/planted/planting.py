"""The table of planted defects, and what they are planted with."""

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_numbers = itertools.count()
DEFECTS: list["Defect"] = []


@dataclass(frozen=True)
class Defect:
    """A defect: the requirement that plants it, the properties that may catch it."""

    name: str
    spec: str
    caught_by: tuple[str, ...]
    plant: Callable[["Planter", bool], tuple[Any, tuple[Any, ...], dict[str, Any]]]
    only: str = ""
    family: str = ""


def defect(spec: str, *caught_by: str, only: str = "") -> Callable[[Any], Any]:
    """Enter a function into the table.

    only: "maquette" where PyTorch has no such registration.
    """

    def enter(function: Any) -> Any:
        family = function.__module__.rpartition(".")[2]
        DEFECTS.append(Defect(function.__name__, spec, caught_by, function, only, family))
        return function

    return enter


class Planter:
    """Defines operators in a namespace of its own, in maquette or in PyTorch."""

    def __init__(self, torch: Any, library: Any) -> None:
        self.torch = torch
        self.library = library
        self.check = getattr(torch, "_check", None) or torch.check
        self.maquette = library.__name__.startswith("maquette")
        self.ns = f"planted_{next(_numbers)}"
        self._libraries: list[Any] = []

    def x(self, *shape: int, **kw: Any) -> Any:
        """A tensor of ordinary numbers; (2, 3) unless said."""
        shape = shape or (2, 3)
        count = 1
        for n in shape:
            count *= n
        values = [((7 * i) % 11 - 5) / 3 + 0.1 for i in range(count)]
        return self.torch.tensor(values, **kw).reshape(shape)

    def custom(
        self,
        schema: str,
        kernel: Any,
        fake: Any = None,
        backward: Any = None,
        setup: Any = None,
        vmap: Any = None,
        name: str = "op",
        writes: Any = (),
        **more: Any,
    ) -> Any:
        """A custom operator with these parts."""
        made = self.library.custom_op(
            f"{self.ns}::{name}", kernel, mutates_args=writes, schema=schema, **more
        )
        if fake is not None:
            made.register_fake(fake)
        if backward is not None:
            made.register_autograd(backward, setup_context=setup)
        if vmap is not None:
            made.register_vmap(vmap)
        return made

    def plain(
        self,
        schema: str,
        kernel: Any,
        fake: Any = None,
        key: str = "CPU",
        name: str = "op",
        **more: Any,
    ) -> Any:
        """An operator of a `Library`, which checks no results."""
        lib = self.library.Library(self.ns, "FRAGMENT")
        self._libraries.append(lib)
        lib.define(f"{name}{schema}", **more)
        lib.impl(name, kernel, key)
        if fake is not None:
            self.library.register_fake(f"{self.ns}::{name}", fake, lib=lib)
        return getattr(getattr(self.torch.ops, self.ns), name).default

    def like(self, x: Any) -> Any:
        """The fake of an elementwise operator of one tensor."""
        return self.torch.empty_like(x)

    def broadcast(self, x: Any, y: Any) -> Any:
        """The fake of an elementwise operator of two tensors: that of adding them."""
        return x + y

    def close(self) -> None:
        """Withdraw what was defined."""
        for lib in self._libraries:
            lib._destroy()


def save(*numbers: int) -> Any:
    """A setup_context that saves inputs of these numbers."""

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*[inputs[i] for i in numbers])

    return setup


def for_maquette() -> Planter:
    """A planter of maquette's operators."""
    import maquette
    import maquette.library

    return Planter(maquette, maquette.library)


def for_torch() -> Planter:
    """A planter of PyTorch's operators."""
    import importlib

    torch = importlib.import_module("torch")
    return Planter(torch, sys.modules["torch.library"])
