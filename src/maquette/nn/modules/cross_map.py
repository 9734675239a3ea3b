"""`CrossMapLRN2d`, the older local response normalization, as PyTorch has it.

Its window over channels is not that of `LocalResponseNorm`: the first channel's square, once in
the sum, stays in it, and the gradient takes its sums over a window of its own. Both are kept, since
trained weights of old models depend on them.
"""

from typing import Any, cast

from maquette.api import functions as mq
from maquette.autograd import Function
from maquette.nn.base import Module
from maquette.nn.modules._construct import described
from maquette.tensor import Tensor


class CrossMapLRN2d(Module):
    """Divides (batch, channels, height, width) by a power of the sum of squares of neighbours.

    size: how many channels count; alpha, beta, k: ``(k + alpha / size * sum) ** beta``.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """The input's shape; ValueError for an input that is not 4-d."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        result: Any = _CrossMap.apply(input, self.size, self.alpha, self.beta, self.k)
        return cast(Tensor, result)

    def extra_repr(self) -> str:
        """The size and the constants."""
        return f"{self.size}, {described(self, 'alpha', 'beta', 'k')}"


class _CrossMap(Function):
    @staticmethod
    def forward(  # type: ignore[override]  # as users write them
        ctx: Any, input: Tensor, size: int, alpha: float, beta: float, k: float
    ) -> Tensor:
        reach = int((size - 1) / 2 + 1)  # of channels on either side, itself counted
        squares = _summed(_near(input, reach), input * input)
        scale = squares * (alpha / size) + k
        result = input * scale.pow(-beta)
        ctx.save_for_backward(input, result, scale)
        ctx.size, ctx.slope, ctx.beta = size, 2 * alpha * beta / size, beta
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]  # as users write them
        input, result, scale = ctx.saved_tensors
        if ctx.size == 1:
            raise RuntimeError("CrossMapLRN2d of size 1 has no gradient: use LocalResponseNorm")
        sums = _summed(_behind(input, ctx.size), grad * result / scale)
        return scale.pow(-ctx.beta) * grad - ctx.slope * input * sums, None, None, None, None


def _summed(window: Tensor, values: Tensor) -> Tensor:
    """Sums over channels: (to, from) by (batch, from, height, width)."""
    return mq.einsum("ij,bjhw->bihw", window, values)


def _places(input: Tensor) -> tuple[Tensor, Tensor]:
    channels = mq.arange(input.size(1), device=input.device)
    return channels.unsqueeze(1), channels.unsqueeze(0)


def _near(input: Tensor, reach: int) -> Tensor:
    """Which channels count for each: those nearer than `reach`, and the first if ever."""
    to, of = _places(input)
    near = (of - to).abs() < reach
    return (near | ((of == 0) & (to >= reach))).to(input.dtype)


def _behind(input: Tensor, size: int) -> Tensor:
    """Which channels' gradients count for each."""
    to, of = _places(input)
    start = to - int(size - (size - 1) / 2)
    return ((of >= start) & (of < start + size)).to(input.dtype)
