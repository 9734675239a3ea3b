"""`torch.utils._dtype_abbrs`: dtypes in short, ``f32``."""

from __future__ import annotations

from maquette.core.dtype import all_dtypes

dtype_abbrs = {kind: kind.abbr for kind in all_dtypes}
