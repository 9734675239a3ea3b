"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from maquette.api import functions as mq
from maquette.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The parameters, flattened, one after the other; TypeError if on several devices."""
    members = list(parameters)
    _check_one_device(members)
    return mq.cat([parameter.view(-1) for parameter in members])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make each parameter a view of its part of `vec`; TypeError if on several devices."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    members = list(parameters)
    _check_one_device(members)
    start = 0
    for parameter in members:
        end = start + parameter.numel()
        parameter.data = vec[start:end].view_as(parameter).data
        start = end


def _check_one_device(parameters: list[Tensor]) -> None:
    devices = {str(parameter.device) for parameter in parameters}
    if len(devices) > 1:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported; got "
            f"{sorted(devices)}."
        )
