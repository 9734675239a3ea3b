"""`torch.signal.windows`: the usual windows, as compositions of operators.

Every window is made for ``M`` points, or for ``M + 1`` without the last (``sym=False``, for
spectra), as a formula of the points' positions. The formulas are those of F. J. Harris, "On the Use
of Windows for Harmonic Analysis with the Discrete Fourier Transform" (1978).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

from maquette.api import functions as mq
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import float32, float64, get_default_dtype
from maquette.core.layout import layout as Layout
from maquette.core.layout import strided
from maquette.tensor.tensor import Tensor

Place = Device | str | None


class Options(NamedTuple):
    """Where and how a window is made; None is the default."""

    dtype: DType | None
    layout: Layout
    device: Place
    requires_grad: bool


def _window(
    name: str,
    M: int,
    sym: bool,
    options: Options,
    formula: Callable[[Tensor, int], Tensor],
    fewest: int = 2,
) -> Tensor:
    """The values of ``formula(positions, number of positions)``, after PyTorch's checks.

    fewest: points for which the formula holds; a window of fewer is 1.
    """
    kind = options.dtype or get_default_dtype()
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if options.layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {options.layout}")
    if kind not in (float32, float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
    points = M if sym or M < 2 else M + 1
    at = mq.arange(points, dtype=kind, device=options.device)
    made = mq.ones_like(at) if M < fewest else formula(cast(Tensor, at), points)[:M]
    return cast(Tensor, made).requires_grad_() if options.requires_grad else cast(Tensor, made)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|n - center| / tau); the center is the middle, and given only for ``sym=False``."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    options = Options(dtype, layout, device, requires_grad)

    def formula(at: Tensor, points: int) -> Tensor:
        middle = (points - 1) / 2 if center is None else center
        return ((at - middle).abs() * (-1 / tau)).exp()

    return _window("exponential", M, sym, options, formula, fewest=1)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """sin(pi (n + 1/2) / M): half a wave."""
    options = Options(dtype, layout, device, requires_grad)
    return _window(
        "cosine", M, sym, options, lambda at, points: ((at + 0.5) * (math.pi / points)).sin()
    )


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-((n - middle) / std)**2 / 2)."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    options = Options(dtype, layout, device, requires_grad)

    def formula(at: Tensor, points: int) -> Tensor:
        scaled = (at - (points - 1) / 2) * (1 / (std * math.sqrt(2)))
        return (-(scaled * scaled)).exp()

    return _window("gaussian", M, sym, options, formula)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """i0(beta sqrt(1 - x**2)) / i0(beta), for x from -1 to 1."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    options = Options(dtype, layout, device, requires_grad)

    def formula(at: Tensor, points: int) -> Tensor:
        x = at * (2 / (points - 1)) - 1
        # Rounding may carry the ends past 1, where the root has no real value.
        root = (1 - x * x).clamp(min=0).sqrt()
        whole = mq.tensor(float(beta), dtype=at.dtype, device=at.device)
        return cast(Tensor, mq.i0(root * beta) / mq.i0(whole))

    return _window("kaiser", M, sym, options, formula)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """a[0] - a[1] cos(x) + a[2] cos(2x) ..., x going once around."""
    options = Options(dtype, layout, device, requires_grad)
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = list(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    return _window("general_cosine", M, sym, options, _sum_of_cosines(weights))


def _sum_of_cosines(weights: Sequence[float]) -> Callable[[Tensor, int], Tensor]:
    def formula(at: Tensor, points: int) -> Tensor:
        x = at * (2 * math.pi / (points - 1))
        total = mq.zeros_like(at)
        for i, weight in enumerate(weights):
            total = total + (x * i).cos() * (weight * (-1) ** i)
        return cast(Tensor, total)

    return formula


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - (1 - alpha) cos(x)."""
    return general_cosine(
        M,
        a=[alpha, 1.0 - alpha],
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """`general_hamming` with 0.54."""
    return general_hamming(
        M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """`general_hamming` with 0.5."""
    return general_hamming(
        M,
        alpha=0.5,
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.42 - 0.5 cos(x) + 0.08 cos(2x)."""
    options = Options(dtype, layout, device, requires_grad)
    return _window("blackman", M, sym, options, _sum_of_cosines([0.42, 0.5, 0.08]))


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Four cosines with the lowest side lobes of their kind (A. H. Nuttall, 1981)."""
    return general_cosine(
        M,
        a=[0.3635819, 0.4891775, 0.1365995, 0.0106411],
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """1 - |x| for x from -1 to 1: a triangle."""
    options = Options(dtype, layout, device, requires_grad)
    return _window(
        "bartlett",
        M,
        sym,
        options,
        lambda at, points: 1 - (at * (2 / (points - 1)) - 1).abs(),
    )
