"""Checking operators: PyTorch's `opcheck`, and properties held to many inputs derived from one.

`maquette.library.opcheck` is the door; what each file has is said at its beginning. A property is
an object in `properties/`: a name, what it applies to, and a check of one input.
"""

from maquette.opcheck.checking import OpCheckError, opcheck
from maquette.opcheck.report import Finding, OpReport
from maquette.opcheck.samples import register_samples, samples_of
from maquette.opcheck.strategy import opcheck_strategy

__all__ = [
    "Finding",
    "OpCheckError",
    "OpReport",
    "opcheck",
    "opcheck_strategy",
    "register_samples",
    "samples_of",
]
