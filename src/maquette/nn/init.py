"""Initial values of parameters, written in place, outside autograd, into the tensor given.

No function here reads a value back, so all work on fake and on meta tensors. The
scales follow Glorot and Bengio 2010 (`xavier_*`), He et al. 2015 (`kaiming_*`) and Saxe et al. 2013
(`orthogonal_`); fan_in and fan_out count the inputs and outputs of one element of the layer.
"""

import functools
import math
import warnings
from collections.abc import Callable
from typing import ParamSpec

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.dispatch.torch_function import overridable
from maquette.tensor import Tensor

P = ParamSpec("P")

_LINEAR = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
)
_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


# PyTorch hands all arguments to handlers by name.
_offered = functools.partial(overridable, by_name=True)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance through a nonlinearity; `param` is leaky_relu's slope."""
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, int | float):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


def _uniform(tensor: Tensor, a: float, b: float, generator: object | None) -> Tensor:
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def _normal(tensor: Tensor, mean: float, std: float, generator: object | None) -> Tensor:
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _filled(tensor: Tensor, val: float) -> Tensor:
    with no_grad():
        return tensor.fill_(val)


@_offered
def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: object | None = None
) -> Tensor:
    """Uniform on [a, b)."""
    return _uniform(tensor, a, b, generator)


@_offered
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: object | None = None
) -> Tensor:
    """Normal."""
    return _normal(tensor, mean, std, generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: object | None = None,
) -> Tensor:
    """Normal, confined to [a, b].

    What falls outside is drawn again until nothing does, as in PyTorch. Fake and meta tensors have
    no values to look at; they, and bounds that hold less than a quarter of the values, go by the
    inverse of the distribution function.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )
    low = math.erf((a - mean) / (std * math.sqrt(2.0)))
    high = math.erf((b - mean) / (std * math.sqrt(2.0)))
    with no_grad():
        if tensor.is_meta or tensor.fake_mode is not None or high - low < 0.5:
            tensor.uniform_(low, high, generator=generator)
            tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean)
            return tensor.clamp_(min=a, max=b)
        kept = tensor.normal_(mean, std, generator=generator)
        while bool((outside := (kept < a) | (kept > b)).any()):
            again = mq.empty_like(tensor).normal_(mean, std, generator=generator)
            kept = mq.where(outside, again, kept)
        return tensor if kept is tensor else tensor.copy_(kept)


@_offered
def constant_(tensor: Tensor, val: float) -> Tensor:
    """`val` everywhere."""
    return _filled(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return _filled(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    with no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix; ValueError unless 2-dimensional."""
    _check_two_dimensional("eye_", tensor)
    with no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution (3 to 5 dimensions) that passes its input on, in each of `groups` groups."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(
            f"dirac_: Only tensors with 3, 4, or 5 dimensions are supported; got {tensor.dim()}."
        )
    if tensor.shape[0] % groups != 0:
        raise ValueError(
            f"dirac_: dim 0 must be divisible by groups; got {tensor.shape[0]} and {groups}."
        )
    per_group = tensor.shape[0] // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        middle = tensor[(slice(None), slice(None), *centre)]
        for group in range(groups):
            middle.narrow(0, group * per_group, per_group).diagonal().fill_(1)
    return tensor


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: object | None = None) -> Tensor:
    """Uniform, of variance gain² * 2 / (fan_in + fan_out)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / float(fan_in + fan_out))
    return _uniform(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: object | None = None) -> Tensor:
    """Normal, of variance gain² * 2 / (fan_in + fan_out)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return _normal(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


@_offered
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: object | None = None,
) -> Tensor:
    """Uniform, of variance gain² / fan, where the gain is that of `nonlinearity` with slope a."""
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return _uniform(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: object | None = None,
) -> Tensor:
    """Normal, of variance gain² / fan, where the gain is that of `nonlinearity` with slope a."""
    if _is_empty(tensor):
        return tensor
    return _normal(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: object | None = None) -> Tensor:
    """Orthonormal rows or columns, whichever are fewer, of the tensor as (size 0, the rest)."""
    if tensor.dim() < 2:
        raise ValueError(
            f"orthogonal_: Only tensors with 2 or more dimensions are supported; got {tensor.dim()}"
        )
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with no_grad():
        flat = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = mq.linalg_qr(flat.t() if rows < columns else flat)
        q *= mq.diagonal(r).sign()  # else the decomposition's choice of signs shows
        tensor.view(rows, columns).copy_(q.t() if rows < columns else q)
        return tensor.mul_(gain)


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: object | None = None
) -> Tensor:
    """Normal, with a fraction `sparsity` of each column zero (Martens 2010)."""
    _check_two_dimensional("sparse_", tensor)
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            chosen = mq.randperm(rows, device=tensor.device)[:zeros]
            tensor[:, column].index_fill_(0, chosen, 0)
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    # PyTorch's private name: model files call it.
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions; got "
            f"{tensor.dim()}."
        )
    out_maps, in_maps, *space = tensor.shape
    field = 1
    for size in space:
        field *= size
    return in_maps * field, out_maps * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {list(modes)}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


_no_grad_uniform_ = uniform_  # PyTorch's names; modules outside of it use them
_no_grad_normal_ = normal_
_no_grad_trunc_normal_ = trunc_normal_


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    return constant_(tensor, val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    return zeros_(tensor)


def _is_empty(tensor: Tensor) -> bool:
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True


def _check_two_dimensional(name: str, tensor: Tensor) -> None:
    if tensor.dim() != 2:
        raise ValueError(
            f"{name}: Only tensors with 2 dimensions are supported; got {tensor.dim()}."
        )


def _deprecated(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """A function of before the trailing underscore: it warns and calls the present one."""
    new = function.__name__

    @functools.wraps(function)
    def old(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        warnings.warn(
            f"`nn.init.{new[:-1]}` is now deprecated in favor of `nn.init.{new}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    return old


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
