"""Derivatives by complex numbers against differences: forward, backward, and of the gradient.

Each function takes a complex matrix. A conjugate that is missing in a formula, or one too many,
leaves real numbers right, so every formula that complex numbers reach belongs here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest

import maquette as mq
import maquette.torch as torch

Function = Callable[[mq.Tensor], mq.Tensor]
F, L = mq.nn.functional, torch.linalg
RANDOM = np.random.default_rng(3)
STEP = 1e-6


def numbers(*shape: int) -> mq.Tensor:
    """Complex numbers of both parts."""
    made = RANDOM.standard_normal(shape) + 1j * RANDOM.standard_normal(shape)
    return mq.from_numpy(np.asarray(made))


OTHER, TABLE = numbers(3, 3), numbers(2, 3, 3)
FUNCTIONS: dict[str, Function] = {
    **{
        name: getattr(mq, name)
        for name in (
            "acos acosh asin asinh atan atanh cos cosh exp exp2 expm1 log log10 log1p log2 "
            "reciprocal rsqrt sgn sigmoid sin sinc sinh sqrt square tan tanh abs angle"
        ).split()
    },
    "powers": lambda a: a**a,
    "power of a number": lambda a: (1 + 1j) ** a,
    "quotient": lambda a: OTHER / (a * a.conj() + a),
    "addcdiv": lambda a: mq.addcdiv(a, a * OTHER, a + 5, value=2),
    "addcmul": lambda a: mq.addcmul(a, a, a * OTHER, value=2),
    "lerp": lambda a: mq.lerp(a, a * a, a),
    "cumprod": lambda a: a.cumprod(0),
    "prod": lambda a: a.prod(1),
    "var": lambda a: a.var(1),
    "logcumsumexp": lambda a: a.logcumsumexp(0),
    "logsumexp": lambda a: a.logsumexp(0),
    "norm": lambda a: L.vector_norm(a, 3, dim=1),
    "matmul": lambda a: a @ a.mH @ a,
    "addmm": lambda a: mq.addmm(a, a, OTHER, alpha=1j, beta=2 - 1j),
    "vdot": lambda a: mq.vdot(a[0], a[1]),
    "outer": lambda a: mq.outer(a[0], a[1].conj()),
    "conv": lambda a: F.conv1d(a[None], a[:2, :2].reshape(2, 1, 2).expand(2, 3, 2)),
    "conv_transpose": lambda a: F.conv_transpose1d(a[None], a[:, None, :2], stride=2),
    "inv": L.inv,
    "det": L.det,
    "slogdet": lambda a: L.slogdet(a)[1],
    "solve": lambda a: L.solve(a, OTHER),
    "pinv": L.pinv,
    "matrix_exp": L.matrix_exp,
    "cholesky": lambda a: L.cholesky(a @ a.mH + mq.eye(3)),
    "svdvals": L.svdvals,
    "eigvalsh": lambda a: L.eigvalsh(a + a.mH),
    "fft": lambda a: torch.fft.fft2(a) * a,
    "irfft": lambda a: torch.fft.irfft(a, 4),
    "polar": lambda a: mq.polar(a.abs(), a.angle() ** 2),
}


def product(a: mq.Tensor, b: mq.Tensor) -> float:
    """The real part of the inner product."""
    return float((a.conj() * b).real.sum())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_complex_derivatives_are_those_of_differences(name: str) -> None:
    function = FUNCTIONS[name]
    a, move = numbers(3, 3) + 2 * mq.eye(3), numbers(3, 3)
    moved = (function(a + STEP * move) - function(a - STEP * move)) / (2 * STEP)
    assert mq.allclose(mq.func.jvp(function, (a,), (move,))[1], moved, rtol=1e-5, atol=1e-6)
    came, other = numbers(*moved.shape), numbers(3, 3)
    came = came if moved.is_complex() else came.real.clone()

    def gradient(a: mq.Tensor) -> mq.Tensor:
        found: mq.Tensor = mq.func.vjp(function, a)[1](came)[0]
        return found

    assert product(gradient(a), move) == pytest.approx(product(came, moved), rel=1e-5, abs=1e-6)
    second = (gradient(a + STEP * move) - gradient(a - STEP * move)) / (2 * STEP)
    found = mq.func.vjp(gradient, a)[1](other)[0]
    assert product(found, move) == pytest.approx(product(other, second), rel=1e-4, abs=1e-5)


AT = mq.tensor([0, 0, 2])
REFUSED: dict[str, Function] = {
    "silu": F.silu,
    "nan_to_num": mq.nan_to_num,
    "scatter_reduce": lambda a: a[0].scatter_reduce(0, AT, a[1], "sum"),
    "soft_margin_loss": lambda a: F.soft_margin_loss(a, mq.ones(3)),
    "select_scatter": lambda a: a.select_scatter(a[0], 0, 1),
    "slice_scatter": lambda a: a.slice_scatter(a[:1], 0, 1, 2),
    "embedding": lambda a: F.embedding(AT, a),
    "_trilinear": lambda a: F.bilinear(a, a, mq.ones(2, 3, 3, dtype=a.dtype)),
    "native_dropout": lambda a: mq.native_dropout(a, 0.5, True)[0],
    "normal": lambda a: mq.normal(a, mq.ones(3)),
    "_to_sparse": lambda a: a.to_sparse(),
}


@pytest.mark.parametrize("fake", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_derivatives_of_real_numbers_are_refused_to_complex_ones(name: str, fake: bool) -> None:
    function = REFUSED[name]
    with mq.FakeTensorMode(allow_non_fake_inputs=True) if fake else nullcontext():
        a = mq.ones(3, 3, dtype=mq.complex128)
        plain = function(a)
        assert plain.is_complex()
        assert not plain.requires_grad
        for _ in range(20):  # kernels are joined once a call was seen
            with pytest.raises(RuntimeError, match=f"{name} does not support automatic diff"):
                function(a.requires_grad_())
        assert function(mq.ones(3, 3, requires_grad=True)).requires_grad


def test_silu_of_complex_numbers_has_a_tangent() -> None:
    a, move = numbers(3), numbers(3)
    moved = (F.silu(a + STEP * move) - F.silu(a - STEP * move)) / (2 * STEP)
    assert mq.allclose(mq.func.jvp(F.silu, (a,), (move,))[1], moved, rtol=1e-5, atol=1e-6)
