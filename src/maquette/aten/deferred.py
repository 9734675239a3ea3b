"""Families of operators that few programs call: defined when a name is asked for that is not there.

A family is fit for this if none of its operators is a method of `Tensor`. Importing these at once
would make `import maquette` an eighth longer. Nobody else need know: whoever looks an operator up,
or lists them, finds them (`dispatch.packet.find_packet`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import cast

from maquette.autograd.api import VMAPPED
from maquette.dispatch.base import FUNCTIONALIZE_IMPLS, OperatorBase
from maquette.dispatch.higher_order import EFFECTS
from maquette.dispatch.packet import LATE, LATE_FORMS
from maquette.library.effects import get_effect
from maquette.tensor.tensor import Tensor

FAMILIES = (
    "nn.resize.affine_grids",
    "nn.loss.ctc",
    "linalg.distances",
    "nn.embedding.embedding_bag",
    "nn.grouped_products",
    "elementwise.foreach",
    "elementwise.optimizer_steps",
    "nn.pool.fractional_pooling",
    "fft.frequencies",
    "nn.resize.grid_sampling",
    "nn.resize.grid_sampling_second",
    "linalg.ldl",
    "linalg.least_squares",
    "reduction.numerical_gradient",
    "random.gamma_draws",
    "random.poisson_binomial",
    "nn.loss.margin_losses",
    "nn.activation.rrelu",
    "nn.recurrent.recurrence",
    "fft.signal_windows",
    "elementwise.special_airy",
    "elementwise.special_polynomials",
    "nn.conv.temporal_convolution",
    "nn.conv.unfolding",
    "nn.resize.upsampling",
    "view.named_copies",
    "elementwise.operator_names",
    "linalg.products.wider_products",
    "seldom_called",
    "nn.norm.weight_norms",
    "sparse",
    "functional_twins",  # last: it names operators of other families
)


def load() -> bool:
    """Define the operators of these families; whether none of them is still being imported.

    A module that another thread imports is waited for. One that this thread is importing, and
    that asks for an operator meanwhile, is not done yet.
    """
    modules = [importlib.import_module(f"maquette.aten.{family}") for family in FAMILIES]
    return not any(getattr(module.__spec__, "_initializing", False) for module in modules)


LATE["aten"] = load


def load_forms() -> None:
    """Define the ``out=`` forms that few programs call."""
    importlib.import_module("maquette.aten.generated_outs")


LATE_FORMS["aten"] = load_forms


def gradients_of_rows(row: Callable[..., object], starts: Sequence[Tensor]) -> list[Tensor | None]:
    """Batched gradients of `autograd.grad`, by `vmap`, which is read when first wanted."""
    transforms = importlib.import_module("maquette.transforms.gradients")
    return cast("list[Tensor | None]", transforms.gradients_of_rows(row, starts))


VMAPPED.append(gradients_of_rows)


def register_functionalization(op: OperatorBase, rule: Callable[..., object]) -> None:
    """Register a functionalization rule, once what it is registered with has been read."""
    importlib.import_module("maquette.transforms.functional.contexts")
    FUNCTIONALIZE_IMPLS[0](op, rule)


FUNCTIONALIZE_IMPLS.append(register_functionalization)


def functionalize_effect(mode: object, op: OperatorBase, args: object, kwargs: object) -> object:
    """Call an operator with an effect under a functional mode; NotImplemented if it has none."""
    if get_effect(op) is None:
        return NotImplemented
    importlib.import_module("maquette.higher_order.effects")  # which takes this one's place
    return EFFECTS[0](mode, op, args, kwargs)


EFFECTS.append(functionalize_effect)


def load_higher_order() -> bool:
    """Define the higher-order operators; whether that is done."""
    importlib.import_module("maquette.higher_order")
    return True


LATE["higher_order"] = load_higher_order


def load_profiler_ranges() -> bool:
    """Define the operators of `profiler`; whether that is done."""
    importlib.import_module("maquette.aten.profiler_ranges")
    return True


LATE["profiler"] = load_profiler_ranges
