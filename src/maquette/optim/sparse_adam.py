"""`SparseAdam`, by name only: there are no sparse gradients yet that it could step by."""

from __future__ import annotations

from typing import Any

from maquette.optim.optimizer import Optimizer


class SparseAdam(Optimizer):
    """Adam for sparse gradients; not there yet: raises NotImplementedError."""

    def __init__(self, params: Any, *args: Any, **options: Any) -> None:
        raise NotImplementedError(
            "SparseAdam is not supported: maquette has no sparse gradients yet. Leave out "
            "sparse=True in the embedding and use Adam; dense steps also move rows that were not "
            "looked up, by their moments."
        )
