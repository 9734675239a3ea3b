"""`torch._dynamo.config`: settings are kept and not used."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

cache_size_limit = 8
recompile_limit = 8
accumulated_cache_size_limit = 256
suppress_errors = False
verbose = False
dynamic_shapes = True
assume_static_by_default = True
automatic_dynamic_shapes = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
optimize_ddp = False
inline_inbuilt_nn_modules = True
skip_fwd_side_effects_in_bwd_under_checkpoint = False


@contextmanager
def patch(
    arg1: str | Mapping[str, object] | None = None, arg2: object = None, **kwargs: object
) -> Iterator[None]:
    """In the block, or the function, settings have other values: by name, or as a dict."""
    given = {arg1: arg2} if isinstance(arg1, str) else {**(arg1 or {}), **kwargs}
    settings = vars(sys.modules[__name__])
    before = {name: settings[name] for name in given}
    settings.update(given)
    try:
        yield
    finally:
        settings.update(before)
