"""Conjugate and negative views: bits that views carry and everything else resolves."""

from __future__ import annotations

from typing import Any

import pytest

import maquette as mq

VALUES = [1 + 2j, 3 - 1j]


def test_T18_conj_is_a_view_with_a_bit() -> None:
    x = mq.tensor(VALUES)
    y = x.conj()
    assert y.is_conj()
    assert y._base is x
    assert not y.conj().is_conj()
    assert y.data_ptr() == x.data_ptr()


def test_T19_conj_of_reals_is_the_tensor_itself() -> None:
    x = mq.ones(2)
    assert x.conj() is x
    assert x.resolve_conj() is x
    assert mq.real(x) is x


def test_views_carry_the_bit_and_kernels_resolve_it() -> None:
    y = mq.tensor(VALUES).conj()
    assert y[0].is_conj()
    assert y[0].item() == 1 - 2j
    assert not (y * 2).is_conj()
    assert (y * 2).tolist() == [2 - 4j, 6 + 2j]
    assert not y.clone().is_conj()


def test_M35_the_imaginary_part_of_a_conjugate_is_a_negative_view() -> None:
    w = mq.tensor(VALUES)
    part = w.conj().imag
    assert part.is_neg()
    assert part.tolist() == [-2, 1]
    assert part._base.is_complex()


def test_a_write_goes_through_the_bit() -> None:
    x = mq.tensor(VALUES)
    x.conj().mul_(1j)
    assert x.tolist() == [v * -1j for v in VALUES]
    x.conj()[0] = 5j
    assert x[0].item() == -5j


def test_negative_views_resolve_when_used_and_write_back() -> None:
    x = mq.ones(3)
    n = mq._neg_view(x)
    assert (n + 1).tolist() == [0, 0, 0]
    assert n.add_(3) is n
    assert n.is_neg()
    assert x.tolist() == [-2, -2, -2]


def test_both_bits_resolve_together() -> None:
    y = mq._neg_view(mq.tensor(VALUES)).conj()
    assert y.resolve_neg().resolve_conj().tolist() == [-v.conjugate() for v in VALUES]


def test_view_as_real_refuses_an_unresolved_conjugate() -> None:
    with pytest.raises(RuntimeError, match="resolve_conj"):
        mq.view_as_real(mq.tensor(VALUES).conj())


def test_fake_conjugates_carry_the_bit() -> None:
    mode = mq.FakeTensorMode()
    fake = mode.from_tensor(mq.tensor(VALUES))
    assert fake.conj().is_conj()
    assert not (fake.conj() + 1).is_conj()
    assert fake.conj().imag.is_neg()


def test_conjugates_differentiate() -> None:
    x = mq.tensor(VALUES, requires_grad=True)
    (x.conj() * x).real.sum().backward()
    assert x.grad.tolist() == [2 * v for v in VALUES]


def test_lists_are_resolved_member_by_member() -> None:
    x = mq.tensor(VALUES)
    assert mq.cat([x.conj(), x]).tolist() == [v.conjugate() for v in VALUES] + VALUES


def test_complex_keeps_infinite_parts() -> None:
    z = mq.complex(mq.tensor([1.0]), mq.tensor([float("inf")]))
    assert z.real.item() == 1.0
    assert z.imag.item() == float("inf")


def test_repeated_elements_stay_to_be_conjugated() -> None:
    x = mq.tensor([1 + 1j, 2 + 2j]).conj()
    repeated = mq.repeat_interleave(x, mq.tensor([1, 2]))
    assert repeated.is_conj()
    assert repeated.tolist() == [1 - 1j, 2 - 2j, 2 - 2j]


class Wrapper(mq.Tensor):
    """Holds a tensor and runs operators on it."""

    held: mq.Tensor

    @staticmethod
    def of(held: mq.Tensor) -> Wrapper:
        made = mq.Tensor._make_wrapper_subclass(Wrapper, held.shape, dtype=held.dtype)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = [a.held if isinstance(a, Wrapper) else a for a in args]
        return Wrapper.of(op(*plain, **(kwargs or {})))


@pytest.mark.parametrize("turn", [lambda t: t.conj(), lambda t: t.mH, mq.ops.aten._neg_view])
@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a @ b,
        lambda a, b: b * a,
        lambda a, b: mq.addmm(b, a, a),
        lambda a, b: mq.where(mq.tensor([True, False]), a, b),
    ],
)
def test_lazy_tensors_beside_subclasses_have_their_values(turn: Any, function: Any) -> None:
    """The kernel read their memory as it is: half of a gradient by a wrapped tangent was wrong."""
    a, b = mq.tensor([[1 + 2j, 3 - 1j], [0.5j, 2]]), mq.tensor([[1j, 2], [3 + 1j, 4 - 2j]])
    assert mq.allclose(function(turn(a), Wrapper.of(b)).held, function(turn(a), b))
