"""`torch._functorch.config`: the settings of fake tensors, by attribute or `patch`.

Each is an attribute of `maquette.fake.config` under a longer name. Other settings are kept and not
used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from maquette.torch.helpers.settings_of_fakes import SettingsOfFakes

FAKES = {
    "fake_tensor_allow_meta": "allow_meta",
    "fake_tensor_allow_unsafe_data_ptr_access": "allow_unsafe_data_ptr_access",
    "fake_tensor_prefer_device_type": "prefer_device_type",
    "fake_tensor_propagate_real_tensors": "propagate_real_tensors",
    "generate_fake_kernels_from_real_mismatches": "generate_fake_kernels_from_real_mismatches",
}


functionalize_rng_ops = False
donated_buffer = False
activation_memory_budget = 1.0
debug_assert = False
cse = True
recompute_views = False
view_replay_for_aliased_outputs = True


@contextmanager
def patch(
    name: str | Mapping[str, object] | None = None, value: object = None, **changes: object
) -> Iterator[None]:
    """Change settings in the block: one by its name, several by a dict or by keywords."""
    wanted = dict(changes)
    if isinstance(name, str):
        wanted[name] = value
    elif name is not None:
        wanted.update(name)
    module = sys.modules[__name__]
    before = {key: getattr(module, key) for key in wanted}
    for key, new in wanted.items():
        setattr(module, key, new)
    try:
        yield
    finally:
        for key, former in before.items():
            setattr(module, key, former)


sys.modules[__name__].__class__ = SettingsOfFakes
