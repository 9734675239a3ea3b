"""Work in outline: fake tensors, their mode, their errors."""

from maquette.fake import kernel as _kernel  # noqa: F401  # serves the key Fake
from maquette.fake import lifting as _lifting  # noqa: F401  # tensor(data) in a fake mode
from maquette.fake.exceptions import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorDeviceMismatchError,
    MetadataMismatchError,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from maquette.fake.mode import FakeTensorMode, unset_fake_temporarily
from maquette.fake.tensor import FakeTensor

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorDeviceMismatchError",
    "FakeTensorMode",
    "MetadataMismatchError",
    "UnsupportedFakeTensorException",
    "UnsupportedOperatorException",
    "unset_fake_temporarily",
]
