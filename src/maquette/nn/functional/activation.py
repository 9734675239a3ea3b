"""Activations, softmaxes and their in-place forms.

What lives here: the choice between an operator and its in-place twin, and defaults. What does
not: the arithmetic and its derivative (pages in `maquette.aten`). The names of the parameters are
PyTorch's; `inplace=True` overwrites `input` and returns it.
"""

import warnings

from maquette.api import functions as mq
from maquette.core.dtype import dtype as dtype_
from maquette.core.layout import contiguous_format
from maquette.library.advice import advised
from maquette.tensor import Tensor


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Keep elements above `threshold`, replace the others by `value`."""
    return (mq.threshold_ if inplace else mq.threshold)(input, threshold, value)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(0, x)."""
    return mq.relu_(input) if inplace else mq.relu(input)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Clamp to [min_val, max_val]."""
    if min_val > max_val:
        error = ValueError("min_val cannot be greater than max_val")
        raise advised(error, f"They are {min_val} and {max_val}.")
    return (mq.hardtanh_ if inplace else mq.hardtanh)(input, min_val, max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(0, x), 6)."""
    return (mq.relu6_ if inplace else mq.relu6)(input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above zero, alpha * (exp(x) - 1) below."""
    return (mq.elu_ if inplace else mq.elu)(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The self-normalizing elu of Klambauer et al. 2017."""
    return (mq.selu_ if inplace else mq.selu)(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """The elu that is continuously differentiable for every alpha (Barron 2017)."""
    return (mq.celu_ if inplace else mq.celu)(input, alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x above zero, negative_slope * x below."""
    return (mq.leaky_relu_ if inplace else mq.leaky_relu)(input, negative_slope)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """leaky_relu with a learnable slope: one, or one for each channel (dimension 1)."""
    return mq.prelu(input, weight)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """leaky_relu with a slope drawn from [lower, upper]; in evaluation, their mean."""
    return (mq.rrelu_ if inplace else mq.rrelu)(input, lower, upper, training)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b), where a and b are the halves of `input` along `dim`."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support a 0-dimensional input: there is nothing to halve.")
    return mq.glu(input, dim)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(sigmoid(x)), without overflow."""
    return mq.log_sigmoid(input) if out is None else mq.log_sigmoid(input, out=out)


def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    """x * Phi(x); `approximate="tanh"` takes the tanh form (Hendrycks and Gimpel 2016)."""
    if out is not None:
        return mq.gelu(input, approximate=approximate, out=out)
    return mq.gelu(input, approximate=approximate)


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Zero within [-lambd, lambd], x outside."""
    return mq.hardshrink(input, lambd) if out is None else mq.hardshrink(input, lambd, out=out)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x moved towards zero by lambd, zero within [-lambd, lambd]."""
    return mq.softshrink(input, lambd) if out is None else mq.softshrink(input, lambd, out=out)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - input.tanh()


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


def softplus(
    input: Tensor, beta: float = 1, threshold: float = 20, *, out: Tensor | None = None
) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""
    if out is not None:
        return mq.softplus(input, beta, threshold, out=out)
    return mq.softplus(input, beta, threshold)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return input.sigmoid()


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6."""
    return (mq.hardsigmoid_ if inplace else mq.hardsigmoid)(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x), also called swish."""
    return mq.silu_(input) if inplace else mq.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)) (Misra 2019)."""
    return (mq.mish_ if inplace else mq.mish)(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * relu6(x + 3) / 6 (Howard et al. 2019)."""
    return (mq.hardswish_ if inplace else mq.hardswish)(input)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype_ | None = None
) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`; `dtype` casts the input first."""
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    return mq.softmax(input, dim, dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype_ | None = None
) -> Tensor:
    """softmax(-x) along `dim`; `dtype` casts the negated input first."""
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    return mq.softmax(-input, dim, dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype_ | None = None
) -> Tensor:
    """log(softmax(x)) along `dim`, in one stable operator; `dtype` casts the input first."""
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return mq.log_softmax(input, dim, dtype=dtype)


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        f"dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample from the Gumbel-softmax distribution (Jang et al. 2016).

    hard: round to one-hot in the forward pass; the gradient stays the soft sample's. `eps` is
    deprecated and has no effect.
    """
    if eps != 1e-10:
        warnings.warn("gumbel_softmax: eps is deprecated and has no effect.", stacklevel=2)
    gumbels = -mq.empty_like(logits, memory_format=contiguous_format).exponential_().log()
    gumbels = (logits + gumbels) / tau  # one name, so that the noise goes when PyTorch's goes
    soft = gumbels.softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = mq.zeros_like(logits, memory_format=contiguous_format).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold` in place."""
    return mq.threshold_(input, threshold, value)


def relu_(input: Tensor) -> Tensor:
    """`relu` in place."""
    return mq.relu_(input)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` in place."""
    return mq.hardtanh_(input, min_val, max_val)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu` in place."""
    return mq.elu_(input, alpha)


def selu_(input: Tensor) -> Tensor:
    """`selu` in place."""
    return mq.selu_(input)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` in place."""
    return mq.celu_(input, alpha)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place."""
    return mq.leaky_relu_(input, negative_slope)


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """`rrelu` in place."""
    return mq.rrelu_(input, lower, upper, training)
