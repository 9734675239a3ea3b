"""`torch.distributed.checkpoint.stateful`: objects that give and take their own state."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable


@runtime_checkable
class Stateful(Protocol):
    """What a checkpoint asks for its state, and hands the state that it read."""

    def state_dict(self) -> dict[str, Any]:
        """The state, by name."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state over."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
__all__ = ["Stateful", "StatefulT"]
