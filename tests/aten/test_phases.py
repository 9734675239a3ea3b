"""Losses that depend on what nothing determines: the phases of complex vectors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

import maquette as mq
import maquette.torch as torch

mq.manual_seed(0)
A = mq.randn(3, 3, dtype=mq.complex128)
H = A + A.mH


def leaf(t: mq.Tensor) -> mq.Tensor:
    return t.clone().requires_grad_()


@pytest.mark.parametrize(
    ("given", "loss"),
    [
        (A, lambda a: torch.linalg.svd(a)[0].real.sum()),
        (A, lambda a: torch.linalg.svd(a)[2].imag.sum()),
        (A, lambda a: torch.linalg.eig(a)[1].sum().abs()),
        (H, lambda a: torch.linalg.eigh(a)[1].sum().abs()),
    ],
)
def test_losses_of_phases_are_refused(
    given: mq.Tensor, loss: Callable[[mq.Tensor], mq.Tensor]
) -> None:
    with pytest.raises(RuntimeError, match=r"multiplication by e\^\{i phi\}"):
        loss(leaf(given)).backward()


@pytest.mark.parametrize(
    ("given", "loss"),
    [
        (A, lambda a: torch.linalg.svd(a)[0].abs().sum()),
        (A, lambda a: (lambda u, s, v: (u @ v).real.sum())(*torch.linalg.svd(a))),
        (A, lambda a: torch.linalg.eig(a)[1].abs().sum()),
        (H, lambda a: torch.linalg.eigh(a)[1].abs().sum()),
    ],
)
def test_losses_that_no_phase_changes_have_gradients(
    given: mq.Tensor, loss: Callable[[mq.Tensor], mq.Tensor]
) -> None:
    x = leaf(given)
    loss(x).backward()
    assert bool(x.grad.isfinite().all())


def test_r_alone_has_no_derivative() -> None:
    with pytest.raises(RuntimeError, match="depends on Q"):
        torch.linalg.qr(leaf(A.real), "r")[1].sum().backward()


@pytest.mark.parametrize("size", [0, 2])
def test_a_conjugated_output_is_resized(size: int) -> None:
    out = mq.empty(size, dtype=mq.complex64).conj()
    with nullcontext() if size == 0 else pytest.warns(UserWarning, match="was resized"):
        mq.add(mq.arange(3), 1j, out=out)
    assert out.is_conj()
    assert out.tolist() == [1j, 1 + 1j, 2 + 1j]


@pytest.mark.parametrize("given", [A, A.real])
def test_the_gradient_by_eigenvectors_is_hermitian(given: mq.Tensor) -> None:
    x = leaf(given)
    values, vectors = torch.linalg.eigh(x)
    weights = mq.arange(9.0, dtype=mq.float64).reshape(3, 3)
    (vectors.abs() * weights).sum().add(values.sum()).backward()
    torch.testing.assert_close(x.grad, x.grad.mH)
