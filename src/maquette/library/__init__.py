"""Registering operators: `Library`, `define`, `impl`, `custom_op`, `register_*`; and `page`."""

import importlib

from maquette.dispatch.kernels import fallthrough_kernel
from maquette.library import page
from maquette.library.backends import register_backend
from maquette.library.costs import cost_of
from maquette.library.custom_op import CustomOpDef, custom_op
from maquette.library.effects import EffectType, get_effect, register_effectful_op
from maquette.library.fakes import get_ctx
from maquette.library.functions import (
    define,
    get_kernel,
    impl,
    impl_abstract,
    register_autocast,
    register_autograd,
    register_cost,
    register_derivative,
    register_fake,
    register_kernel,
    register_shape,
    register_sharding,
    register_tangent,
    register_torch_dispatch,
    register_vmap,
)
from maquette.library.infer_schema import infer_schema
from maquette.library.library import Library, _scoped_library
from maquette.library.page import Cost, OperatorPage, Variant
from maquette.library.page import define as define_page
from maquette.tensor.backend import Backend

_register_effectful_op = register_effectful_op  # PyTorch's name

# Few programs have script objects, or check operators; these are imported when first asked for.
_LATER = "maquette.library.objects.script_objects"
_ELSEWHERE = {
    "MemberType": "maquette.library.objects.opaque_types",
    "is_impure": "maquette.library.effects",
    "opcheck": "maquette.opcheck",
    "opcheck_strategy": "maquette.opcheck",
    "register_opaque_type": "maquette.library.objects.opaque_types",
    "register_samples": "maquette.opcheck",
    "to_out_variant": "maquette.library.out_variant",
    "triton_op": "maquette.higher_order.triton",
    "unsafe_generate_fake_kernels": "maquette.library.fake_profile",
    "wrap_triton": "maquette.higher_order.triton",
}

__all__ = [
    "Backend",
    "Cost",
    "EffectType",
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
    "get_effect",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "page",
    "register_autocast",
    "register_autograd",
    "register_backend",
    "register_cost",
    "register_effectful_op",
    "register_derivative",
    "register_fake",
    "register_kernel",
    "register_shape",
    "register_sharding",
    "register_tangent",
    "register_torch_dispatch",
    "register_vmap",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *_ELSEWHERE, *importlib.import_module(_LATER).__all__})


def __getattr__(name: str) -> object:
    place = _ELSEWHERE.get(name, _LATER)
    if place is _LATER and name not in importlib.import_module(_LATER).__all__:
        raise AttributeError(f"module 'maquette.library' has no attribute '{name}'")
    return getattr(importlib.import_module(place), name)
