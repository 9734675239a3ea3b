"""`torch._subclasses.meta_utils`: describing tensors, and converting them to meta tensors."""

from maquette.dispatch.subclasses import is_traceable_wrapper_subclass
from maquette.fake.described.comparing import assert_eq, assert_metadata_eq
from maquette.fake.described.describe import (
    CreationMeta,
    MetaStorageDesc,
    MetaTensorDesc,
    MetaTensorDescriber,
    ViewFunc,
    safe_grad,
)
from maquette.fake.described.meta_converter import MetaConverter
from maquette.fake.kinds import (
    disable_inference_mode_for_fake_prop,
    is_sparse_any,
    is_sparse_compressed,
    is_sparse_compressed_layout,
    is_sparse_coo,
    safe_is_leaf,
)

__all__ = [
    "CreationMeta",
    "MetaConverter",
    "MetaStorageDesc",
    "MetaTensorDesc",
    "MetaTensorDescriber",
    "ViewFunc",
    "assert_eq",
    "assert_metadata_eq",
    "disable_inference_mode_for_fake_prop",
    "is_sparse_any",
    "is_sparse_compressed",
    "is_sparse_compressed_layout",
    "is_sparse_coo",
    "is_traceable_wrapper_subclass",
    "safe_grad",
    "safe_is_leaf",
]
