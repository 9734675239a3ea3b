"""The reverse engine: `backward`, `grad`, grad mode, `Function`."""

from maquette.autograd import graph
from maquette.autograd.anomaly import detect_anomaly, set_detect_anomaly
from maquette.autograd.api import backward, grad
from maquette.autograd.function import Function
from maquette.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)

__all__ = [
    "Function",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
