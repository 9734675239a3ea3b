"""Registering operators: `Library`, `define`, `impl`, `custom_op`, `register_*`; and `page`."""

from maquette.dispatch.kernels import fallthrough_kernel
from maquette.library import page
from maquette.library.backends import register_backend
from maquette.library.costs import cost_of
from maquette.library.custom_op import CustomOpDef, custom_op
from maquette.library.fakes import get_ctx
from maquette.library.functions import (
    define,
    get_kernel,
    impl,
    impl_abstract,
    register_autograd,
    register_cost,
    register_derivative,
    register_fake,
    register_kernel,
    register_shape,
    register_sharding,
    register_tangent,
    register_vmap,
)
from maquette.library.infer_schema import infer_schema
from maquette.library.library import Library, _scoped_library
from maquette.library.page import Cost, OperatorPage, Variant
from maquette.library.page import define as define_page
from maquette.tensor.backend import Backend

__all__ = [
    "Backend",
    "Cost",
    "CustomOpDef",
    "Library",
    "OperatorPage",
    "Variant",
    "_scoped_library",
    "custom_op",
    "cost_of",
    "define",
    "define_page",
    "get_ctx",
    "fallthrough_kernel",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "page",
    "register_autograd",
    "register_backend",
    "register_cost",
    "register_derivative",
    "register_fake",
    "register_kernel",
    "register_shape",
    "register_sharding",
    "register_tangent",
    "register_vmap",
]
