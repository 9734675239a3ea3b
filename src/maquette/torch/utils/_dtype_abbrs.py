"""`torch.utils._dtype_abbrs`: dtypes in short, ``f32``."""

from __future__ import annotations

from maquette.core.dtype import all_dtypes
from maquette.fx.annotations import short_dtype

dtype_abbrs = {kind: short_dtype(kind) for kind in all_dtypes}
