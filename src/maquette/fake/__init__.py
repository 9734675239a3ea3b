"""Fake tensors, their mode, their errors."""

from __future__ import annotations

import importlib

from maquette.fake import kernel as _kernel  # noqa: F401  # serves the key Fake
from maquette.fake import lifting as _lifting  # noqa: F401  # tensor(data) in a fake mode
from maquette.fake.cache import DispatchCacheInfo, disable_fake_tensor_cache
from maquette.fake.composites import kernel as _composites  # noqa: F401  # serves composites
from maquette.fake.config import config
from maquette.fake.convert import FakeTensorConverter
from maquette.fake.creation import track_fakes
from maquette.fake.derivatives import recorded as _recorded  # noqa: F401  # serves recorded calls
from maquette.fake.derivatives import runs as _runs  # noqa: F401  # whole runs of it
from maquette.fake.derivatives import steps as _steps  # noqa: F401  # serves backward
from maquette.fake.derivatives import sums as _sums  # noqa: F401  # as well
from maquette.fake.derivatives import writes as _writes  # noqa: F401  # as well
from maquette.fake.exceptions import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorDeviceMismatchError,
    MetadataMismatchError,
    UnsupportedFakeTensorException,
    UnsupportedMutationAliasingException,
    UnsupportedOperatorException,
)
from maquette.fake.mode import (
    FakeTensorMode,
    FakeTensorTLS,
    fake_tensor_tls,
    unset_fake_temporarily,
)
from maquette.fake.tensor import FakeTensor

# Imported when first asked for: few programs need them.
_LATER = {
    "assert_eq": "maquette.fake.described.comparing",
    "assert_metadata_eq": "maquette.fake.described.comparing",
    "FakeCopyMode": "maquette.fake.copying",
    "CrossRefFakeMode": "maquette.fake.real.cross_reference",
    "CreationMeta": "maquette.fake.described.describe",
    "MetaConverter": "maquette.fake.described.meta_converter",
    "MetaStorageDesc": "maquette.fake.described.describe",
    "MetaTensorDesc": "maquette.fake.described.describe",
    "MetaTensorDescriber": "maquette.fake.described.describe",
    "detect_fake_mode": "maquette.fake.detecting",
    "is_fake": "maquette.fake.detecting",
    "maybe_get_fake_mode": "maquette.fake.detecting",
    "safe_grad": "maquette.fake.described.describe",
    "safe_is_leaf": "maquette.fake.kinds",
    "try_convert_fake_to_real": "maquette.fake.real.to_real",
}


def __getattr__(name: str) -> object:
    place = _LATER.get(name)
    if place is None:
        raise AttributeError(f"module 'maquette.fake' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(place), name)
    return found


__all__ = [
    "assert_eq",
    "assert_metadata_eq",
    "CreationMeta",
    "CrossRefFakeMode",
    "DataDependentOutputException",
    "DispatchCacheInfo",
    "DynamicOutputShapeException",
    "FakeCopyMode",
    "FakeTensor",
    "FakeTensorConverter",
    "FakeTensorDeviceMismatchError",
    "FakeTensorMode",
    "FakeTensorTLS",
    "MetaConverter",
    "MetaStorageDesc",
    "MetaTensorDesc",
    "MetaTensorDescriber",
    "MetadataMismatchError",
    "UnsupportedFakeTensorException",
    "UnsupportedMutationAliasingException",
    "UnsupportedOperatorException",
    "config",
    "detect_fake_mode",
    "disable_fake_tensor_cache",
    "fake_tensor_tls",
    "is_fake",
    "maybe_get_fake_mode",
    "safe_grad",
    "safe_is_leaf",
    "track_fakes",
    "try_convert_fake_to_real",
    "unset_fake_temporarily",
]
