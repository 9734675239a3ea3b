"""`FakeCopyMode`: deep copies of real modules are fake, without their data being copied (F41)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.dispatch.torch_function import DisableTorchFunctionSubclass, TorchFunctionMode
from maquette.fake.mode import FakeTensorMode
from maquette.tensor.copying import deep_copy
from maquette.tensor.tensor import Tensor


class FakeCopyMode(TorchFunctionMode):
    """In the block ``copy.deepcopy`` of a tensor, parameter or module gives fakes of ``fake_mode``.

    Their sizes are static; what was one tensor before is one after. Other calls run as usual.
    """

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        self.fake_mode = fake_mode

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """The fake for a copy, what ``func`` gives for any other call."""
        if func is not deep_copy:
            with DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        tensor, memo = args
        if id(tensor) not in memo:
            memo[id(tensor)] = self._fake_of(tensor)
        return memo[id(tensor)]

    def _fake_of(self, t: Tensor) -> Tensor:
        return self.fake_mode.from_tensor(t, static_shapes=True)
