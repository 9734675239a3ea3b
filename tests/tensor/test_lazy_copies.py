"""Copy on write: `_lazy_clone` and what ends the sharing."""

import ctypes

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
        lambda c: c.__setitem__(0, mq.from_dlpack(c).add_(7)[0]),
        lambda c: c.share_memory_().add_(1),
        lambda c: ctypes.c_int64.from_address(c.data_ptr()).__setattr__("value", 5),
        lambda c: ctypes.c_int64.from_address(c.untyped_storage().data_ptr()).__setattr__(
            "value", 5
        ),
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


def doubled(x: mq.Tensor, y: mq.Tensor) -> None:
    x.mul_(2)
    y.mul_(2)


def means(a: mq.Tensor, b: mq.Tensor) -> None:
    given = mq.full((3, 2), 20.0)
    mq.nn.functional.batch_norm(given, a, b + 0, training=True, momentum=0.5)
    mq.nn.functional.batch_norm(given, b, mq.ones(2), training=True, momentum=0.5)


@pytest.mark.parametrize(
    "mutate",
    [
        lambda a, b: mq._foreach_mul_([a, b], 2),
        lambda a, b: torch._fused_sgd_([a, b], [a, b], [], **SGD),
        lambda a, b: mq.aminmax(mq.full((1, 2), 8.0), dim=0, out=(a, b)),
        mq.library.custom_op("lazy_copies::doubled", doubled, mutates_args=("x", "y")),
        means,
    ],
)
def test_what_mutates_several_tensors_mutates_each_once(mutate: object) -> None:
    """Finding 40: one is a lazy clone, which others must not be mutated twice for."""
    results = []
    for clones in (False, True):
        a, b = mq.tensor([2.0, 4.0]), mq.tensor([2.0, 4.0])
        kept = b
        if clones:
            b = b._lazy_clone()
        mutate(a, b)  # type: ignore[operator]
        results.append((a.tolist(), b.tolist()))
        assert not clones or kept.tolist() == [2, 4]
    assert results[0] == results[1]


SGD = {
    "weight_decay": 0.0,
    "momentum": 0.0,
    "lr": 0.5,
    "dampening": 0.0,
    "nesterov": False,
    "maximize": False,
    "is_first_step": True,
}
