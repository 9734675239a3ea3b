"""What a collective gives with ``async_op=True``: with one process it is done when it is begun."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from maquette.tensor.tensor import Tensor
from maquette.torch.helpers.futures import Future


class Work:
    """A collective that is done, with its outputs."""

    def __init__(self, outputs: Sequence[Tensor] = ()) -> None:
        self._outputs = list(outputs)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """True: there is nothing to wait for."""
        return True

    def synchronize(self) -> None:
        """Nothing is outstanding."""

    def is_completed(self) -> bool:
        """True."""
        return True

    def is_success(self) -> bool:
        """True: what fails, fails when it is called."""
        return True

    def exception(self) -> BaseException | None:
        """None."""
        return None

    def result(self) -> list[Tensor]:
        """The outputs."""
        return self._outputs

    def get_future(self) -> Future[list[Tensor]]:
        """A future whose value is there, the outputs."""
        made: Future[list[Tensor]] = Future()
        made.set_result(self._outputs)
        return made
