"""How often a `while_loop` goes round on tensors without data, where known numbers decide it.

Fakes of one element may have constants, which operators carry on (`fake/constants.py`): a counter
that starts from a number stays known. The loop is run on fakes, aside from what is counted, for as
long as its condition stays known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.autograd import no_grad
from maquette.higher_order.observed import observers
from maquette.tensor.tensor import Tensor

LONGEST = 200_000
"""Steps after which a loop counts as one without a known end; about 1 s of counting."""


def trip_count(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried: tuple[Any, ...],
    additional_inputs: tuple[Any, ...] = (),
) -> int | None:
    """The number of steps; None if data decides it, or it is above `LONGEST`."""
    with observers[-1].aside(), no_grad():
        for count in range(LONGEST):
            holds = _known(cond_fn(*carried, *additional_inputs))
            if holds is None:
                return None
            if not holds:
                return count
            carried = tuple(body_fn(*carried, *additional_inputs))
    return None


def _known(pred: Any) -> bool | None:
    if isinstance(pred, bool):
        return pred
    constant = getattr(pred, "constant", None)
    return bool(constant._mq_data) if isinstance(constant, Tensor) else None


__all__ = ["LONGEST", "trip_count"]
