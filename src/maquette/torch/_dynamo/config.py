"""`torch._dynamo.config`: the settings of the fakes' cache; others are kept and not used."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from maquette.torch.helpers.settings_of_fakes import SettingsOfFakes

FAKES = {
    "fake_tensor_cache_crosscheck_enabled": "cache_crosscheck_enabled",
    "fake_tensor_cache_enabled": "cache_enabled",
}

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
trace_autograd_ops = False
skip_torchrec = True
force_unspec_int_unbacked_size_like_on_torchrec_kjt = False
reorderable_logging_functions: set[object] = set()
skip_fwd_side_effects_in_bwd_under_checkpoint = False


@contextmanager
def patch(
    arg1: str | Mapping[str, object] | None = None, arg2: object = None, **kwargs: object
) -> Iterator[None]:
    """In the block, or the function, settings have other values: by name, or as a dict."""
    given = {arg1: arg2} if isinstance(arg1, str) else {**(arg1 or {}), **kwargs}
    module = sys.modules[__name__]
    before = {name: getattr(module, name) for name in given}
    for name, value in given.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


sys.modules[__name__].__class__ = SettingsOfFakes
