"""Copy on write: `_lazy_clone` and what ends the sharing."""

import pytest

import maquette as mq
import maquette.torch as torch

shares = torch._C._is_cow_tensor
address = torch._C._data_address


def pair() -> tuple[mq.Tensor, mq.Tensor]:
    t = mq.arange(4)
    return t, t._lazy_clone()


def test_a_lazy_clone_has_a_storage_of_its_own_and_the_same_memory() -> None:
    """Finding 40."""
    t, clone = pair()
    assert shares(t)
    assert shares(clone)
    assert torch._C._storage_address(t) != torch._C._storage_address(clone)
    assert address(t) == address(clone)
    assert (t + clone).tolist() == [0, 2, 4, 6]
    assert shares(t)


def test_mutating_one_leaves_the_other_its_memory() -> None:
    """Finding 40: the first to be mutated is copied; the last has the memory for itself."""
    t, clone = pair()
    view, before = t.view(2, 2), address(t)
    view += 1
    assert (shares(t), shares(view), shares(clone)) == (False, False, True)
    assert address(t) == address(view) != before == address(clone)
    clone.mul_(10)
    assert not shares(clone)
    assert address(clone) == before
    assert (t.tolist(), clone.tolist()) == ([1, 2, 3, 4], [0, 10, 20, 30])


@pytest.mark.parametrize(
    "mutate",
    [
        lambda c: mq.add(c, 5, out=c),
        lambda c: c.random_(7, 8),
        lambda c: c.__setitem__(0, 9),
        lambda c: c.untyped_storage().fill_(0),
        lambda c: c.numpy().fill(3),
        lambda c: c.resize_(9).fill_(1),
        lambda c: mq._foreach_add_([c], 1),
    ],
)
def test_every_mutation_of_a_lazy_clone_is_its_own(mutate: object) -> None:
    """Finding 40."""
    t, clone = pair()
    mutate(clone)  # type: ignore[operator]
    assert clone.tolist() != [0, 1, 2, 3]
    assert t.tolist() == [0, 1, 2, 3]


def test_gradients_go_through_a_lazy_clone() -> None:
    """Finding 40."""
    x = mq.ones(2, requires_grad=True)
    (x * 2)._lazy_clone().mul_(3).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
