"""Generators, and what the random operators refuse."""

import subprocess
import sys
from collections.abc import Callable

import pytest

import maquette as mq
from maquette import Tensor
from maquette.tensor.streams.generator import fork_rng


def test_T53_the_same_seed_gives_equal_draws() -> None:
    mq.manual_seed(7)
    first = mq.rand(3).tolist()
    assert mq.rand(3).tolist() != first
    mq.manual_seed(7)
    assert mq.rand(3).tolist() == first


def test_T53_generators_stand_alone() -> None:
    g = mq.Generator()
    g.manual_seed(7)
    before = mq.get_rng_state()
    first = mq.rand(3, generator=g)
    assert mq.rand(3, generator=g.manual_seed(7)).tolist() == first.tolist()
    assert mq.get_rng_state().tolist() == before.tolist()


def test_T53_seeds() -> None:
    g = mq.Generator()
    assert g.manual_seed(-1).initial_seed() == 2**64 - 1
    with pytest.raises((RuntimeError, ValueError)):
        g.manual_seed(2**64)


def test_T53_states_are_restored() -> None:
    g = mq.Generator().manual_seed(1)
    state, copied = g.get_state(), g.clone_state()
    first = mq.rand(2, generator=g).tolist()
    g.set_state(state)
    assert mq.rand(2, generator=g).tolist() == first
    assert mq.rand(2, generator=copied).tolist() == first


def test_T53_draws_in_fork_rng_leave_no_trace() -> None:
    mq.manual_seed(7)
    with fork_rng():
        mq.rand(5)
    drawn = mq.rand(2).tolist()
    mq.manual_seed(7)
    assert mq.rand(2).tolist() == drawn


def test_T53_fakes_never_advance_a_generator() -> None:
    before = mq.get_rng_state().tolist()
    with mq.FakeTensorMode():
        mq.rand(3)
    assert mq.get_rng_state().tolist() == before


def test_T54_no_uniform_integers() -> None:
    with pytest.raises(NotImplementedError):
        mq.rand(3, dtype=mq.int64)


REFUSED: dict[str, Callable[[], Tensor]] = {
    "randint": lambda: mq.randint(3, 3, (2,)),
    "normal": lambda: mq.normal(0.0, -1.0, (2,)),
    "normal_": lambda: mq.zeros(2).normal_(0, -1),
    "bernoulli": lambda: mq.bernoulli(mq.tensor([1.5])),
    "bernoulli_": lambda: mq.zeros(2).bernoulli_(-0.5),
    "negative weight": lambda: mq.multinomial(mq.tensor([-1.0, 2.0]), 1),
    "infinite weight": lambda: mq.multinomial(mq.tensor([float("inf"), 2.0]), 1),
    "nan weight": lambda: mq.multinomial(mq.tensor([float("nan"), 2.0]), 1),
}


@pytest.mark.parametrize("draw", REFUSED.values(), ids=REFUSED)
def test_T54_what_cannot_be_drawn(draw: Callable[[], Tensor]) -> None:
    with pytest.raises(RuntimeError):
        draw()


def test_T54_integers_are_int64() -> None:
    assert mq.randint(3, (2,)).dtype is mq.randperm(3).dtype is mq.int64


def test_T53_a_process_that_sets_no_seed_draws_other_numbers_than_another():
    program = "import maquette as mq; print(mq.initial_seed(), mq.rand(2).tolist())"
    first, second = (subprocess.check_output([sys.executable, "-c", program]) for _ in range(2))
    assert first != second
