"""The operators that a function calls, as a mode sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from maquette.dispatch.modes import TorchDispatchMode


class Recorder(TorchDispatchMode):
    """Writes down the overloads that are called, as ``add.Tensor``."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        self.names.append(str(func).removeprefix("aten."))
        return func(*args, **(kwargs or {}))


def overloads_of(function: Callable[[], object]) -> list[str]:
    """The overloads that ``function`` calls, as ``add.Tensor``; a default one by its name."""
    recorder = Recorder()
    with recorder:
        function()
    return [name.removesuffix(".default") for name in recorder.names]


def operators_of(function: Callable[[], object]) -> list[str]:
    """Names of the operators that ``function`` calls, without overloads."""
    return [name.split(".")[0] for name in overloads_of(function)]
