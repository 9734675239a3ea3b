"""Tensors of complex32: their data, and what is computed with them."""

import copy
import io
import pickle

import pytest

import maquette.torch as torch

half = torch.tensor([1.5, 0.0], dtype=torch.float16)


def test_halves_times_an_imaginary_number_are_complex32() -> None:
    """Finding 38."""
    a = half + half * 1j
    assert (a.dtype, a.element_size()) == (torch.complex32, 4)
    assert a.tolist() == [1.5 + 1.5j, 0j]
    assert repr(a).endswith("dtype=torch.complex32)")


def test_the_parts_of_complex32_are_views() -> None:
    """Finding 38."""
    a = torch.zeros(2, dtype=torch.complex32)
    a.real.fill_(1)
    a.imag[0] = 2
    assert torch.view_as_real(a).tolist() == [[1.0, 2.0], [1.0, 0.0]]
    assert a.conj().tolist() == [1 - 2j, 1 + 0j]
    assert torch.view_as_complex(torch.ones(1, 2, dtype=torch.float16)).dtype == torch.complex32


@pytest.mark.parametrize(
    ("compute", "value"),
    [
        (lambda a: a + 1, 1 - 1j),
        (lambda a: a * a, -1 + 0j),
        (lambda a: a / 2, -0.5j),
        (lambda a: a.abs(), 1.0),
        (lambda a: a.to(torch.bool), True),
        (lambda a: a.logical_not(), False),
        (lambda a: a.masked_fill(a != 1, 3j), 3j),
        (lambda a: a.sgn(), -1j),
        (lambda a: a.exp().abs(), 1.0),
        (lambda a: torch.stack([a, -a]).sum(0), 0j),
        (lambda a: torch.stack([a, -a]).var(0), 2.0),
        (lambda a: a.to(torch.complex64), -1j),
    ],
)
def test_complex32_is_computed_with(compute: object, value: object) -> None:
    """Finding 38: NumPy's kind of these elements is not complex; rules ask for the dtype."""
    a = torch.tensor([-1j], dtype=torch.complex32)
    assert compute(a).tolist() == [value]  # type: ignore[operator]


def test_the_real_part_of_complex32_is_taken_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert torch.tensor([2 - 1j], dtype=torch.complex32).to(torch.float32).tolist() == [2.0]


def test_gradients_of_complex32() -> None:
    """Finding 38."""
    a = torch.tensor([3 + 4j], dtype=torch.complex32, requires_grad=True)
    a.abs().sum().backward()
    assert a.grad.dtype == torch.complex32
    assert abs(a.grad.item() - (0.6 + 0.8j)) < 1e-3


def test_complex32_is_saved_and_copied() -> None:
    """Finding 38."""
    a = torch.tensor([1 + 2j], dtype=torch.complex32)
    file = io.BytesIO()
    torch.save(a, file)
    file.seek(0)
    for again in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a), torch.load(file)):
        assert (again.dtype, again.tolist()) == (a.dtype, a.tolist())
