"""Families of operators that few programs call: defined when a name is asked for that is not there.

A family is fit for this if none of its operators is a method of `Tensor`. Importing these at once
would make `import maquette` an eighth longer. Nobody else need know: whoever looks an operator up,
or lists them, finds them (`dispatch.packet.find_packet`).
"""

from __future__ import annotations

import importlib

from maquette.dispatch.packet import LATE

FAMILIES = (
    "affine_grids",
    "ctc",
    "distances",
    "embedding_bag",
    "foreach",
    "fractional_pooling",
    "frequencies",
    "grid_sampling",
    "ldl",
    "least_squares",
    "margin_losses",
    "noisy_relu",
    "recurrence",
    "signal_windows",
    "special_airy",
    "special_polynomials",
    "temporal_convolution",
    "unfolding",
    "upsampling",
    "weight_norms",
)


def load() -> None:
    """Define the operators of these families."""
    for family in FAMILIES:
        importlib.import_module(f"maquette.aten.{family}")


LATE["aten"] = load
