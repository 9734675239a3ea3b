"""What is done to parameters and gradients from outside a module. Names only."""

from maquette.nn.utils.clip_grad import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from maquette.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from maquette.nn.utils.stateless import functional_call

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "functional_call",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
]
