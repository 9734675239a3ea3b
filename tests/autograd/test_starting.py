"""What backward may start from, and gradients under other names (findings 5, 7, 10, 23)."""

import pytest

import maquette as mq
import maquette.torch as torch


def test_T57_a_complex_scalar_needs_a_gradient_to_start_from() -> None:
    c = mq.tensor(1 + 2j, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"only for real scalar outputs but got torch\.complex64"
    ):
        (c * 2).backward()
    assert mq.autograd.grad(c * 2, c, mq.tensor(1 + 0j))[0].item() == 2


def test_T57_gradients_of_another_kind_of_number_are_refused() -> None:
    x = mq.ones((), requires_grad=True)
    with pytest.raises(RuntimeError, match="required to have the same dtype"):
        (x * 2).backward(mq.tensor(1 + 0j))


def test_T57_no_inputs_are_refused() -> None:
    x = mq.ones((), requires_grad=True)
    with pytest.raises(RuntimeError, match="cannot be empty"):
        mq.autograd.grad(x * 2, [])


def test_T57_grad_has_another_name_and_may_be_deleted() -> None:
    p = torch.nn.Parameter(mq.ones(2))
    p._grad = mq.ones(2)
    assert p.grad.tolist() == [1.0, 1.0]
    del p.grad
    assert p.grad is None


@pytest.mark.parametrize("dim", [None, 0])
@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
def test_T56_unique_values_require_grad_and_refuse_backward(name: str, dim: int | None) -> None:
    x = mq.tensor([1.0, 1.0, 2.0], requires_grad=True)
    values = getattr(torch, name)(x, dim=dim)
    assert values.requires_grad
    with pytest.raises(NotImplementedError, match=r"derivative for .*unique.* is not implemented"):
        values.sum().backward()
